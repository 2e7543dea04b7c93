"""Programs that change a collection while they are killed or the disk is full.

Usage: ``python fault_programs.py killed|full|together|build_killed|read_only DIRECTORY``.
Each prints one JSON object. The last two use the existing collection ``DIRECTORY/c.acqh``.
"""

import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from acqh._core.runtime import Progress
from acqh.collection import Collection, Item
from acqh.collection import opened as _cache
from acqh.collection.generations import current_folder
from acqh.collection.verify import verify_collection
from acqh.errors import CollectionError

_cache.MAX_FEW = 0  # so that there is an index to be left behind

N_KILLS = 100
KINDS = {"animal": "dog cat fur", "flower": "rose tulip petal", "vehicle": "car wheel engine"}


def item(name: str) -> Item:
    kind = sorted(KINDS)[len(name) % len(KINDS)]
    return Item(text=KINDS[kind], labels=[kind], id=name)


def build(path: Path, progress: Progress | None = None) -> None:
    items = [Item(text=text, labels=[kind]) for kind, text in KINDS.items() for _ in range(4)]
    Collection.build(
        items,
        path,
        n_components=4,
        n_codebooks=2,
        overwrite=True,
        image_encoder="hog",
        text_encoder="tfidf",
        progress=progress,
    ).close()


def add_until_killed(path: Path, first: int, acknowledged: int) -> None:
    """Add items one call after another, telling of each when its call has returned."""
    with Collection.open(path) as collection:
        for number in range(first, first + 1000):
            collection.add([item(f"n{number}"), item(f"m{number}")])
            os.write(acknowledged, number.to_bytes(4, "little"))
            if number % 5 == 4:
                collection.remove(f"m{number}")


def killed(directory: Path) -> dict[str, int]:
    """Kill a process that adds without pause, a hundred times, and check what it leaves."""
    path = directory / "c.acqh"
    build(path)
    rng = random.Random(0)
    expected_ids: set[str] = set()
    first = interrupted = behind = 0
    for _ in range(N_KILLS):
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            add_until_killed(path, first, sending)
            os._exit(0)
        os.close(sending)
        received = os.read(receiving, 4)  # so that it is killed at work, not while it starts
        time.sleep(rng.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        while more := os.read(receiving, 4):
            received = more
        os.close(receiving)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        last = int.from_bytes(received, "little")
        expected_ids |= {f"n{number}" for number in range(first, last + 1)}
        report = verify_collection(path)
        assert report.ok, report.problems
        with closing(sqlite3.connect(current_folder(path) / "items.sqlite")) as connection:
            result = {identifier for (identifier,) in connection.execute("SELECT id FROM items")}
        assert expected_ids <= result, expected_ids - result
        assert report.n_items == len(result)
        interrupted += f"n{last + 1}" in result
        behind += bool(report.notes)
        first = last + 2
    with Collection.open(path) as collection:
        assert expected_ids <= {hit.id for hit in collection.search(text="dog", k=10_000).hits}
    return {"n_kept": len(expected_ids), "interrupted": interrupted, "behind": behind}


def full(directory: Path) -> dict[str, int]:
    """Add on a small disk with ever more free pages, from none up."""
    path = directory / "c.acqh"
    build(path)
    filler = directory / "filler"
    page = os.statvfs(directory).f_frsize
    failed = succeeded = 0
    for n_free in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        filler.write_bytes(bytes((os.statvfs(directory).f_bavail - n_free) * page))
        names = [f"{n_free}-{number}" for number in range(5)]
        try:
            with Collection.open(path) as collection:
                collection.add([item(name) for name in names])
            succeeded += 1
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EIO):
                raise
            names = []
            failed += 1
        filler.unlink()
        report = verify_collection(path)
        assert report.ok, report.problems
        with Collection.open(path) as collection:
            assert set(names) <= set(collection)
    return {"failed": failed, "succeeded": succeeded}


def together(directory: Path) -> dict[str, int]:
    """Let three processes add, and one search, at the same time."""
    path = directory / "c.acqh"
    build(path)
    children = []
    for writer in range(4):
        child = os.fork()
        children.append(child)
        if child:
            continue
        with Collection.open(path) as collection:
            for number in range(15):
                if writer == 3:
                    hits = collection.search(text="dog", k=1000).hits
                    assert len(hits) >= 12
                else:
                    collection.add(item(f"w{writer}-{number}"))
        os._exit(0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * 4, codes
    report = verify_collection(path)
    assert report.ok, report.problems
    return {"n_items": report.n_items}


def build_killed(directory: Path) -> None:
    """Build in place of what is there until the first batch is stored, then die."""

    def die(done: int, total: int | None, stage: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    build(directory / "c.acqh", progress=die)


def read_only(directory: Path) -> dict[str, object]:
    """Read without the right to write."""
    path = directory / "c.acqh"
    if os.getuid() == 0:
        # Now, since others may not be allowed to read where Python is installed.
        build(directory / "other.acqh")
        shutil.rmtree(directory / "other.acqh")
        os.setuid(65534)
    else:
        os.access = lambda *_, **__: False
    try:
        with Collection.open(path) as collection:
            state = {
                "hits": len(collection.search(text="dog", k=1000).hits),
                "n_items": len(collection),
                "ids": len(list(collection)),
                "verified": verify_collection(path).n_items,
                "revision": collection.revision,
            }
            try:
                collection.remove(next(iter(collection)))
            except CollectionError as error:
                return state | {"removing": str(error)}
    except CollectionError as error:
        return {"opening": str(error)}
    return state


if __name__ == "__main__":
    programs = (killed, full, together, build_killed, read_only)
    program = {program.__name__: program for program in programs}[sys.argv[1]]
    print(json.dumps(program(Path(sys.argv[2]))))  # noqa: T201
