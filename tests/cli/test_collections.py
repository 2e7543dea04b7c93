"""Commands for collections, run in one process to be quick."""

import inspect
import json
import re
import shutil
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import acqh
from acqh.cli import app
from acqh.cli.collections import _beside, build
from acqh.collection import BuildSettings, Collection
from acqh.errors import CollectionError

COLOURS = {"flower": (220, 40, 60), "vehicle": (60, 60, 70)}
WORDS = {"flower": "rose tulip petal garden", "vehicle": "car wheel street engine"}


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_the_command_and_python_build_with_the_same_options():
    def defaults(function):
        result = inspect.signature(function).parameters.values()
        return {
            parameter.name: parameter.default
            for parameter in result
            if parameter.default is not parameter.empty
        }

    settings = {field.name: field.default for field in fields(BuildSettings)}
    in_python, typed = defaults(Collection.build), defaults(build)
    assert settings.items() <= in_python.items()
    typed["random_state"] = typed.pop("seed")
    assert in_python.keys() - typed.keys() == {"progress", "max_pixels"}
    assert typed.keys() - in_python.keys() == {"out", "encoder", "max_megapixels", "ocr_all"}
    settings.pop("max_pixels")
    assert settings.pop("ocr") is None  # two flags on the command line: --ocr and --ocr-all
    assert {name: typed[name] for name in settings} == settings


PLAIN = ("--image-encoder", "hog", "--text-encoder", "tfidf")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    lines = ["id,image,text,labels,year"]
    for number in range(24):
        label = sorted(COLOURS)[number % 2]
        pixels = np.array(COLOURS[label]) + rng.integers(0, 30, (20, 30, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        words = " ".join(rng.permutation(WORDS[label].split())[:3])
        lines.append(f"n{number},{number}.png,{words},{label},{2000 + number % 3}")
    lines.append("bad,missing.png,rose,flower,2000")
    (folder / "manifest.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def built(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("built") / "photos.acqh"
    done = run("build", photos / "manifest.csv", "--out", path, *PLAIN,
               "--targets", "labels=0.5, text=0.3,image=0.2")  # fmt: skip
    assert "Indexed 24 items" in done.stdout
    assert "manifest.csv, line 26" in done.stderr
    return path


def test_search_by_text_image_both_and_item(built, photos):
    def labels(*options):
        answer = json.loads(run("search", built, *options, "-k", "5", "--json").stdout)
        assert len(answer["hits"]) == 5
        return {label for hit in answer["hits"] for label in hit["labels"]}

    assert labels("rose") == {"flower"}
    assert labels("--image", photos / "1.png") == {"vehicle"}
    assert labels("--like", "n0") == {"flower"}
    assert labels("--like", "0.png") == {"flower"}
    assert labels("rose", "--image", photos / "1.png", "--text-weight", "0") == {"vehicle"}
    assert labels("rose", "--where", "label=vehicle") == {"vehicle"}


def test_a_minus_excludes_a_word_and_is_no_option(built):
    def ids(*words):
        answer = json.loads(run("search", built, "--json", *words).output)
        return [hit["id"] for hit in answer["hits"]]

    both, without = ids("rose", "car", "-k30"), ids("-car", "rose", "-k", 30)
    assert len(both) > len(without) > 0
    assert ids("rose", "-k", 30, "--", "-car") == without
    assert ids("rose", '-"car"', "-k30") == without
    like = ids("rose", "--like", without[0], "-car", "-k30")
    assert without[0] not in like
    assert "-x" in run("search", built, "rose", "-x", code=2).output


def test_a_filter_without_a_query_lists_items(built):
    done = json.loads(run("search", built, "--where", "label=flower", "-k", 30, "--json").output)
    assert len(done["hits"]) == done["n_candidates"]
    assert {tuple(hit["labels"]) for hit in done["hits"]} == {("flower",)}
    assert "█" not in run("search", built, "--where", "label=flower").output
    assert "query is missing" in " ".join(run("search", built, " ", code=2).output.split())


def test_hits_show_a_bar_the_file_its_id_and_why(built, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("search", built, "rose", "petal", "-k", "3").stdout.splitlines()
    assert re.fullmatch(r"  1  █+▌? *  \d+\.png \(id n\d+\) +keywords, semantic", lines[0])
    assert lines[1].startswith("     flower | ")
    assert lines[-1].startswith("3 of 24 items")
    assert max(map(len, lines)) <= 60
    assert run("search", built, "xyzzy").stdout.splitlines() == ["No matches among 24 items."]
    assert "only excludes" in run("search", built, "--", "-car").stdout


def test_add_and_remove_change_the_collection(built, photos, tmp_path):
    report = json.loads(
        run(
            "add", built, "--image", photos / "0.png", "--text", "rose", "--id", "x", "--json"
        ).stdout
    )
    assert report == {"ids": ["x"], "skipped": [], "n_items": 25}
    assert "Skipped 1" in run("add", built, "--text", "rose", "--id", "x", code=1).stderr
    assert "Added 1 item" in run("add", built, "--text", "rose", "--id", "x", "--overwrite").stdout
    more = tmp_path / "more.jsonl"
    more.write_text('{"text": "a fast car", "id": "y"}\n{"text": "", "id": "z"}\n')
    assert "Added 1 item" in run("add", built, more).stdout
    assert "Removed 2 items" in run("remove", built, "x", "y").stdout
    report = run("verify", built).stdout
    assert report.startswith("OK: ")
    assert "24 items" in report
    settings = json.loads(run("verify", built, "--json").stdout)["settings"]
    assert (settings["image_encoder"], settings["n_codebooks"]) == ("hog", 8)


def test_empty_cells_remove_labels_with_clear_alone(built, tmp_path):
    path, table = shutil.copytree(built, tmp_path / "c.acqh"), tmp_path / "labels.csv"
    table.write_text("id,labels,year\nn0,,\n")

    def stored():
        with Collection.open(path) as collection:
            item = collection.item("n0")
        return item.labels, item.fields.get("year")

    before = stored()
    assert all(before)
    run("annotate", path, table)
    assert stored() == before
    assert "Updated 1 item" in run("annotate", path, table, "--clear").stdout
    assert stored() == ((), None)


def test_wrong_calls_and_missing_collections_have_different_exit_codes(built, tmp_path):
    run("search", built, code=2)
    run("add", built, code=2)
    manifest = tmp_path / "more.jsonl"
    manifest.write_text('{"text": "a fast car", "id": "y"}\n')
    for option in ("--text", "--image", "--label", "--id"):
        run("add", built, manifest, option, "x", code=2)
    run("build", tmp_path, "--out", tmp_path / "c", "--targets", "labels=x", code=2)
    assert isinstance(
        run("build", tmp_path, "--out", tmp_path / "c", code=1).exception, CollectionError
    )
    missing = run("search", tmp_path / "none", "a", code=1).exception
    assert isinstance(missing, FileNotFoundError)


@pytest.mark.parametrize("named", ["1.png", "{folder}/1.png", "zero.png"])
def test_an_item_is_removed_by_its_file(photos, tmp_path, named, monkeypatch):
    folder, path = tmp_path / "few", tmp_path / "few.acqh"
    folder.mkdir()
    for number in range(3):
        shutil.copy(photos / f"{number}.png", folder)
    monkeypatch.chdir(tmp_path)
    run("build", "few", *PLAIN)  # which makes few.acqh, next to the folder
    (folder / "0.png").rename(folder / "zero.png")
    run("sync", path, "few")
    assert "Removed 1 item" in run("remove", path, named.format(folder="few")).stdout
    expected = {"zero.png": {"1.png", "2.png"}}.get(named, {"0.png", "2.png"})
    with Collection.open(path) as collection:
        assert set(collection) == expected


def test_a_collection_is_built_next_to_its_source(photos, tmp_path, monkeypatch):
    for source, expected in (("a b", "a b.acqh"), ("x.2021", "x.2021.acqh"), ("y/../z", "z.acqh")):
        folder = tmp_path / source
        folder.mkdir(parents=True, exist_ok=True)
        assert _beside(folder).resolve() == tmp_path / expected
    monkeypatch.chdir(tmp_path / "z")
    assert _beside(Path()) == tmp_path / "z.acqh"
    assert _beside(Path("t.csv")) == Path("t.acqh")


def test_sync_tracks_a_folder_and_reports_its_changes(built, photos, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        shutil.copy(photos / f"{number}.png", folder)
    (folder / "broken.png").write_bytes(b"no image")
    path = tmp_path / "folder.acqh"
    done = run("build", folder, "--out", path, *PLAIN)
    assert "Indexed 3 photos" in done.stdout
    assert "broken.png" in done.stderr
    (folder / "0.png").rename(folder / "zero.png")
    (folder / "1.png").unlink()
    shutil.copy(photos / "5.png", folder)
    answer = json.loads(run("sync", path, folder, "--json").stdout)
    result = {name: answer[name] for name in ("new", "changed", "moved", "deleted", "unreadable")}
    assert result == {"new": 1, "changed": 0, "moved": 1, "deleted": 1, "unreadable": 1}
    assert "3 items; 0 new" in run("sync", path).stdout
    table = run("search", path, "--image", folder / "zero.png", "-k", "1").stdout
    assert "zero.png" in table  # where it is now
    assert " 0.png" not in table
    assert "labels" not in table
    shutil.rmtree(folder)
    folder.mkdir()
    assert isinstance(run("sync", path, folder, code=1).exception, CollectionError)
    plan = run("sync", path, "--dry-run").stdout
    assert "3 deleted" in plan
    assert "deleted: 5.png" in plan
    assert "3 deleted" in run("sync", path, "--delete", "--forget").stdout


def test_a_table_that_a_folder_does_not_use_is_named(photos, tmp_path):
    shutil.copy(photos / "0.png", tmp_path)
    (tmp_path / "metadata.csv").write_text("name,text\n0.png,a rose\n")
    done = run("build", tmp_path, "--out", tmp_path / "c.acqh", *PLAIN)
    assert "metadata.csv" in done.stderr


def test_retrain_uses_the_stored_items(built, photos, tmp_path):
    path, folder = shutil.copytree(built, tmp_path / "c.acqh"), tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        shutil.copy(photos / f"{number}.png", folder)
    synced = json.loads(run("sync", path, folder, "--json").stdout)
    assert synced["drift"]["n_added"] >= 3  # others may have added to what is copied
    assert "Retrained 27 items" in run("retrain", path).stdout
    with Collection.open(path) as collection:
        assert collection.drift.n_added == 0


def test_annotate_updates_items(built, tmp_path):
    path, table = shutil.copytree(built, tmp_path / "c.acqh"), tmp_path / "words.csv"
    table.write_text("id,text\nn0,an unheard-of zebra\nnone,a\n")
    done = run("annotate", path, table)
    assert "Updated 1 item of 24" in done.stdout
    assert "words.csv, line 3" in done.stderr
    result = json.loads(run("search", path, "zebra", "--json").stdout)["hits"][0]
    assert (result["id"], result["labels"]) == ("n0", ["flower"])


def test_the_first_sync_builds_and_a_manifest_stops_it(plain_defaults, photos, tmp_path):
    folder, path = tmp_path / "folder", tmp_path / "folder.acqh"
    folder.mkdir()
    for number in range(8):
        shutil.copy(photos / f"{number}.png", folder)
    (folder / "manifest.csv").write_text("image\n0.png\n")
    assert isinstance(run("sync", path, folder, code=1).exception, CollectionError)
    (folder / "manifest.csv").unlink()
    assert "8 items; 8 new" in run("sync", path, folder).stdout
    assert "8 unchanged" in run("sync", path).stdout
    assert f"acqh sync {path} {folder}" in str(run("build", folder, code=1).exception)
    answer = json.loads(run("search", path, "--image", folder / "3.png", "--json").stdout)
    assert answer["hits"][0]["fields"]["file"] == answer["hits"][0]["id"]


@pytest.fixture
def folder(photos, tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(4):
        shutil.copy(photos / f"{number}.png", tmp_path / "photos")
    return tmp_path / "photos"


def test_sync_without_a_folder_takes_all_that_are_tracked(plain_defaults, folder, photos, tmp_path):
    path, other = tmp_path / "c.acqh", tmp_path / "other"
    assert "FOLDER" in str(run("sync", path, code=1).exception)
    run("sync", path, folder)
    other.mkdir()
    shutil.copy(photos / "8.png", other)
    run("sync", path, other)
    shutil.copy(photos / "9.png", other)
    (folder / "0.png").unlink()
    answer = json.loads(run("sync", path, "--json").stdout)
    assert (answer["new"], answer["deleted"], answer["unchanged"]) == (1, 1, 4)


def test_sync_names_the_order_of_its_arguments(folder, tmp_path):
    assert "comes first" in run("sync", folder, tmp_path / "photos.acqh", code=2).output


def test_sync_without_a_tracked_folder_requires_one(built):
    assert "tracks no folder" in str(run("sync", built, code=1).exception)


def test_search_prints_absolute_paths_by_line_or_nul(folder, tmp_path, monkeypatch):
    run("build", folder, *PLAIN)
    search = ("search", tmp_path / "photos.acqh", "--image", folder / "3.png", "-k", "4")
    lines = run(*search, "--paths").stdout.splitlines()
    assert lines[0] == str(folder / "3.png")
    assert set(lines) == {str(folder / f"{number}.png") for number in range(4)}
    assert run(*search, "-0").stdout.split("\0") == [*lines, ""]


def test_info_names_items_folders_encoders_and_dates(folder, tmp_path):
    run("build", folder, *PLAIN)
    path = tmp_path / "photos.acqh"
    answer = json.loads(run("info", path, "--json").stdout)
    assert answer["n_items"] == 4
    assert answer["folders"] == [str(folder)]
    assert answer["built"] <= answer["changed"]
    assert set(answer["encoders"]) == {"image"}
    shown = run("info", path).stdout
    assert str(folder) in shown
    assert acqh.__version__ in shown


def test_open_builds_then_syncs_and_serves_with_the_browser(
    plain_defaults, folder, tmp_path, monkeypatch
):
    served = []
    monkeypatch.setattr("acqh.cli.search.serve", lambda _, **options: served.append(options))
    assert "Indexed 4 photos" in run("open", folder).stdout
    (folder / "0.png").unlink()
    assert "1 deleted" in run("open", folder, "--port", "9").stdout
    run("open", tmp_path / "photos.acqh")
    assert [options["open_browser"] for options in served] == [True] * 3
    assert [options["port"] for options in served] == [0, 9, 0]
    for number in range(1, 4):
        (folder / f"{number}.png").unlink()
    assert "not updated" in run("open", folder).stderr  # and served as it is


def test_open_watch_keeps_the_collection_in_sync(folder, tmp_path, monkeypatch):
    path = tmp_path / "photos.acqh"
    run("build", folder, *PLAIN)
    monkeypatch.setattr("acqh.cli.collections._WATCH_SECONDS", 0.01)

    def wait_for(n_items):
        for _ in range(1_200):
            with Collection.open(path) as collection:
                if len(collection) == n_items:
                    return
            time.sleep(0.05)
        pytest.fail(f"there were never {n_items} items")

    def serve(*_, **__):
        (folder / "new.png").write_bytes((folder / "0.png").read_bytes() + b" ")
        wait_for(5)
        (folder / "1.png").unlink()
        wait_for(4)

    monkeypatch.setattr("acqh.cli.search.serve", serve)
    shown = run("open", folder, "--watch").stderr
    assert "1 new" in shown
    assert "1 deleted" in shown


def test_skipped_files_are_grouped_by_reason(folder):
    for number in range(9):
        (folder / f"bad{number}.png").write_bytes(b"x" * (number + 1))
    shown = run("build", folder, *PLAIN).stderr
    assert shown.count("Skipped 9") == 1
    assert shown.count("bad") == 5
    assert "and 4 more" in shown
