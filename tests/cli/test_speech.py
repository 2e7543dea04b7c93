"""What commands say to a person: plain sentences, as much as was asked for."""

import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import acqh
from acqh.cli import app


def run(*arguments, code=0):
    """Run a command as a person does; return what it printed, results and the rest."""
    done = subprocess.run(
        [sys.executable, "-m", "acqh", *map(str, arguments)], capture_output=True, text=True,
        check=False, timeout=120, env={**os.environ, "NO_COLOR": "1"},
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
    told = run("build", path, "--out", path / "c.acqh", "--text-encoder", "tfidf")[1].splitlines()
    # Where it takes ten seconds, there are lines of progress between.
    told = [line for line in told if line.startswith(("acqh: ", "left out"))]
    assert told == ["left out manifest.csv, line 14: it has neither image nor text"]
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
        (("search", none, "a"), f"there is no collection at {none}"),
        (("serve", empty),
         f"{empty} is not a collection; acqh build makes one of a folder or a table"),
        (("remove", other, "a"), f"{other} is an index of binary codes, not a collection"),
        (("query", empty, tmp_path / "q.npy", "--out", tmp_path / "x.csv"),
         f"{empty} is not an index: it has no manifest.json"),
        (("encode", empty, "x.npz", "--out", "x"),
         f"{empty} is not a model: it has no manifest.json"),
        (("index", other, "x.npy", "--out", "x"),
         f"{other} is an index of binary codes, not a model"),
        (("export", empty, "--to", "faiss", "--out", "x"),
         f"{empty} was not written by acqh: it has no manifest.json"),
        (("verify", none), f"there is nothing at {none}"),
    ):  # fmt: skip
        assert call(*arguments) == (1, "", f"acqh: {sentence}\n")


def test_a_source_that_is_not_there_is_named_with_what_may_be_meant(folder, call):
    meant = folder / "manifest.csv"
    assert call("build", folder / "manfest.csv") == (
        1, "", f"acqh: there is nothing at {folder / 'manfest.csv'}; did you mean {meant}?\n",
    )  # fmt: skip
    nowhere = folder / "no" / "where"
    assert call("build", nowhere) == (1, "", f"acqh: there is nothing at {nowhere}\n")


def test_advice_names_arguments(folder, call):
    search = ("search", folder / "c.acqh", "rose")
    assert call(*search, "--where", "yeer=2001") == (
        1, "", "acqh: no item has a field 'yeer'; there are: label, year\n",
    )  # fmt: skip
    path = folder / "c.acqh"
    assert call("build", folder, "--out", path) == (
        1, "", f"acqh: {path} already exists; --overwrite builds it again, --out makes another\n",
    )  # fmt: skip


def test_a_build_says_what_is_missing_before_it_describes_anything(tmp_path, call, monkeypatch):
    def describe(*_):
        raise AssertionError("an image was described")

    monkeypatch.setattr("acqh.encoders.HogColour.transform", describe)
    for number in range(2):
        Image.new("RGB", (8, 8), (200 * number, 0, 0)).save(tmp_path / f"{number}.png")
    manifest = tmp_path / "manifest.csv"
    out = tmp_path / "c.acqh"
    build = ("build", manifest, "--out", out, "--image-encoder", "hog", "--text-encoder", "tfidf")
    for content, options, sentence in (
        ("file,labels\n0.png,a\n", (), ("manifest.csv, line 2: a manifest needs a column image or "
         "text, but its columns are file, labels")),
        ("image\nx/0.png\nx/1.png\n", (), ("none of the 2 images that manifest.csv names is in "
         f"{tmp_path}; say where they are with image_root")),
        ("image\n0.png\n", ("--image-root", tmp_path / "x"), ("the folder of images "
         f"{tmp_path / 'x'} does not exist")),
        ("image\n0.png\n", ("--targets", "labels=1"), ("`targets` has a weight for labels, but no "
         "item has any; leave it out, or give the manifest a column labels")),
        ("image\n0.png\n", ("--targets", "words=1"), ("`targets` are weights of labels, image and "
         "text, but one is 'words'")),
        ('image,labels\n0.png,"sea, sky"\n', (), ("manifest.csv, line 2: the labels 'sea, sky' "
         "have a comma or semicolon but no '|'; set label_separator=',' for several labels, "
         "label_separator='|' for one")),
    ):  # fmt: skip
        manifest.write_text(content)
        assert call(*build, *options) == (1, "", f"acqh: {sentence}\n")
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
        ("compress data.npz --out x", 1, "have the views image, text; name one with `view`"),
        ("compress data.npz --view image --queries data.npz --out x", 1,
         "the queries have the views image, text; name one with `query_view`"),
        ("compress data.npz --out x --seed -1", 2, "Invalid value for '--seed'"),
        ("fit data.npz --out x --similarity likeness", 2, "Invalid value for '--similarity'"),
        ("fit odd.npz --out x", 1, "rename it: to 'labels' if it holds the labels"),
        ("fit items.csv --out x", 1, "acqh build makes a collection of it"),
        ("bench data.npz --out x --methods cvh --bytes 0", 2, "--bytes takes whole numbers"),
        ("bench data.npz --out x --methods cvh --protocol x", 2, "`protocol` is one of labelled"),
        ("bench data.npz --out x --methods cvh --official", 2, "instead, without `official`"),
        ("bench wiki --out x --methods cvh --data-dir .", 1, "folder with `data_dir` or ACQH_DATA"),
        ("export model --to faiss --out x", 1, "only an index of codes (CodeIndex) or"),
        ("query model data.npz --view image --out x.csv", 1,
         "model is a model, not an index of codes"),
        ("search {}", 2, "WORDS..., or --image FILE, or --like ID"),
        ("search {}/.. rose", 1, "is not a collection; acqh build makes one"),
        ("build {}/../manifest.csv --out x --label-separator=", 1, "label_separator is empty"),
        ("serve {} --root-path x", 2, "--root-path: give a path such as /photos, got 'x'"),
        ("serve {} --image-root none", 2, "Invalid value for '--image-root'"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_in_a_sentence(
    arguments, code, sentence, features, folder, call, monkeypatch
):
    monkeypatch.chdir(features)
    monkeypatch.setenv("COLUMNS", "300")
    given, shown, told = call(*arguments.replace("{}", str(folder / "c.acqh")).split())
    assert (given, shown) == (code, "")
    assert sentence in told
    assert not re.search(r"Errno|Traceback", told)


def test_too_little_memory_is_told_in_a_sentence(call, features, monkeypatch):
    def no_room(*_, **__):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("acqh.scale.fit", no_room)
    assert call("fit", features / "data.npz", "--out", features / "none") == (
        1, "", "acqh: there is not enough memory (Unable to allocate 7 TiB)\n",
    )  # fmt: skip


def test_a_fit_that_is_all_but_exact_says_so(features, tmp_path, call):
    fit = ("fit", features / "data.npz", "--targets", "image", "--out", tmp_path / "model")
    code, shown, _ = call(*fit)
    assert code == 0
    assert "at most 0.00% above the best possible" in " ".join(shown.split())


def test_options_that_have_no_effect_are_named(features, tmp_path, call):
    for number in range(2):
        Image.new("RGB", (20, 20), (200 * number, 0, 0)).save(tmp_path / f"{number}.png")
    options = ("--image-root", tmp_path, "--image-encoder", "hog", "--bytes", "2")
    code, _, told = call("build", features / "data.npz", "--out", tmp_path / "a.acqh", *options)
    assert code == 0
    assert "--image-root" in told
    assert "--image-encoder has no effect" in told
    assert "--bytes" not in told
    code, _, told = call("build", tmp_path, "--out", tmp_path / "b.acqh", *options)
    assert code == 0
    assert "--image-root" in told
    assert "--image-encoder" not in told


def test_headings_in_capitals_separators_and_large_images_can_be_told(tmp_path, call):
    for number in range(2):
        Image.new("RGB", (20, 20), (200 * number, 0, 0)).save(tmp_path / f"{number}.png")
    manifest, out = tmp_path / "manifest.csv", tmp_path / "c.acqh"
    manifest.write_text("ID;Image;Text;Labels\na;0.png;night;dark, sky\nb;1.png;day;sky\n")
    build = ("build", manifest, "--out", out, "--label-separator", ",", "--image-encoder", "hog",
             "--text-encoder", "tfidf", "--max-pixels")  # fmt: skip
    code, _, told = call(*build, "399")
    assert code == 1
    assert "max_pixels" in told
    assert call(*build, "400")[0] == 0
    with acqh.load(out) as built:
        assert built.labels() == {"dark": 1, "sky": 2}
        assert sorted(built) == ["a", "b"]
        assert built.item("a").fields == {"image": "0.png"}
    search = ("search", out, "--image", tmp_path / "0.png", "--max-pixels")
    assert "raise max_pixels" in call(*search, "399")[2]
    code, shown, _ = call(*search, "400", "--json")
    assert json.loads(shown)["hits"][0]["id"] == "a"


def test_progress_has_a_total_and_shows_learning(folder, tmp_path):
    seen = []
    acqh.Collection.build(
        folder / "manifest.csv", tmp_path / "c.acqh", text_encoder="tfidf",
        progress=lambda *told: seen.append(told),
    ).close()  # fmt: skip
    assert (13, 13, "describing images") in seen
    assert (12, 12, "learning") in seen
    assert seen.index((12, 12, "learning")) < seen.index((0, None, "learning codebooks"))


def test_quiet_leaves_the_result_and_verbose_shows_the_log_and_the_traceback(folder, tmp_path):
    build = ("build", folder, "--text-encoder", "tfidf", "--out")
    result, rest = run(*build, tmp_path / "quiet.acqh", "--quiet")
    assert "12 items" in result
    assert rest == ""
    rest = run(*build, tmp_path / "no" / "where.acqh", "--verbose", code=1)[1]
    assert "DEBUG acqh" in rest
    assert "Traceback" in rest
    assert rest.splitlines()[-1].startswith("acqh: the folder")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "{}", "rose", "--json"], 0),
        (["--help"], 0),
        (["search", "--help"], 0),
        (["datasets"], 0),
        (["no-such-command"], 2),
    ],
)
def test_a_reader_that_has_enough_leaves_the_exit_status_alone(folder, arguments, expected):
    command = [each.format(folder / "c.acqh") for each in arguments]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "acqh", *command],
            stdout=writer,
            stderr=writer if expected else subprocess.PIPE,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr or b"") == (expected, b"")
