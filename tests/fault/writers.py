"""Programs that save bundles under hardship, run by the tests in processes of their own.

Usage: ``python writers.py killed|full DIRECTORY``; prints one JSON object.
"""

import errno
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from acqh.io import read_bundle, verify_bundle, write_bundle

N_KILLS = 100


def save(path: Path, version: int, n_bytes: int) -> None:
    """Save a bundle whose every array tells its version."""
    half = np.full(n_bytes // 2, version, dtype=np.uint8)
    arrays = {"one": {"x": half}, "two": {"y": half[::-1], "n": np.array([version])}}
    write_bundle(path, kind="test", info={"version": version}, arrays=arrays)


def whole_version(path: Path) -> int:
    """Return the version of a bundle after checking every byte."""
    bundle = read_bundle(path, verify=True)
    assert verify_bundle(path).ok
    version = bundle.info["version"]
    assert (bundle.arrays("one")["x"] == version).all()
    assert (bundle.arrays("two")["y"] == version).all()
    return int(version)


def killed(directory: Path) -> dict[str, int]:
    """Kill a process that saves without pause, a hundred times, and check what it leaves."""
    path = directory / "b"
    started = time.perf_counter()
    for version in range(5):
        save(path, version, 100_000)
    seconds_a_save = (time.perf_counter() - started) / 5
    rng = random.Random(0)
    last = 4
    progressed = interrupted = 0
    for _ in range(N_KILLS):
        child = os.fork()
        if child == 0:
            while True:
                last = (last + 1) % 250
                save(path, last, 100_000)
        time.sleep(rng.uniform(0, 3) * seconds_a_save)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        version = whole_version(path)
        assert (version - last) % 250 < 100, "versions never go back"
        progressed += version != last
        interrupted += len(list(path.iterdir())) > 3
        last = version
    save(path, 251, 1000)
    return {"progressed": progressed, "interrupted": interrupted, "left": len(list(path.iterdir()))}


def full(directory: Path) -> dict[str, int]:
    """Save on a small disk with every possible number of free pages, from none up."""
    path = directory / "b"
    save(path, 1, 20_000)
    filler = directory / "filler"
    statistics = os.statvfs(directory)
    failed = succeeded = 0
    for n_free in range(20):
        free = os.statvfs(directory).f_bavail - n_free
        filler.write_bytes(bytes(free * statistics.f_frsize))
        before = {entry.name for entry in path.iterdir()}
        try:
            save(path, 2 + n_free, 20_000)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            assert {entry.name for entry in path.iterdir()} == before
            assert whole_version(path) == 1
            failed += 1
        else:
            assert whole_version(path) == 2 + n_free
            save(path, 1, 20_000)
            succeeded += 1
        filler.unlink()
    return {"failed": failed, "succeeded": succeeded}


if __name__ == "__main__":
    print(json.dumps({"killed": killed, "full": full}[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201
