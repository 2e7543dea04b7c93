"""After any failure of saving, the old or the new bundle is complete."""

import errno
import itertools

import numpy as np
import pytest

from acqh._core import files as _files
from acqh.io import read_bundle, verify_bundle, write_bundle
from acqh.io.write import replace_file

OPERATIONS = (
    "make_directory", "create", "write", "sync", "rename", "sync_directory", "names", "unlink",
)  # fmt: skip


class Crash(BaseException):
    """The process is gone: nothing it would have done afterwards happens."""


def save(path, version):
    arrays = {
        "shared": {"x": np.arange(100)},
        "own": {"y": np.full(50, version, np.uint8), "z": np.full((2, 3), version, np.float32)},
    }
    write_bundle(path, kind="test", info={"version": version}, arrays=arrays)


def state(path):
    """Return the version of the bundle after checking every byte; None if there is no bundle."""
    try:
        bundle = read_bundle(path, verify=True)
    except FileNotFoundError:
        return None
    assert verify_bundle(path).ok
    assert set(bundle.arrays("own")["y"]) == {bundle.info["version"]}
    return bundle.info["version"]


def names(path):
    return {entry.name for entry in path.iterdir()} if path.exists() else set()


@pytest.fixture
def operations(monkeypatch):
    """Wrap every file operation; return a function that says what happens at the n-th."""
    plan = {"count": 0, "at": None, "how": None, "done": []}

    def wrap(name):
        original = getattr(_files, name)

        def operation(*arguments):
            plan["count"] += 1
            hit = plan["at"] is not None and plan["count"] >= plan["at"]
            if hit and plan["how"] == "crash":
                raise Crash
            hit = plan["count"] == plan["at"]
            if hit and plan["how"] == "half" and name == "write":
                original(arguments[0], arguments[1][: len(arguments[1]) // 2])
            elif hit and plan["how"] == "reported late":
                result = original(*arguments)
                if name == "create":
                    result.close()
            if hit:
                raise OSError(errno.ENOSPC, "No space left on device")
            plan["done"].append((name, arguments))
            return original(*arguments)

        monkeypatch.setattr(_files, name, operation)

    for name in OPERATIONS:
        wrap(name)

    def start(at=None, how=None):
        plan.update(count=0, at=at, how=how, done=[])
        return plan["done"]

    return start


def commit_point(done):
    (place,) = (
        place
        for place, (name, arguments) in enumerate(done, start=1)
        if name == "rename" and arguments[1].name == "manifest.json"
    )
    return place


@pytest.mark.parametrize("how", ["not done", "half", "reported late", "crash"])
@pytest.mark.parametrize("before", [None, 1])
def test_any_operation_that_fails_leaves_the_old_or_the_new_bundle(
    tmp_path, operations, before, how
):
    path = tmp_path / "trial"
    done = operations()
    if before is not None:
        save(path, before)
        done = operations()
    save(path, 2)
    n_operations, commit = len(done), commit_point(done)
    assert n_operations > 15
    for n in range(1, n_operations + 1):
        path = tmp_path / str(n)
        operations()
        if before is not None:
            save(path, before)
        before_names = names(path)
        operations(at=n, how=how)
        failed = False
        try:
            save(path, 2)
        except (OSError, Crash):
            failed = True
        operations()
        # Reported late, the renaming itself has happened.
        committed = n > commit or (n == commit and how == "reported late")
        assert state(path) == (2 if committed else before)
        assert failed or committed
        if how in ("not done", "half") and n < commit:
            assert names(path) == before_names
        save(path, 3)
        assert state(path) == 3
        assert len(names(path)) == 3


def test_tidying_up_never_fails_a_save(tmp_path, operations):
    save(tmp_path / "b", 1)
    done = operations()
    save(tmp_path / "b", 2)
    durable = commit_point(done) + 1
    for n in range(durable + 1, len(done) + 1):
        operations(at=n, how="not done")
        save(tmp_path / "b", n)
        assert state(tmp_path / "b") == n


class Disk:
    """A directory on a disk that may forget, in a power cut, whatever was not synced.

    Until the directory is synced any of its changed names may or may not be on the disk; of a
    file only those bytes are that were written before it was synced.
    """

    def __init__(self, directory):
        self.content = {}
        self.synced = {}
        self.names = {}
        for entry in directory.iterdir():
            self.names[entry.name] = len(self.content)
            self.synced[len(self.content)] = entry.read_bytes()
            self.content[len(self.content)] = entry.read_bytes()
        self.durable = dict(self.names)
        self.pending = []

    def apply(self, operation, arguments):
        match operation, arguments:
            case "create", (path,):
                number = len(self.content)
                self.content[number] = self.synced[number] = b""
                self.change({path.name: number})
            case "write", (file, data):
                self.content[self.names[file.name.name]] += bytes(data)
            case "sync", (file,):
                number = self.names[file.name.name]
                self.synced[number] = self.content[number]
            case "rename", (source, target):
                self.change({target.name: self.names[source.name], source.name: None})
            case "unlink", (path,):
                self.change({path.name: None})
            case "sync_directory", _:
                self.durable = dict(self.names)
                self.pending = []

    def change(self, names):
        self.names.update(names)
        self.pending.append(names)

    def after_power_cut(self):
        """Yield every set of files that may be found, as name to content."""
        for choice in itertools.product([False, True], repeat=len(self.pending)):
            names = dict(self.durable)
            for change in itertools.compress(self.pending, choice):
                names.update(change)
            yield {n: self.synced[number] for n, number in names.items() if number is not None}


def test_a_power_cut_at_any_moment_leaves_the_old_or_the_new_bundle(tmp_path, operations):
    save(tmp_path / "b", 1)
    disk = Disk(tmp_path / "b")
    done = operations()
    save(tmp_path / "b", 2)
    durable = commit_point(done) + 1
    result = {}
    for n, (operation, arguments) in enumerate(done, start=1):
        disk.apply(operation, arguments)
        for files in disk.after_power_cut():
            key = frozenset(files.items())
            if key not in result:
                trial = tmp_path / f"{len(result)}"
                trial.mkdir()
                for name, content in files.items():
                    (trial / name).write_bytes(content)
                result[key] = state(trial)
            assert result[key] in ({1, 2} if n < durable else {2})
    assert len(result) > 20
    assert set(result.values()) == {1, 2}


@pytest.mark.parametrize("how", ["not done", "half", "crash"])
def test_a_replaced_file_is_the_old_or_the_new_one_after_any_failure(tmp_path, operations, how):
    path = tmp_path / "notes.txt"
    done = operations()
    replace_file(path, b"old")
    for n in range(1, len(done) + 1):
        operations()
        replace_file(path, b"old")
        operations(at=n, how=how)
        with pytest.raises((OSError, Crash)):
            replace_file(path, b"new content")
        # Create, write and sync come before the rename, and syncing the directory after it.
        assert path.read_bytes() == (b"old" if n <= 4 else b"new content")
        if how != "crash":
            assert names(tmp_path) == {"notes.txt"}
