"""Save, open and verify an index of ten million items, with each kind of ids.

One JSON line per case. Opening is the median of several, each in a new process and with the pages
of the files dropped from memory where the system allows; the first search follows the first
opening.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from acqh import CodeIndex
from benchmarks._measure import emit, seconds

N_ITEMS = 10_000_000
N_OPENINGS = 5
OPEN = """
import sys, time
import numpy as np
from acqh import CodeIndex
query = np.ones((1, 32), dtype=np.float32)
CodeIndex(np.ones((4, 2, 32))).add([[0, 1, 0, 1]]).search(query, 10)
start = time.perf_counter()
index = CodeIndex.load(sys.argv[1])
opened = time.perf_counter()
index.search(query, 10)
print(opened - start, time.perf_counter() - opened)
"""


def ids_of(kind: str) -> object:
    if kind == "running numbers":
        return None
    if kind == "any numbers":
        return np.random.default_rng(1).permutation(3 * N_ITEMS)[:N_ITEMS]
    return [f"item-{i:08d}" for i in range(N_ITEMS)]


def drop_pages(path: Path) -> None:
    """Ask the system to forget what it holds of the files, so that opening reads the disk."""
    for file in path.iterdir():
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def opening_times(path: Path) -> list[tuple[float, float]]:
    times = []
    for _ in range(N_OPENINGS):
        drop_pages(path)
        command = [sys.executable, "-c", OPEN, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        opened, searched = map(float, done.stdout.split())
        times.append((opened, searched))
    return times


def run(kind: str, path: Path) -> dict[str, object]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (N_ITEMS, 4), dtype=np.uint8)
    index = CodeIndex(rng.standard_normal((4, 256, 32))).add(codes, ids_of(kind))
    saving = seconds(lambda: index.save(path))
    times = opening_times(path)
    n_bytes = sum(file.stat().st_size for file in path.iterdir())
    return {
        "benchmark": "files",
        "n_items": N_ITEMS,
        "ids": kind,
        "bytes_per_item": round(n_bytes / N_ITEMS, 2),
        "save_s": round(saving, 2),
        "open_ms": round(statistics.median(opened for opened, _ in times) * 1e3, 2),
        "first_search_ms": round(statistics.median(searched for _, searched in times) * 1e3, 2),
        "verify_s": round(seconds(lambda: CodeIndex.load(path, verify=True)), 2),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for case in ("running numbers", "any numbers", "texts"):
            emit(run(case, Path(folder) / "index.acqh"))
