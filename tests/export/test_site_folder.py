"""The folder of a site: an interrupted export publishes nothing that was not requested."""

import json
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import acqh.export.static.site as site_module
from acqh._core import files
from acqh.collection import Collection, Item
from acqh.errors import AcqhError
from acqh.export import site

CAPTION = "quagga"
ITEMS = [
    Item(text=f"{CAPTION} in a {place}", labels=[place], id=f"{place}.jpg", fields={"name": "zoo"})
    for place in ("garden", "street", "forest")
]
# What exports publish, from most to least.
ALL = {"fields": ["name"]}
NO_CAPTIONS = {"captions": False}
STATIC = re.compile(r'"(static-[0-9a-f]{16}/[^"]+|data/[^"]+)"')


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    path = tmp_path_factory.mktemp("collection") / "zoo.acqh"
    with Collection.build(ITEMS, path, text_encoder="tfidf") as collection:
        yield collection


@pytest.fixture(scope="module")
def fresh(collection, tmp_path_factory):
    """The files of a site without captions."""
    folder = tmp_path_factory.mktemp("fresh")
    site(collection, folder, **NO_CAPTIONS)
    return contents(folder)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "sync", lambda: None)


def contents(folder):
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def check_works(folder):
    """Check that all that a page needs is there, as it was written; a page may be missing."""
    if not (folder / "index.html").exists():
        return
    needed = {"index.html"}
    unread = ["index.html"]
    while unread:
        name = unread.pop()
        content = (folder / name).read_bytes()
        if name.startswith("data/"):
            digest = re.search(r"-([0-9a-f]{16})\.\w+$", name)[1]
            assert sha256(content).hexdigest().startswith(digest), name
        named = set(STATIC.findall(content.decode("utf-8", "replace")))
        if name.endswith(".js"):
            imported = re.findall(rb'(?:from|import\() ?"\./(\w+\.js)"', content)
            named |= {f"{Path(name).parent}/{module.decode()}" for module in imported}
        unread += named - needed
        needed |= named
    assert len(needed) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "killed"),
    [
        (None, ALL),
        (NO_CAPTIONS, ALL),
        (ALL, NO_CAPTIONS),
        (ALL, {**ALL, "where": {"label": "garden"}}),
    ],
    ids=["first", "adding captions", "removing captions", "removing items"],
)
def test_an_export_killed_at_any_step_leaves_nothing_behind(
    collection, fresh, tmp_path, before, killed
):
    if before is not None:
        site(collection, tmp_path / "before", **before)
    command = [Path(__file__).with_name("kill_exports.py"), collection.path, tmp_path / "before"]
    subprocess.run(
        [sys.executable, *map(str, command), str(tmp_path / "killed"), json.dumps(killed)],
        check=True,
        timeout=500,
    )
    folders = sorted((tmp_path / "killed").iterdir())
    assert len(folders) > 20
    for folder in folders:
        check_works(folder)
        site(collection, folder, **NO_CAPTIONS)
        result = contents(folder)
        assert not [name for name, content in result.items() if CAPTION.encode() in content]
        assert result == fresh


def interrupt(collection, folder, name, monkeypatch, **options):
    """Export until a file whose name begins so is to get its name, as a kill would."""

    def rename(source, target):
        if target.name.startswith(name):
            raise KeyboardInterrupt
        source.replace(target)

    with monkeypatch.context() as patched:
        patched.setattr(files, "rename", rename)
        patched.setattr(files, "unlink", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            site(collection, folder, **options)


@pytest.mark.parametrize("name", ["acqh-site", "index"])
def test_a_first_export_that_was_interrupted_is_repeated(
    collection, fresh, tmp_path, monkeypatch, name
):
    interrupt(collection, tmp_path / "public", name, monkeypatch, **ALL)
    site(collection, tmp_path / "public", **NO_CAPTIONS)
    assert contents(tmp_path / "public") == fresh


def test_captions_of_an_interrupted_export_are_removed(collection, fresh, tmp_path, monkeypatch):
    site(collection, tmp_path, **NO_CAPTIONS)
    interrupt(collection, tmp_path, "index", monkeypatch, **ALL)
    assert any(CAPTION.encode() in content for content in contents(tmp_path).values())
    check_works(tmp_path)
    assert site(collection, tmp_path, **NO_CAPTIONS).n_removed > 2
    assert contents(tmp_path) == fresh


def test_files_are_on_disk_before_the_start_page_is_replaced(collection, tmp_path, monkeypatch):
    states = []
    monkeypatch.setattr(os, "sync", lambda: states.append(contents(tmp_path)))
    site(collection, tmp_path, **ALL)
    (synced,) = states
    assert "index.html" not in synced
    assert synced.items() <= contents(tmp_path).items()


@pytest.mark.parametrize("damaged", [b"", b"half a file", None])
def test_a_damaged_file_is_written_again(collection, fresh, tmp_path, damaged):
    site(collection, tmp_path, **NO_CAPTIONS)
    for path in (*tmp_path.glob("data/*"), *tmp_path.glob("static-*/*")):
        path.write_bytes(path.read_bytes()[:-1] + b"~" if damaged is None else damaged)
    assert site(collection, tmp_path, **NO_CAPTIONS).n_written == len(fresh) - 2
    assert contents(tmp_path) == fresh


@pytest.mark.parametrize("damaged", [b"", b'["data/', b"5", b'["data/.."]', b"[{}]", b"\xff\xfe"])
def test_a_damaged_marker_is_repaired(collection, fresh, tmp_path, damaged):
    site(collection, tmp_path / "public", **ALL)
    (tmp_path / "private.json").write_text("{}")
    (tmp_path / "public" / "acqh-site.json").write_bytes(damaged)
    site(collection, tmp_path / "public", **NO_CAPTIONS)
    assert contents(tmp_path / "public") == fresh
    assert (tmp_path / "private.json").exists()


def test_files_of_others_are_kept(collection, tmp_path):
    site(collection, tmp_path, **ALL)
    others = ["CNAME", "data/notes.json", "data/items.json", ".well-known/x.txt", "static/app.js"]
    others += ["data/items-0123456789abcdef/x.json", "items-0123456789abcdef.json"]
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("theirs")
    site(collection, tmp_path, **NO_CAPTIONS)
    assert [(tmp_path / name).read_text() for name in others] == ["theirs"] * len(others)


def test_links_are_not_followed(collection, fresh, tmp_path):
    public, private = tmp_path / "public", tmp_path / "private.json"
    private.write_text("{}")
    site(collection, public, **NO_CAPTIONS)
    needed = next(public.glob("data/items-*.json"))
    needed.unlink()
    for link in (needed, public / "data" / f"items-{'0' * 16}.json"):
        link.symlink_to(private)
    site(collection, public, **NO_CAPTIONS)
    assert contents(public) == fresh
    assert not needed.is_symlink()
    assert private.read_text() == "{}"


@pytest.mark.parametrize("name", ["data", "static-0123456789abcdef"])
def test_a_link_in_place_of_a_folder_is_rejected(collection, tmp_path, name):
    public, private = tmp_path / "public", tmp_path / "private"
    site(collection, public, **NO_CAPTIONS)
    private.mkdir()
    (private / f"items-{'0' * 16}.json").write_text("{}")
    if (public / name).exists():
        (public / name).rename(tmp_path / "moved")
    (public / name).symlink_to(private)
    with pytest.raises(FileExistsError, match="link"):
        site(collection, public, **NO_CAPTIONS)
    assert [path.name for path in private.iterdir()] == [f"items-{'0' * 16}.json"]


def test_a_template_without_the_expected_parts_is_an_error(collection, tmp_path, monkeypatch):
    shutil.copytree(site_module.PAGE, tmp_path / "page")
    page = tmp_path / "page" / "index.html"
    page.write_text(page.read_text().replace("<title>acqh</title>", "<title>Search</title>"))
    monkeypatch.setattr(site_module, "PAGE", tmp_path / "page")
    with pytest.raises(AcqhError, match="title"):
        site(collection, tmp_path / "public")
