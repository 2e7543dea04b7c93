"""Collections that are rebuilt, moved or removed while others have them open."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acqh.collection import Collection, Item
from acqh.collection.generations import generation_of, remove_unused
from acqh.collection.verify import verify_collection
from acqh.errors import ReplacedError

KINDS = {"animal": "dog cat fur", "flower": "rose tulip petal", "vehicle": "car wheel engine"}
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX processes")


def items(n, prefix):
    return [
        Item(text=f"{KINDS[kind]} {prefix}", labels=[kind], id=f"{prefix}{number}-{kind}")
        for number in range(n)
        for kind in KINDS
    ]


def build(path, n, prefix, **options):
    Collection.build(
        items(n, prefix),
        path,
        n_components=4,
        n_codebooks=2,
        overwrite=True,
        **options,
        image_encoder="hog",
        text_encoder="tfidf",
    ).close()


@pytest.fixture
def path(tmp_path):
    build(tmp_path / "c.acqh", 4, "old")
    return tmp_path / "c.acqh"


def generations(path):
    return [file.name for file in path.iterdir() if file.is_dir()]


def read_state(collection):
    hits = collection.search(text="dog", k=40).hits
    return [(hit.id, hit.score) for hit in hits], len(collection), sorted(collection)


@pytest.mark.parametrize("n", [2, 9], ids=["smaller", "larger"])
def test_a_new_thread_reads_the_opened_state_and_changes_nothing(path, n):
    with Collection.open(path) as collection:
        before = read_state(collection)
        build(path, n, "new")
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(lambda _: read_state(collection), range(12))) == [before] * 12
            for change in (
                lambda: collection.add(items(1, "more")),
                lambda: collection.upsert(items(1, "old")),
                lambda: collection.remove("old0-animal"),
                collection.verify,
            ):
                with pytest.raises(ReplacedError, match="open it again"):
                    threads.submit(change).result()
        assert collection.info().n_items == 12
    report = verify_collection(path)
    assert (report.problems, report.notes, report.n_items) == ((), (), 3 * n)


@pytest.mark.parametrize("n", [2, 9], ids=["smaller", "larger"])
def test_closing_leaves_the_new_collection_alone(path, n):
    old = Collection.open(path)
    old.add(items(1, "more"))
    build(path, n, "new")
    with Collection.open(path) as new:
        new.add(items(1, "kept"))
        old.close()
        with Collection.open(path) as third:
            assert len(third) == len(new) == 3 * n + 3
            third.add(items(1, "also"))
        assert len(new) == 3 * n + 6
    report = verify_collection(path)
    assert (report.problems, report.n_items) == ((), 3 * n + 6)


def test_an_add_that_a_rebuild_overtakes_is_not_acknowledged(path):
    def many():
        yield from items(50, "first")
        build(path, 2, "new")
        yield from items(50, "second")

    with Collection.open(path) as collection, pytest.raises(ReplacedError, match="open it again"):
        collection.add(many())
    with Collection.open(path) as collection:
        assert sorted(collection) == sorted(item.id for item in items(2, "new"))
    assert verify_collection(path).ok


@pytest.mark.parametrize("fate", ["moved", "removed"])
def test_a_collection_that_is_gone_can_be_read_but_not_changed(path, fate):
    with Collection.open(path) as collection:
        before = read_state(collection)
        if fate == "moved":
            path.rename(path.with_name("elsewhere.acqh"))
        else:
            shutil.rmtree(path)
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(read_state, collection).result() == before
        with pytest.raises(ReplacedError):
            collection.add(items(1, "more"))
    if fate == "moved":
        assert verify_collection(path.with_name("elsewhere.acqh")).ok


def test_opening_and_verifying_during_rebuilds_read_one_build(path):
    stop = threading.Event()
    state, wrong = set(), []

    def check():
        try:
            while not stop.is_set():
                with Collection.open(path) as collection:
                    result, n_items, ids = read_state(collection)
                if {identifier for identifier, _ in result} != set(ids) or n_items != len(ids):
                    wrong.append((result, ids))
                state.add(n_items)
                wrong.extend(verify_collection(path).problems)
                stop.wait(0.02)
        except Exception as error:
            wrong.append(error)

    checking = threading.Thread(target=check)
    checking.start()
    try:
        for n in range(2, 6):
            build(path, n, f"new{n}-")
    finally:
        stop.set()
        checking.join()
    assert not wrong
    assert len(state) > 1, state


def test_writes_acknowledged_after_a_rebuild_are_kept(path):
    stop = threading.Event()
    acknowledged, errors = [], []

    def add(worker):
        number = 0
        while not stop.is_set():
            try:
                with Collection.open(path, timeout=60) as collection:
                    while not stop.is_set():
                        number += 1
                        name = f"{worker}-{number}"
                        generation = collection.generation
                        collection.add(Item(text="dog", labels=["animal"], id=name))
                        acknowledged.append((generation, name))
            except ReplacedError:
                continue
            except Exception as error:
                errors.append(error)
                return

    adding = [threading.Thread(target=add, args=(worker,)) for worker in "ab"]
    for thread in adding:
        thread.start()
    try:
        for n in range(2, 6):
            build(path, n, f"new{n}-")
    finally:
        stop.set()
        for thread in adding:
            thread.join()
    assert not errors
    generation = generation_of(path)
    with Collection.open(path) as collection:
        assert {name for key, name in acknowledged if key == generation} <= set(collection)
    assert verify_collection(path).ok


def run_beside(program, path):
    """Run one of the programs of fault_programs.py, on the collection, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("fault_programs.py")), program]
    return subprocess.run(
        [*command, str(path.parent)], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
@POSIX
def test_leftovers_of_killed_builds_are_removed_by_the_next_or_on_request(path):
    for _ in range(2):
        assert run_beside("build_killed", path).returncode == -signal.SIGKILL
    assert len(generations(path)) == 2  # the second removed what the first had left
    notes = verify_collection(path).notes
    assert any("killed builds" in note for note in notes)
    assert remove_unused(path) > 10_000
    assert generations(path) == [generation_of(path)]
    assert [file.name for file in path.parent.iterdir()] == ["c.acqh"]
    assert verify_collection(path).notes == ()


def test_builds_at_work_are_left_alone(path):
    def two_at_once():
        yield from items(2, "outer")
        build(path, 3, "inner")
        assert remove_unused(path) == 0

    Collection.build(
        two_at_once(),
        path,
        n_components=4,
        n_codebooks=2,
        overwrite=True,
        image_encoder="hog",
        text_encoder="tfidf",
    ).close()
    assert generations(path) == [generation_of(path)]
    assert verify_collection(path).n_items == 6


@pytest.fixture
def shown():
    """Build where others may look: not below pytest's own folder, which it closes to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        build(Path(folder) / "c.acqh", 4, "old")
        yield Path(folder) / "c.acqh"


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("state", ["closed", "open", "killed", "without shm"])
def test_readers_without_the_right_to_write_see_all_that_was_acknowledged(shown, state):
    path = shown
    with Collection.open(path) as collection:
        collection.add(items(2, "more"))
        if state in ("killed", "without shm"):
            ignored = shutil.ignore_patterns("*-shm" if state == "without shm" else "")
            copied = shutil.copytree(path.parent, path.parent / "copied", ignore=ignored)
            path = copied / "c.acqh"
        if state == "open":
            ended = run_beside("read_only", path)
    if state != "open":
        ended = run_beside("read_only", path)
    assert ended.returncode == 0, ended.stderr
    output = json.loads(ended.stdout)
    if state == "without shm":
        assert "open the collection once as its owner" in output["opening"]
        return
    assert "not writable" in output.pop("removing")
    assert set(output.values()) == {18}, output
