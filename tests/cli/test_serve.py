import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from acqh.cli import main
from acqh.collection import Collection, Item


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "things.acqh"
    made = [Item(text=f"a {word}", labels=[word], id=f"{word}-{n}")
            for word in ("cat", "car") for n in range(4)]  # fmt: skip
    Collection.build(
        made, path, n_components=2, n_codebooks=2, image_encoder="hog", text_encoder="tfidf"
    ).close()
    return path


@pytest.fixture
def serve(monkeypatch, capsys):
    """Return a function that runs `acqh serve` where it refuses to start."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["acqh", "serve", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code, capsys.readouterr().err

    return run


@pytest.mark.slow
def test_it_says_where_it_is_answers_reloads_and_stops(things):
    command = [sys.executable, "-m", "acqh", "serve", str(things), "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr if " at http" in line)
            address = re.search(r"at (http://127\.0\.0\.1:\d+/)$", line)[1]
            with httpx.Client(base_url=address, trust_env=False) as client:
                answer = client.post("/search", json={"text": "cat", "k": 4}).json()
                assert {hit["labels"][0] for hit in answer["hits"]} == {"cat"}
                process.send_signal(signal.SIGHUP)
                assert "reloaded: 8 items" in process.stderr.readline()
                assert client.get("/healthz").json()["status"] == "ok"
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
    assert "Traceback" not in rest
    assert process.returncode in (0, 130)


def test_another_host_needs_a_token_and_the_message_says_how(serve, things):
    status, said = serve(things, "--host", "0.0.0.0", "--port", 0)  # noqa: S104
    assert status == 1
    assert "--token-file" in said


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nothing.acqh", "--port", "0"], 1, "nothing.acqh"),
        (["THINGS", "--token-file", "nothing.token"], 1, "nothing.token"),
        (["THINGS", "--port", "70000"], 2, "65535"),
    ],
)
def test_what_cannot_be_served_is_refused(serve, things, arguments, status, words):
    refused, said = serve(*[things if each == "THINGS" else each for each in arguments])
    assert refused == status
    assert words in said


def test_a_wrong_setting_in_the_environment_is_named(serve, things, monkeypatch):
    monkeypatch.setenv("ACQH_N_THREADS", "0")
    status, said = serve(things)
    assert status == 2
    assert "ACQH_N_THREADS" in said


def test_a_port_that_is_taken_is_named(serve, things):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = serve(things, "--port", port)
    assert status == 1
    assert str(port) in said
    assert "--port" in said
