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
    items = [Item(text=f"a {word}", labels=[word], id=f"{word}-{n}")
            for word in ("cat", "car") for n in range(4)]  # fmt: skip
    Collection.build(
        items, path, n_components=2, n_codebooks=2, image_encoder="hog", text_encoder="tfidf"
    ).close()
    return path


@pytest.fixture
def serve(monkeypatch, capsys):
    """Return a function that runs `acqh serve` if it does not start."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["acqh", "serve", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code, capsys.readouterr().err

    return run


@pytest.mark.slow
def test_the_server_prints_its_address_answers_reloads_and_stops(things):
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


def test_another_host_needs_a_token_and_the_message_names_the_option(serve, things):
    status, output = serve(things, "--host", "0.0.0.0", "--port", 0)  # noqa: S104
    assert status == 1
    assert "--token" in output


@pytest.mark.slow
def test_tokens_are_made_and_printed_as_a_link_and_a_qr_code(things):
    command = [sys.executable, "-m", "acqh", "serve", str(things), "--port", "0", "--workers", "1"]
    with subprocess.Popen(
        [*command, "--token", "--write-token"], stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            line = next(line for line in process.stderr if line.startswith("Open "))
            address, token = re.search(r"(http://127\.0\.0\.1:\d+/)#token=(\S+)$", line).groups()
            code = [process.stderr.readline() for _ in range(12)]
            assert all(set(row.strip()) <= set("█▀▄ ") for row in code)
            assert any("█" in row for row in code)
            with httpx.Client(base_url=address, trust_env=False) as client:
                assert client.get("/info").status_code == 401
                client.headers["Authorization"] = f"Bearer {token}"
                assert client.get("/info").json()["writable"]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def test_a_made_token_and_a_file_with_one_exclude_each_other(serve, things):
    status, output = serve(things, "--token", "--token-file", "read.token")
    assert status == 2
    assert "--token" in output


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nothing.acqh", "--port", "0"], 1, "nothing.acqh"),
        (["THINGS", "--token-file", "nothing.token"], 1, "nothing.token"),
        (["THINGS", "--port", "70000"], 2, "65535"),
    ],
)
def test_invalid_arguments_are_rejected(serve, things, arguments, status, words):
    refused, output = serve(
        *[things if argument == "THINGS" else argument for argument in arguments]
    )
    assert refused == status
    assert words in output


def test_a_wrong_setting_in_the_environment_is_named(serve, things, monkeypatch):
    monkeypatch.setenv("ACQH_N_THREADS", "0")
    status, output = serve(things)
    assert status == 2
    assert "ACQH_N_THREADS" in output


def test_a_port_that_is_taken_is_named(serve, things):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        status, output = serve(things, "--port", port)
    assert status == 1
    assert str(port) in output
    assert "--port" in output
