import json
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from acqh.cli import app, demo
from acqh.collection import Collection


def is_address(line):
    return " at http://" in line


def no_progress(done, total, stage):
    pass


@pytest.fixture
def few(monkeypatch):
    """Let the set be every 40th emoji: enough to build from."""
    some = list(demo.emoji_items())[::40]
    monkeypatch.setattr(demo, "emoji_items", lambda: iter(some))
    return some


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Return a folder with the collection that the demo builds of every 40th emoji."""
    folder, some = tmp_path_factory.mktemp("cache"), list(demo.emoji_items())[::40]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "emoji_items", lambda: iter(some))
        demo.emoji_collection(folder, no_progress)
    return folder


def generation(path):
    with Collection.open(path) as collection:
        return collection.generation


def test_emoji_are_labelled_with_group_and_subgroup():
    rose = next(item for item in demo.emoji_items() if item.id == "1F339")
    assert rose.labels == ("Animals & Nature", "plant-flower")
    assert rose.text.startswith("rose, ")
    assert rose.fields["emoji"] == "\N{ROSE}"


def test_the_collection_is_built_once_and_again_for_another_version(
    plain_defaults, few, tmp_path, monkeypatch
):
    path = demo.emoji_collection(tmp_path / "new" / "folder", no_progress)
    first = generation(path)
    assert demo.emoji_collection(path.parent, no_progress) == path
    assert generation(path) == first
    monkeypatch.setattr(demo, "__version__", "0.0.1")
    demo.emoji_collection(path.parent, no_progress)
    assert generation(path) != first


def test_a_damaged_collection_is_built_again(plain_defaults, few, tmp_path):
    events = []
    path = demo.emoji_collection(tmp_path, lambda *event: events.append(event))
    assert {total for _, total, step in events if step == "encoding images"} == {len(few)}
    member = next(path.glob("*/model/*.safetensors"))
    member.write_bytes(member.read_bytes()[:-1])
    with Collection.open(demo.emoji_collection(tmp_path, no_progress)) as collection:
        assert collection.verify().ok
        assert len(collection) == len(few)


def test_the_cache_is_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo.cache_folder() == tmp_path / "acqh"
    for nothing in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert demo.cache_folder() == tmp_path / "home" / ".cache" / "acqh"


@pytest.mark.parametrize(
    ("arguments", "terminal", "ci", "serves"),
    [
        ([], True, "", True),
        ([], True, "true", False),
        ([], False, "", False),
        (["--serve"], False, "true", True),
        (["--no-serve"], True, "", False),
        (["--json"], True, "", False),
    ],
)
def test_the_web_interface_is_served_where_somebody_can_stop_it(
    monkeypatch, capsys, tmp_path, arguments, terminal, ci, serves
):
    served = []
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(demo, "emoji_collection", lambda folder, _: folder / "emoji.acqh")
    monkeypatch.setattr(demo, "_print_searches", lambda _: sys.stdout.write("searches"))
    monkeypatch.setattr(
        demo, "serve_collection", lambda path, **options: served.append((path, options))
    )
    app(["demo", "--cache-dir", str(tmp_path), *arguments], standalone_mode=False)
    shown = capsys.readouterr().out
    options = {"port": 0, "suggestions": demo.EXAMPLES, "workers": 1, "open_browser": True}
    assert served == [(tmp_path / "emoji.acqh", options)] * serves
    assert shown.startswith("searches") is not serves
    if "--json" not in arguments:
        assert (f"acqh serve {tmp_path}" in shown) is not serves


def test_without_a_terminal_searches_are_printed(cache):
    done = CliRunner().invoke(app, ["demo", "--cache-dir", str(cache), "--json"])
    answer = json.loads(done.stdout)
    assert list(answer["searches"]) == demo.EXAMPLES
    assert all(len(names) == 5 for names in answer["searches"].values())


def test_the_demo_serves_the_web_interface(cache):
    command = [sys.executable, "-m", "acqh", "demo", "--serve", "--cache-dir", str(cache)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as done:
        try:
            address = re.search(r"at (http://\S+)$", next(filter(is_address, done.stderr)))[1]
            with httpx.Client(base_url=address, trust_env=False) as client:
                stats = client.get("/info").json()
                assert (stats["n_items"], stats["examples"]) == (48, demo.EXAMPLES)
                assert "<title>acqh</title>" in client.get("/").text
        finally:
            done.send_signal(signal.SIGINT)
            assert "Traceback" not in done.stderr.read()
