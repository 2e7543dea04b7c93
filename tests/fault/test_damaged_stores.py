"""Damaged and hostile stores are rejected with acqh errors and never hang."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.generations import current_folder
from acqh.collection.verify import verify_collection
from acqh.errors import AcqhError, CollectionError, CorruptBundleError

KINDS = {"animal": "dog cat fur", "flower": "rose tulip petal", "vehicle": "car wheel engine"}
N_MUTATIONS = 20


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    path = tmp_path_factory.mktemp("built") / "c.acqh"
    items = [
        Item(text=f"{text} {n}", labels=[kind], id=f"{kind}{n}", fields={"year": 2000 + n})
        for kind, text in KINDS.items()
        for n in range(40)
    ]
    Collection.build(
        items, path, n_components=4, n_codebooks=2, image_encoder="hog", text_encoder="tfidf"
    ).close()
    with Collection.open(path) as collection:
        collection.remove(["animal3", "flower7"])
    return path


@pytest.fixture
def path(built, tmp_path):
    return shutil.copytree(built, tmp_path / "c.acqh")


def change(path, *statements, parameters=()):
    with closing(
        sqlite3.connect(current_folder(path) / "items.sqlite", isolation_level=None)
    ) as connection:
        for statement in statements:
            connection.execute(statement, parameters)


def use(path):
    """Do everything that reads and changes a collection."""
    with Collection.open(path) as collection:
        for where in (None, {"label": "animal"}, {"year": 2003}):
            collection.search(text="dog", k=200, where=where)
        collection.search(item="flower0", k=5)
        list(collection.batches())
        collection.labels(), collection.info(), collection.fields(), list(collection)
        collection.upsert(Item(text="a new dog", labels=["animal"], id="animal1"))
        collection.remove("vehicle1")


def zeroed(content, rng):
    start = int(rng.integers(0, len(content) - 1024))
    content[start : start + 1024] = bytes(1024)


def flipped(content, rng):
    for place in rng.integers(0, len(content), 12):
        content[place] ^= 1 << rng.integers(8)


def moved(content, rng):
    one, other = (int(n) for n in rng.integers(0, len(content) - 512, 2))
    content[one : one + 512] = content[other : other + 512]


@pytest.mark.parametrize("mutate", [zeroed, flipped, moved])
def test_damaged_stores_are_read_or_raise_an_acqh_error(built, tmp_path, mutate):
    rng = np.random.default_rng(0)
    content = (current_folder(built) / "items.sqlite").read_bytes()
    result = 0
    for number in range(N_MUTATIONS):
        path = shutil.copytree(built, tmp_path / f"{number}.acqh")
        damaged = bytearray(content)
        mutate(damaged, rng)
        (current_folder(path) / "items.sqlite").write_bytes(damaged)
        result += not verify_collection(path).ok
        with suppress(AcqhError, OSError):
            use(path)
        verify_collection(path)
    assert result > N_MUTATIONS // 5


@pytest.mark.parametrize("value", [10**23, 2**63 - 1, 2**62, -1, "x", "", "１２"])
def test_an_impossible_number_of_changes_is_found(path, value):
    change(path, "UPDATE meta SET value = ? WHERE name = 'revision'", parameters=(str(value),))
    assert any("revision" in problem for problem in verify_collection(path).problems)
    with pytest.raises(CorruptBundleError, match="revision"):
        Collection.open(path)


ENDLESS = (
    "CREATE VIEW items AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS number, 'x' || i AS id, '' AS text, '[]' AS labels, '{}' AS fields, "
    "'labels' AS encoded_from, x'0000' AS code, 0 AS checksum FROM n"
)


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE items RENAME TO other", ENDLESS],
        ["CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items WHERE number = 1; END"],
        ["CREATE TABLE more (x)"],
        ["DROP INDEX items_encoded_from"],
        ["DROP TABLE removals", "CREATE TABLE removals (revision INTEGER, number INTEGER)"],
        ["ALTER TABLE items ADD COLUMN more"],
    ],
)
def test_a_store_with_foreign_tables_is_not_opened(path, statements):
    change(path, *statements)
    with pytest.raises(CorruptBundleError, match="not as acqh makes it"):
        Collection.open(path)
    assert any("not as acqh makes it" in problem for problem in verify_collection(path).problems)


@pytest.mark.parametrize(
    "name", ["items.sqlite", "items.sqlite-wal", "items.sqlite-shm", "lock.sqlite"]
)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_regular_files_are_opened(path, tmp_path, name, kind):
    file, outside = current_folder(path) / name, tmp_path / "outside"
    if file.exists():
        file.rename(outside)
    else:
        outside.write_bytes(b"")
    {"link": lambda: file.symlink_to(outside), "pipe": lambda: os.mkfifo(file)}.get(
        kind, file.mkdir
    )()
    with pytest.raises(CorruptBundleError, match="not a plain file"):
        Collection.open(path)
    assert any("not a plain file" in problem for problem in verify_collection(path).problems)


@pytest.mark.parametrize("part", ["encoders", "model", "index"])
def test_parts_that_are_links_are_rejected(path, tmp_path, part):
    folder = current_folder(path)
    (folder / "index").mkdir()  # there is none of few items
    (folder / part).rename(tmp_path / "outside")
    (folder / part).symlink_to(tmp_path / "outside")
    with pytest.raises(CorruptBundleError, match="is a link"):
        Collection.open(path)
    assert any("is a link" in problem for problem in verify_collection(path).problems)


def test_the_items_of_another_collection_are_rejected(path, tmp_path):
    items = [Item(text=text, labels=[kind], id=kind) for kind, text in KINDS.items()]
    Collection.build(
        items,
        tmp_path / "d.acqh",
        n_components=4,
        n_codebooks=2,
        image_encoder="hog",
        text_encoder="tfidf",
    ).close()
    other = current_folder(tmp_path / "d.acqh") / "items.sqlite"
    shutil.copy(other, current_folder(path) / "items.sqlite")
    with pytest.raises(CorruptBundleError, match="another collection"):
        Collection.open(path)
    assert any("another collection" in problem for problem in verify_collection(path).problems)


def test_overlong_numbers_are_rejected(path):
    with Collection.open(path) as collection, pytest.raises(CollectionError, match="too long"):
        collection.add(Item(text="a dog", fields={"n": 10**5000}), strict=True)
