"""Messages of commands: one-line errors, and output according to the verbosity."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import acqh
from acqh.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table that has one invalid line, and its collection."""
    path = tmp_path_factory.mktemp("speech")
    lines = [f"{word} garden,{kind},200{n % 3}" for n, (word, kind) in enumerate(
        [("rose", "flower"), ("tulip", "flower"), ("car", "vehicle"), ("bus", "vehicle")] * 3
    )]  # fmt: skip
    (path / "manifest.csv").write_text("\n".join(["text,labels,year", *lines, ",flower,2000"]))
    build = ("build", str(path), "--out", str(path / "c.acqh"), "--text-encoder", "tfidf")
    notes = CliRunner().invoke(app, build).stderr
    assert "Skipped 1: it has neither image nor text\n  manifest.csv, line 14\n" in notes
    return path


COMMANDS = [
    [command.callback.__name__.removesuffix("_folder")] for command in app.registered_commands
] + [["export", kind] for kind in ("site", "parquet", "faiss")]
DOCS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example_panels_and_no_types(command):
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).stdout
    assert "Example: acqh " + " ".join(command) in shown
    assert "─ Output ─" in shown
    assert "--verbose" in shown
    assert "--quiet" in shown
    assert shown.rstrip().rpartition("╰")[0].rpartition("╭")[2].startswith("─ Output")
    *examples, link = filter(None, map(str.strip, shown.rpartition("╯")[2].split("\n")))
    assert all(line.startswith("Example: ") for line in examples)
    assert link.startswith("Documentation: ")
    assert (DOCS / link.removeprefix("Documentation: ")).is_file()
    assert not re.search(r"<|{|\.\.\.\.|x>=|Options ─", shown)
    assert CliRunner().invoke(app, [*command, "-v", "-q"]).exit_code == 2


def test_unknown_commands_and_options_suggest_the_nearest(folder, call):
    assert "search" in call("serach", folder)[2]
    assert "--where" in call("search", folder / "c.acqh", "rose", "--wher", "year=2001")[2]


def test_a_folder_or_collection_in_place_of_a_command_names_the_command(folder, call, monkeypatch):
    monkeypatch.chdir(folder)
    assert re.search(r"open\W+c\.acqh", call("c.acqh", "rose")[2])
    assert re.search(r"site\|parquet\|faiss\W+c\.acqh", call("export", "c.acqh")[2])


@pytest.mark.parametrize(
    "arguments",
    [
        "label C t.csv", "build C --unknown", "export C --to site --out x",
        "add C t.csv --replace", "duplicates C --keep best", "serve C --try x",
        "search C x --text-encoder table", "build C --max-pixels 4",
        "bench emoji --out x --seeds 1",
    ],
)  # fmt: skip
def test_old_names_are_wrong_calls(arguments, folder, call):
    assert call(*arguments.replace("C", str(folder / "c.acqh")).split())[0] == 2


def test_a_path_without_a_collection_or_an_index_gives_a_one_line_error(tmp_path, call):
    empty, other, none = tmp_path / "empty", tmp_path / "bits.acqh", tmp_path / "none"
    empty.mkdir()
    acqh.HammingIndex(8).add([[7], [9]]).save(other)
    np.save(tmp_path / "q.npy", np.eye(3, dtype=np.float32))
    for arguments, path, word in (
        (("search", none, "a"), none, "no collection"),
        (("serve", empty, "--port", 0), empty, "acqh build"),
        (("remove", other, "a"), other, "not a collection"),
        (("query", empty, tmp_path / "q.npy", "--out", tmp_path / "x.csv"), empty, "not an index"),
        (("encode", empty, "x.npz", "--out", "x"), empty, "not a model"),
        (("index", other, "x.npy", "--out", "x"), other, "not a model"),
        (("export", "faiss", empty, "--out", "x"), empty, "not written by acqh"),
        (("verify", none), none, "nothing"),
    ):
        code, shown, message = call(*arguments)
        assert (code, shown, message.count("\n")) == (1, "", 1)
        assert message.startswith("acqh: ")
        assert str(path) in message
        assert word in message


def test_a_missing_source_is_named_with_a_suggestion(folder, call):
    code, _, message = call("build", folder / "manfest.csv")
    assert code == 1
    assert f"did you mean {folder / 'manifest.csv'}?" in message
    assert "did you mean" not in call("build", folder / "no" / "where")[2]


def test_advice_names_arguments(folder, call):
    code, _, message = call("search", folder / "c.acqh", "rose", "--where", "yeer=2001")
    assert code == 1
    assert "'yeer'" in message
    assert "label, year" in message
    assert "--overwrite" in call("build", folder, "--out", folder / "c.acqh")[2]


def test_a_build_reports_missing_extras_before_encoding(tmp_path, call, monkeypatch):
    def encode(*_):
        raise AssertionError("an image was encoded")

    monkeypatch.setattr("acqh.encoders.HogColor.transform", encode)
    for number in range(2):
        Image.new("RGB", (8, 8), (200 * number, 0, 0)).save(tmp_path / f"{number}.png")
    manifest = tmp_path / "manifest.csv"
    out = tmp_path / "c.acqh"
    build = ("build", manifest, "--out", out, "--image-encoder", "hog", "--text-encoder", "tfidf")
    for content, options, word in (
        ("file,labels\n0.png,a\n", (), "file, labels"),
        ("image\nx/0.png\nx/1.png\n", (), "--image-root"),
        ("image\n0.png\n", ("--image-root", tmp_path / "x"), str(tmp_path / "x")),
        ("image\n0.png\n", ("--targets", "labels=1"), "labels"),
        ("image\n0.png\n", ("--targets", "words=1"), "'words'"),
        ('image,labels\n0.png,"sea, sky"\n', (), "--label-separator"),
    ):
        manifest.write_text(content)
        code, shown, message = call(*build, *options)
        assert (code, shown) == (1, "")
        assert word in message
    assert not out.exists()


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """Return a folder with a model, its data, and files that are not what they should be."""
    path = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    views = {"image": rng.normal(size=(40, 4)), "text": rng.normal(size=(40, 3))}
    labels = rng.integers(0, 2, 40)
    np.savez(path / "data.npz", **views, labels=labels)
    np.savez(path / "odd.npz", **views, target=labels)
    acqh.ACQH(4, n_codebooks=1).fit(views, labels).save(path / "model")
    (path / "items.csv").write_text("text,labels\nrose,flower\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ("compress data.npz --out x", 1, "image, text"),
        ("compress data.npz --items-column image --queries data.npz --out x", 1,
         "--queries-column"),
        ("compress data.npz --out x --seed -1", 2, "--seed"),
        ("compress data.npz", 2, "--out"),
        ("fit data.npz --out x --similarity likeness", 2, "--similarity"),
        ("fit odd.npz --out x", 1, "'labels'"),
        ("fit items.csv --out x", 1, "acqh build"),
        ("bench data.npz --out x --methods cvh --bytes 0", 2, "--bytes"),
        ("bench data.npz --out x --methods cvh --protocol x", 2, "labelled"),
        ("bench data.npz --out x --methods cvh --split official", 2, "official"),
        ("bench wiki --out x --methods cvh --data-dir .", 1, "ACQH_DATA"),
        ("export faiss model --out x", 1, "CodeIndex"),
        ("query model data.npz --modality image --out x.csv", 1, "not an index of codes"),
        ("search {}", 2, "--image FILE"),
        ("search {}/.. rose", 1, "acqh build"),
        ("build {}/../manifest.csv --out x --label-separator=", 1, "--label-separator"),
        ("serve {} --root-path x", 2, "--root-path"),
        ("serve {} --originals none", 2, "--originals"),
    ],
)  # fmt: skip
def test_a_wrong_call_gives_a_one_line_error(
    arguments, code, sentence, features, folder, call, monkeypatch
):
    monkeypatch.chdir(features)
    monkeypatch.setenv("COLUMNS", "300")
    status, shown, stderr = call(*arguments.replace("{}", str(folder / "c.acqh")).split())
    assert (status, shown) == (code, "")
    assert sentence in stderr
    assert not re.search(r"Errno|Traceback", stderr)


def test_too_little_memory_gives_a_one_line_error(call, features, monkeypatch):
    def raise_memory_error(*_, **__):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("acqh.scale.fit", raise_memory_error)
    code, _, message = call("fit", features / "data.npz", "--out", features / "none")
    assert code == 1
    assert "memory (Unable to allocate 7 TiB)" in message


def test_a_fit_reports_its_optimality_gap(features, tmp_path, call):
    fit = ("fit", features / "data.npz", "--targets", "image", "--out", tmp_path / "model")
    code, shown, _ = call(*fit)
    assert code == 0
    assert "within 0.00%" in shown


def test_options_that_have_no_effect_are_named(features, tmp_path, call):
    for number in range(2):
        Image.new("RGB", (20, 20), (200 * number, 0, 0)).save(tmp_path / f"{number}.png")
    options = ("--image-root", tmp_path, "--image-encoder", "hog", "--bytes", "2")
    code, _, stderr = call("build", features / "data.npz", "--out", tmp_path / "a.acqh", *options)
    assert code == 0
    assert "--image-root" in stderr
    assert "--image-encoder has no effect" in stderr
    assert "--bytes" not in stderr
    code, _, stderr = call("build", tmp_path, "--out", tmp_path / "b.acqh", *options)
    assert code == 0
    assert "--image-root" in stderr
    assert "--image-encoder" not in stderr


def test_options_set_column_names_separators_and_the_size_of_images(tmp_path, call):
    for number in range(2):
        Image.new("RGB", (20, 20), (200 * number, 0, 0)).save(tmp_path / f"{number}.png")
    manifest, out = tmp_path / "manifest.csv", tmp_path / "c.acqh"
    manifest.write_text("ID;Image;Text;Labels\na;0.png;night;dark, sky\nb;1.png;day;sky\n")
    build = ("build", manifest, "--out", out, "--label-separator", ",", "--image-encoder", "hog",
             "--text-encoder", "tfidf", "--max-megapixels")  # fmt: skip
    code, _, stderr = call(*build, "0.000399")
    assert code == 1
    assert "--max-megapixels" in stderr
    assert call(*build, "0.0004")[0] == 0
    with acqh.load(out) as built:
        assert built.labels() == {"dark": 1, "sky": 2}
        assert sorted(built) == ["a", "b"]
        assert built.item("a").fields == {"image": "0.png"}
    search = ("search", out, "--image", tmp_path / "0.png", "--max-megapixels")
    assert "--max-megapixels" in call(*search, "0.000399")[2]
    code, shown, _ = call(*search, "0.0004", "--json")
    assert json.loads(shown)["hits"][0]["id"] == "a"


def test_progress_has_a_total_and_shows_learning(folder, tmp_path):
    events = []
    acqh.Collection.build(
        folder / "manifest.csv", tmp_path / "c.acqh", text_encoder="tfidf",
        progress=lambda *event: events.append(event),
    ).close()  # fmt: skip
    assert (13, 13, "encoding images") in events
    assert (12, 12, "training") in events
    assert events.index((12, 12, "training")) < events.index((0, None, "training codebooks"))


def test_quiet_leaves_the_result(folder, tmp_path, call):
    build = ("build", folder, "--text-encoder", "tfidf", "--out", tmp_path / "c.acqh", "--quiet")
    code, shown, notes = call(*build)
    assert (code, notes) == (0, "")
    assert "12 items" in shown


def test_verbose_shows_the_log_and_the_traceback(tmp_path):
    # In a process of its own: this one has handlers of the log already.
    done = subprocess.run(
        [sys.executable, "-m", "acqh", "verify", tmp_path / "none.acqh", "--verbose"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "DEBUG acqh" in done.stderr
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("acqh: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["datasets", "--json"], 0),
        (["search", "--help"], 0),
        (["no-such-command"], 2),
    ],
)
def test_a_reader_that_has_enough_leaves_the_exit_status_alone(arguments, expected):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "acqh", *arguments],
            stdout=writer,
            stderr=writer if expected else subprocess.PIPE,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr or b"") == (expected, b"")
