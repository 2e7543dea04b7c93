"""Generations on systems that lack something, and builds that are interrupted at any step."""

import errno
import fcntl
import itertools
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from acqh.collection import Collection, Item
from acqh.collection.generations import generation_of, is_vacant, remove_unused
from acqh.collection.verify import verify_collection
from acqh.errors import CollectionError, ReplacedError

Image = pytest.importorskip("PIL.Image")
SMALL = {"n_components": 4, "n_codebooks": 2, "image_encoder": "hog", "text_encoder": "tfidf"}
PROC = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
KINDS = {"animal": "dog cat fur", "flower": "rose tulip petal", "vehicle": "car wheel engine"}


def items(prefix, n=4):
    return [Item(text=text, labels=[kind], id=f"{prefix}-{kind}{number}")
            for number in range(n) for kind, text in KINDS.items()]  # fmt: skip


def build(path, prefix="old", **options):
    return Collection.build(items(prefix), path, **SMALL, **options)


def generations(path):
    return [file.name for file in path.iterdir() if file.is_dir()]


def check_whole(path, *prefixes):
    """Check that a collection is whole, and which builds it may be of."""
    assert verify_collection(path).problems == ()
    with Collection.open(path) as collection:
        ids = set(collection)
    assert any(ids == {item.id for item in items(prefix)} for prefix in prefixes)


# What other systems lack.


def without_flock(monkeypatch):
    def fail(*_):
        raise OSError(errno.EBADF, "flock needs a file opened for writing")

    monkeypatch.setattr(fcntl, "flock", fail)


def without_folder_renames(monkeypatch):
    for name in ("rename", "replace", "renames"):
        real = getattr(os, name)

        def fail(source, target, *rest, real=real, **more):
            if Path(source).is_dir() or Path(target).is_dir():
                raise OSError(errno.EOPNOTSUPP, "folders are not renamed here")
            return real(source, target, *rest, **more)

        monkeypatch.setattr(os, name, fail)


def without_links(monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(os, "symlink", fail)


def fsync_of_writable_files_only(monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "a folder is not synced here")
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "not opened for writing")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def in_use(path):
    """Whether this process has a file open or mapped, or one in a folder."""
    path = str(Path(path).absolute())
    names = {
        line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().split("\n")[:-1]
    }
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            names.add(str(descriptor.readlink()))
    return any(name == path or name.startswith(path + os.sep) for name in names)


def keeping_open_files(monkeypatch):
    """Fail to remove, rename or replace open files, as Windows does."""
    for name in ("remove", "unlink", "rmdir", "rename", "replace"):
        real = getattr(os, name)

        def fail(*paths, real=real, **more):
            if any(in_use(path) for path in paths):
                raise PermissionError(errno.EACCES, "a file is in use", str(paths[0]))
            return real(*paths, **more)

        monkeypatch.setattr(os, name, fail)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)
    monkeypatch.setattr("acqh._core.files._RETRY_SECONDS", 0.5)


def without_shared_memory(monkeypatch):
    class Connection(sqlite3.Connection):
        def execute(self, statement, *values):
            if "journal_mode = WAL" in statement:
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(statement, *values)

    real = sqlite3.connect

    def connect(*arguments, **options):
        return real(*arguments, **{"factory": Connection, **options})

    monkeypatch.setattr(sqlite3, "connect", connect)


SYSTEMS = [
    without_flock,
    without_folder_renames,
    without_links,
    fsync_of_writable_files_only,
    pytest.param(keeping_open_files, marks=PROC),
    without_shared_memory,
]


@pytest.mark.parametrize("lack", SYSTEMS)
def test_everything_works_on_a_system_without(lack, tmp_path, monkeypatch):
    lack(monkeypatch)
    path, photos = tmp_path / "c.acqh", tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (16, 16), (80 * number, 9, 99)).save(photos / f"{number}.png")
    build(path).close()
    with Collection.open(path) as reader:
        build(path, "new", overwrite=True).close()
        assert reader.search(text="dog", k=1).hits[0].id.startswith("old")
        with pytest.raises(ReplacedError):
            reader.add(items("late", 1))
        assert len(generations(path)) == 2, "nobody removes what is open"
    with Collection.open(path) as writer:
        assert set(writer) == {item.id for item in items("new")}
        assert len(writer.add(items("more", 1)).ids) == 3
        assert generations(path) == [writer.generation], "a write removes what nobody uses"
        before = writer.generation
        writer.retrain().close()
        assert writer.search(text="dog", k=1).hits
        report = writer.sync(photos)
        assert len(report.new) + len(report.unreadable) == 3
        assert writer.generation != before
        assert writer.annotate(Item(id="new-animal0", text="a cat")).ids == ("new-animal0",)
        writer.remove("new-animal1")
    with Collection.open(path) as collection:
        collection.remove("new-animal2")
        assert collection.item("new-animal0").text == "a cat"
        assert len(collection) == 12 + 3 - 2 + len(report.new)
    assert generations(path) == [generation_of(path)]
    assert verify_collection(path).problems == ()
    assert verify_collection(path).notes == ()


@PROC
def test_a_manifest_that_is_being_read_is_replaced_when_it_is_free(tmp_path, monkeypatch):
    path = tmp_path / "c.acqh"
    build(path).close()
    keeping_open_files(monkeypatch)
    monkeypatch.setattr("acqh._core.files._RETRY_SECONDS", 30.0)
    reading = (path / "manifest.json").open("rb")
    threading.Timer(0.5, reading.close).start()
    build(path, "new", overwrite=True).close()
    check_whole(path, "new")


# Interruptions.


class InjectedError(OSError):
    """An error that a test injects."""


STEPS = [
    *((os, name) for name in ("replace", "mkdir", "rmdir", "unlink")),
    (shutil, "rmtree"),
]


@contextmanager
def interrupted(at: int, error: type[BaseException], after: bool) -> Iterator[list[int]]:
    """Raise at one of the steps that create, replace or remove something below a folder."""
    steps = [0]
    with pytest.MonkeyPatch.context() as patch:
        for place, name in STEPS:
            real = getattr(place, name)

            def step(*arguments, real=real, **options):
                steps[0] += 1
                number = steps[0]
                if number == at and not after:
                    raise error
                done = real(*arguments, **options)
                if number == at:
                    raise error
                return done

            patch.setattr(place, name, step)
        yield steps


def overwrite(path):
    build(path, "new", overwrite=True).close()


def retrain(path):
    with Collection.open(path) as collection:
        collection.retrain().close()


def build_first(path):
    build(path, "new").close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [InjectedError, KeyboardInterrupt])
@pytest.mark.parametrize("operation", [build_first, overwrite, retrain])
def test_interrupted_at_any_step_the_old_or_the_new_collection_remains(
    tmp_path, operation, error, after
):
    template = tmp_path / "template.acqh"
    build(template).close()
    for at in itertools.count(1):
        path = tmp_path / f"{at}.acqh"
        if operation is not build_first:
            shutil.copytree(template, path)
        raised = True
        with interrupted(at, error, after) as steps:
            try:
                operation(path)
                raised = False
            except error:
                pass
        if steps[0] < at:
            break
        if operation is build_first and is_vacant(path):
            assert raised
            build(path, "new").close()  # nothing is in the way
        check_whole(path, "new" if operation is build_first else "old", "new")
        with Collection.open(path) as collection:
            collection.remove(next(iter(collection)))
        assert generations(path) == [generation_of(path)]
        assert {file.name for file in path.iterdir() if file.is_file()} == {"manifest.json"}
        shutil.rmtree(path)
    assert at > 5


def test_a_first_build_that_fails_leaves_nothing(tmp_path):
    for error in (InjectedError, KeyboardInterrupt):

        def stop(*_, error=error):
            raise error

        with pytest.raises(error):
            build(tmp_path / "c.acqh", progress=stop)
        assert list(tmp_path.iterdir()) == []


def test_remains_of_a_killed_first_build_are_no_collection_and_not_in_the_way(tmp_path):
    path = tmp_path / "c.acqh"
    build(path).close()
    (path / "manifest.json").write_bytes(b"")  # created, and killed before it was replaced
    with pytest.raises(FileNotFoundError, match="not a collection"):
        Collection.open(path)
    build(path, "new").close()
    check_whole(path, "new")
    assert generations(path) == [generation_of(path)]


def test_a_folder_with_other_files_is_not_built_into(tmp_path):
    (tmp_path / "c.acqh").mkdir()
    (tmp_path / "c.acqh" / "mine.txt").write_text("mine")
    for overwrite_it in (False, True):
        with pytest.raises(FileExistsError):
            build(tmp_path / "c.acqh", overwrite=overwrite_it)
    assert [file.name for file in (tmp_path / "c.acqh").iterdir()] == ["mine.txt"]


def test_of_two_first_builds_at_once_the_second_finds_the_first(tmp_path):
    path = tmp_path / "c.acqh"

    def two_at_once():
        yield from items("outer")
        build(path, "inner").close()

    with pytest.raises(FileExistsError, match="exists"):
        Collection.build(two_at_once(), path, **SMALL)
    check_whole(path, "inner")
    assert generations(path) == [generation_of(path)]


def test_a_failed_overwrite_keeps_the_old_collection_and_removes_the_new(tmp_path):
    path = tmp_path / "c.acqh"
    build(path).close()
    with pytest.raises(CollectionError):
        Collection.build([], path, **SMALL, overwrite=True)
    check_whole(path, "old")
    assert generations(path) == [generation_of(path)]


def test_a_generation_that_is_open_stays_until_it_is_closed(tmp_path):
    path = tmp_path / "c.acqh"
    build(path).close()
    one, other = Collection.open(path), Collection.open(path)
    overwrite(path)
    one.close()
    assert remove_unused(path) == 0
    assert len(generations(path)) == 2
    assert len(other.search(text="dog", k=50).hits) == 12
    other.close()
    assert generations(path) == [generation_of(path)]


# Changes while a collection is retrained.


@pytest.fixture
def retraining(tmp_path):
    """Give a collection, and a function that does something while it is retrained."""
    path = tmp_path / "c.acqh"

    def during_retraining(change):
        began, waiting = threading.Event(), threading.Event()

        def wait(*_):
            began.set()
            waiting.wait(60)

        failed = []

        def learn():
            try:
                with Collection.open(path) as other:
                    other.retrain(progress=wait).close()
            except BaseException as error:
                failed.append(error)

        learner = threading.Thread(target=learn)
        learner.start()
        assert began.wait(60)
        # The change waits for the lock by then, or comes right after: both must do.
        threading.Timer(0.5, waiting.set).start()
        try:
            return change()
        finally:
            waiting.set()
            learner.join()
            assert not failed

    with build(path) as collection:
        yield collection, during_retraining


def pictures(n, seed):
    import numpy as np

    for number in range(n):
        rng = np.random.default_rng((seed, number))
        yield Image.fromarray(rng.integers(0, 255, (16, 16, 3)).astype(np.uint8))


@pytest.mark.parametrize("strict", [False, True])
def test_additions_go_on_in_the_retrained_collection_with_codes_of_its_model(retraining, strict):
    collection, during_retraining = retraining
    before = collection.generation
    new_words = [Item(text="zebra stripes", labels=["animal"], id=f"zebra{n}") for n in range(90)]
    collection.add(new_words[:20])
    assert collection.item("zebra0").encoded_from == "labels", "its words are not known yet"
    assert len(during_retraining(lambda: collection.add(new_words[20:], strict=strict)).ids) == 70
    assert collection.generation != before
    with Collection.open(collection.path) as other:
        stored = {
            item.id: (item.encoded_from, code) for page in other.batches() for item, code in page
        }
    assert len(stored) == 12 + 90
    assert stored["zebra89"] == stored["zebra0"]
    assert stored["zebra89"][0] == "labels+text"
    assert verify_collection(collection.path).problems == ()


def test_labels_and_removals_go_on_in_the_retrained_collection(retraining):
    collection, during_retraining = retraining
    during_retraining(lambda: collection.annotate(Item(id="old-animal0", text="a red rose")))
    during_retraining(lambda: collection.remove("old-animal1"))
    with Collection.open(collection.path) as other:
        assert other.item("old-animal0").text == "a red rose"
        assert "old-animal1" not in other
        assert len(other) == 12 - 1
    assert verify_collection(collection.path).problems == ()


def test_a_sync_goes_on_in_the_retrained_collection(tmp_path):
    photos, path = tmp_path / "photos", tmp_path / "c.acqh"
    photos.mkdir()
    for number, image in enumerate(pictures(8, 0)):
        image.save(photos / f"{number}.png")
    with Collection.build(photos, path, **SMALL) as collection:
        before = collection.generation
        (photos / "0.png").unlink()
        (photos / "1.png").rename(photos / "moved.png")
        for number, image in enumerate(pictures(3, 1)):
            image.save(photos / f"new{number}.png")

        def retrain_once(done, total, stage):
            if stage == "looking for changes" and collection.generation == before:
                retrain(path)

        report = collection.sync(photos, progress=retrain_once)
        assert (len(report.new), report.moved, report.deleted) == (3, ("1.png",), ("0.png",))
        assert collection.generation != before
        assert len(collection) == 10
        assert collection.sync(photos).n_unchanged == 10
    assert verify_collection(path).problems == ()
    assert generations(path) == [generation_of(path)]


def test_an_open_collection_does_not_change_to_its_replacement(tmp_path):
    path = tmp_path / "c.acqh"
    with build(path) as collection:
        overwrite(path)
        with pytest.raises(ReplacedError):
            collection.remove("old-animal0")
        assert "old-animal0" in collection
    check_whole(path, "new")
