"""Kill processes that add to a collection, and others that build one, at any moment.

    python tools/soak_kills.py --builds 60

Prints one JSON line; every check that fails ends it.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from acqh.collection import Collection
from acqh.collection.generations import generation_of
from acqh.collection.verify import verify_collection

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "collection"))
import changers


def killed_builds(folder: Path, n_kills: int, seed: int) -> dict[str, int]:
    """Rebuild a collection and kill that at any moment; it is the old one or the new one."""
    rng = random.Random(seed)  # noqa: S311
    path = folder / "c.acqh"
    started = time.monotonic()
    changers.build(path)
    seconds = time.monotonic() - started
    replaced = left = 0
    with Collection.open(path) as collection:
        generation = collection.generation
    for _ in range(n_kills):
        child = os.fork()
        if child == 0:
            changers.build(path)
            os._exit(0)
        time.sleep(rng.uniform(0, 1.2 * seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        report = verify_collection(path)
        assert report.ok, report.problems
        beside = sum(entry.is_dir() for entry in path.iterdir()) - 1
        assert beside <= 1, "builds do not remove what those before them left"
        left += beside
        with Collection.open(path) as collection:
            replaced += collection.generation != generation
            generation = collection.generation
    changers.build(path)
    assert [entry.name for entry in path.iterdir() if entry.is_dir()] == [generation_of(path)]
    return {
        "builds_killed": n_kills,
        "builds_replaced": replaced,
        "generations_left_then_removed": left,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--builds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        counts |= changers.killed(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        counts |= killed_builds(Path(folder), arguments.builds, arguments.seed)
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
