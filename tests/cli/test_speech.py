"""What commands say to a person: plain sentences that name options, as much as was asked for."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import acqh
from acqh.cli import app
from acqh.cli._voice import Voice


def run(*arguments, code=0):
    """Run a command as a person does; return what it printed, results and the rest."""
    done = subprocess.run(
        [sys.executable, "-m", "acqh", *map(str, arguments)], capture_output=True, text=True,
        check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.fixture
def call(capsys, monkeypatch):
    """Give a way to run a command here, which is quicker; it returns code, results and the rest."""

    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["acqh", *map(str, arguments)])
        with pytest.raises(SystemExit) as left, warnings.catch_warnings():
            acqh.cli.main()
        return left.value.code, *capsys.readouterr()

    return main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a manifest of which one line cannot be used, and its collection."""
    path = tmp_path_factory.mktemp("speech")
    lines = [f"{word} garden,{kind},200{n % 3}" for n, (word, kind) in enumerate(
        [("rose", "flower"), ("tulip", "flower"), ("car", "vehicle"), ("bus", "vehicle")] * 3
    )]  # fmt: skip
    (path / "manifest.csv").write_text("\n".join(["text,labels,year", *lines, ",flower,2000"]))
    told = run("build", path, "--out", path / "c.acqh", "--text-encoder", "tfidf",
               "--auto-labels", "3")[1].splitlines()  # fmt: skip
    assert told[0].startswith("acqh: --auto-labels has no effect and will go")
    assert told[0].endswith("choose what counts with --targets image=0.5,text=0.5")
    assert told[1:] == ["left out manifest.csv, line 14: it has neither image nor text"]
    return path


@pytest.mark.parametrize("name", [each.name for each in app.registered_commands])
def test_every_command_can_be_asked_to_say_more_or_less(name):
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert "--verbose" in shown
    assert "--quiet" in shown
    assert CliRunner().invoke(app, [name, "-v", "-q"]).exit_code == 2


def test_a_path_without_a_collection_or_an_index_is_told_in_a_sentence(tmp_path, call):
    empty, other, none = tmp_path / "empty", tmp_path / "bits.acqh", tmp_path / "none"
    empty.mkdir()
    acqh.HammingIndex(8).add([[7], [9]]).save(other)
    np.save(tmp_path / "q.npy", np.eye(3, dtype=np.float32))
    for arguments, sentence in (
        (("search", none, "--text", "a"), f"there is no collection at {none}"),
        (("serve", empty), f"{empty} is no collection: it has no manifest.json"),
        (("remove", other, "a"), f"{other} holds a 'hamming-index', not a 'collection'"),
        (("search", empty, "--queries", tmp_path / "q.npy", "--out", tmp_path / "x"),
         f"{empty} is no index: it has no manifest.json"),
        (("verify", none), f"there is nothing at {none}"),
    ):  # fmt: skip
        assert call(*arguments) == (1, "", f"acqh: {sentence}\n")


def test_advice_names_options(folder, call):
    search = ("search", folder / "c.acqh", "--text", "rose")
    assert call(*search, "--where", "yeer=2001") == (
        1, "", "acqh: no item has a column 'yeer'; there are: label, year\n",
    )  # fmt: skip
    path = folder / "c.acqh"
    assert call("build", folder, "--out", path) == (
        1, "", f"acqh: {path} is there already; give another path, or --overwrite\n",
    )  # fmt: skip


def test_quiet_leaves_the_result_and_verbose_shows_the_log_and_the_traceback(folder, tmp_path):
    build = ("build", folder, "--text-encoder", "tfidf", "--out")
    result, rest = run(*build, tmp_path / "quiet.acqh", "--quiet")
    assert "12 items" in result
    assert rest == ""
    rest = run(*build, tmp_path / "no" / "where.acqh", "--verbose", code=1)[1]
    assert "DEBUG acqh" in rest
    assert "Traceback" in rest
    assert rest.splitlines()[-1].startswith("acqh: the folder")


def test_a_reader_that_has_enough_ends_a_search_with_success(folder):
    command = [sys.executable, "-m", "acqh", "search", folder / "c.acqh", "--text", "rose"]
    with subprocess.Popen(
        [*map(str, command), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 0, errors
    assert errors == b""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("raise max_pixels", "raise --max-pixels"),
        ("say label_separator=',' if so", "say --label-separator , if so"),
        ("images are with image_root", "images are with image_root"),
        ("search with mode='meaning' until then", "search with --mode meaning until then"),
        ("again with like='a b.acqh'", "again with acqh build --like a b.acqh"),
        ("allow_empty=True is meant", "--allow-empty is meant"),
        ("`mode` must be one of these, `x` not", "--mode must be one of these, x not"),
        ("a/max_pixels and 'max_pixels'", "a/max_pixels and 'max_pixels'"),
    ],
)  # fmt: skip
def test_arguments_of_python_are_told_as_options_where_there_are_such(said, shown):
    names = ("max_pixels", "label_separator", "mode", "allow_empty")
    options = {name: f"--{name.replace('_', '-')}" for name in names}
    assert Voice(options={"like": "acqh build --like", **options}).in_options(said) == shown
