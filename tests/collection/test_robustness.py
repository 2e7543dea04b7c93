"""Processes killed while they add, full disks, several writers and damaged files."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from acqh.collection import Collection, Item
from acqh.collection.generations import current_folder
from acqh.collection.verify import verify_collection
from acqh.errors import AcqhError, CollectionError, CorruptBundleError

PROGRAM = [sys.executable, str(Path(__file__).with_name("fault_programs.py"))]
ON_SMALL_DISK = [
    "unshare", "--mount", "--map-root-user", "sh", "-c",
    'mount -t tmpfs -o size=2m tmpfs "$0" || exit 77; exec "$@"',
]  # fmt: skip
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX processes")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "unshare failed" in done.stderr or done.returncode == 77:
        pytest.skip("this system does not allow mounting a small disk")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@POSIX
@pytest.mark.slow
def test_a_hundred_killed_writers_lose_nothing_acknowledged(tmp_path):
    outcome = run(*PROGRAM, "killed", str(tmp_path))
    assert outcome["n_kept"] >= 100
    # Kills come in the middle of calls, and leave indexes behind that then catch up.
    assert outcome["interrupted"] > 5
    assert outcome["behind"] > 50


@POSIX
@pytest.mark.slow
def test_a_full_disk_leaves_the_collection_whole(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1) to mount a small disk")
    outcome = run(*ON_SMALL_DISK, str(tmp_path), *PROGRAM, "full", str(tmp_path))
    assert outcome["failed"] > 2
    assert outcome["succeeded"] > 2


@POSIX
@pytest.mark.slow
def test_processes_that_add_at_once_wait_for_each_other(tmp_path):
    assert run(*PROGRAM, "together", str(tmp_path)) == {"n_items": 12 + 45}


def test_a_blocked_writer_times_out_and_readers_never_wait(path, make_items):
    with (
        Collection.open(path, timeout=0.05) as collection,
        closing(
            sqlite3.connect(current_folder(path) / "items.sqlite", isolation_level=None)
        ) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        assert collection.search(text="dog", k=3).hits
        with pytest.raises(CollectionError, match="another process"):
            collection.add(make_items(1, prefix="x"))
        other.execute("ROLLBACK")
        assert collection.add(make_items(1, prefix="x")).ids == ("x0",)


def test_a_connection_waits_again_after_one_try_that_did_not(path):
    with (
        Collection.open(path, timeout=7) as collection,
        closing(
            sqlite3.connect(current_folder(path) / "items.sqlite", isolation_level=None)
        ) as other,
    ):
        store = collection._store
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CollectionError), store.holding(timeout=0):
            pass
        other.execute("ROLLBACK")
        with store.reading() as connection:
            assert connection.execute("PRAGMA busy_timeout").fetchone() == (7_000,)


def test_changes_of_one_process_are_visible_in_another(path, make_items):
    with Collection.open(path) as one, Collection.open(path) as other:
        one.add(make_items(1, prefix="new"))
        assert len(other) == 61
        other.remove(["new0", "item0"])
        assert len(one) == 59
        assert "item0" not in [hit.id for hit in one.search(text="dog cat fur", k=60).hits]


@pytest.mark.parametrize("damage", ["missing", "flipped", "emptied", "no JSON", "of another build"])
def test_a_lost_or_damaged_index_is_made_anew(path, built, damage, caplog, make_items, monkeypatch):
    monkeypatch.setattr("acqh.collection.opened.MAX_FEW", 0)
    for record in (built, path):
        Collection.open(record).close()
    index = current_folder(path) / "index"
    if damage == "missing":
        shutil.rmtree(index)
    elif damage == "of another build":
        shutil.rmtree(path)
        Collection.build(make_items(), path, image_encoder="hog", text_encoder="tfidf").close()
        index = current_folder(path) / "index"
        shutil.rmtree(index)
        shutil.copytree(current_folder(built) / "index", index)
    elif damage == "no JSON":
        (index / "manifest.json").write_text("{")
    else:
        for member in index.glob("*.safetensors"):
            content = bytearray(member.read_bytes())
            content[len(content) // 2] ^= 255
            member.write_bytes(content if damage == "flipped" else b"")
    with Collection.open(built) as full, Collection.open(path) as opened:
        expected = [(hit.id, hit.score) for hit in full.search(text="dog fur", k=20).hits]
        assert [(hit.id, hit.score) for hit in opened.search(text="dog fur", k=20).hits] == expected
    assert verify_collection(path).ok
    with Collection.open(path):
        pass  # what was made is there and fits: this says nothing
    assert sum("made again" in record.message for record in caplog.records) <= 1
    assert not any("could not save" in record.message for record in caplog.records)


def test_removals_are_forgotten_and_indexes_far_behind_are_made_again(
    path, make_items, monkeypatch
):
    monkeypatch.setattr("acqh.collection.opened.MAX_FEW", 0)
    monkeypatch.setattr("acqh.collection.store.items._KEPT_CHANGES", 4)
    with Collection.open(path) as behind:
        n_items = len(behind)
        behind.close()  # which saves the index
    with Collection.open(path) as behind, Collection.open(path) as collection:
        for n in range(6):
            (identifier,) = collection.add(make_items(1, prefix=f"new{n}-")).ids
            collection.remove(identifier)
        collection.remove(next(iter(collection)))
        with closing(sqlite3.connect(current_folder(path) / "items.sqlite")) as connection:
            assert connection.execute("SELECT count(*) FROM removals").fetchone()[0] <= 4
        collection.opened.index._saved = collection.opened.index._revision  # it is not saved
        assert any("made again" in note for note in verify_collection(path).notes)
        assert len(behind) == n_items - 1
        result = [hit.id for hit in behind.search(item=next(iter(behind)), k=100).hits]
        assert len(result) == n_items - 2
    assert verify_collection(path).problems == ()


def test_of_few_items_no_index_is_written_and_no_compiler_loaded(path):
    shutil.rmtree(current_folder(path) / "index", ignore_errors=True)
    program = (
        "import sys\n"
        "from acqh.collection import Collection, Item\n"
        "with Collection.open(sys.argv[1]) as collection:\n"
        "    collection.remove('item0')\n"
        "    collection.add([Item(id='new', text='a wet dog', labels=['dog'])])\n"
        "    assert collection.search(text='dog').hits\n"
        "print('numba' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert not (current_folder(path) / "index").exists()
    assert verify_collection(path).notes == ()


def test_a_schema_that_is_no_text_is_damage(path):
    content = (current_folder(path) / "items.sqlite").read_bytes()
    (current_folder(path) / "items.sqlite").write_bytes(
        content.replace(b"CREATE TABLE", b"\xbcREATE TABLE")
    )
    with pytest.raises(CorruptBundleError, match=r"items\.sqlite is damaged"):
        Collection.open(path)
    assert "items.sqlite" in str(verify_collection(path).problems)


@pytest.mark.parametrize("part", ["model", "encoders"])
def test_a_damaged_model_or_manifest_is_named(path, part):
    member = max(
        (current_folder(path) / part).glob("*.safetensors"), key=lambda file: file.stat().st_size
    )
    content = bytearray(member.read_bytes())
    content[-3] ^= 1
    member.write_bytes(content)
    with pytest.raises(CorruptBundleError, match=member.name):
        Collection.open(path)
    assert any(member.name in problem for problem in verify_collection(path).problems)


def dump(path):
    with closing(sqlite3.connect(current_folder(path) / "items.sqlite")) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608
            for table in ("meta", "items", "thumbnails", "item_values", "removals")
        ]


def test_no_flipped_byte_of_the_items_passes_unseen(path):
    file = current_folder(path) / "items.sqlite"
    full, content = dump(path), file.read_bytes()
    rng = np.random.default_rng(0)
    result = 0
    for place in rng.integers(0, len(content), 100):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        if verify_collection(path).problems:
            result += 1
            continue
        assert dump(path) == full, f"byte {place}"
    file.write_bytes(content)
    assert result > 20
    assert verify_collection(path).ok


@pytest.mark.parametrize("content", [b"", b"no database" * 1000, None])
def test_lost_items_raise_an_error(path, content):
    (current_folder(path) / "items.sqlite").unlink()
    if content is not None:
        (current_folder(path) / "items.sqlite").write_bytes(content)
    with pytest.raises(AcqhError, match=r"items\.sqlite"):
        Collection.open(path)
    assert verify_collection(path).problems


def test_a_collection_that_cannot_be_written_can_be_searched(path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Collection.open(path) as collection:
        assert collection.search(text="dog", k=3).hits
        with pytest.raises(CollectionError, match="not writable"):
            collection.remove("item0")


def test_a_collection_that_others_change_is_found_whole(path):
    stop = threading.Event()

    def keep_adding():
        with Collection.open(path) as collection:
            number = 0
            while not stop.is_set():
                number += 1
                collection.add(Item(text="dog", labels=["animal"], id=f"more{number}"))
                collection.remove(f"more{number}")

    adding = threading.Thread(target=keep_adding)
    adding.start()
    try:
        problems = [problem for _ in range(20) for problem in verify_collection(path).problems]
    finally:
        stop.set()
        adding.join()
    assert problems == []


def test_the_error_for_another_layout_names_the_fix(path):
    with closing(sqlite3.connect(current_folder(path) / "items.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'layout'")
    with pytest.raises(CorruptBundleError, match="layout 99"):
        Collection.open(path)
