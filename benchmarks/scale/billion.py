"""One billion items on one machine: building, storing, opening and searching, a JSON line a case.

An item is a centre, one of a thousand, plus noise, both with 32 components; every vector of noise
is met with all centres. Each item is encoded by itself, greedily, with codebooks that Faiss trained
by residual k-means on such vectors. So an item's code costs additions in place of products, and a
billion take a quarter of an hour on one core. ``--codes`` keeps them, and goes on where they end.

Building is timed with the reading of the codes; its peak is the process's resident memory, less
what was resident before. Searches are on one thread, over the saved and mapped index, once all
queries have been asked. The best hundred of a few queries are compared, ids and bits of scores, to
those of a plain scan over all codes, whose time is the peer. Faiss's additive scan is timed up to
ten million items and multiplied up from there, as the name of that number shows.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numba import njit

from acqh import CodeIndex
from acqh.scale import build_index
from benchmarks._measure import emit, reset_peak, resident, timed
from benchmarks.speed.search import (
    MILLION,
    N_CENTRES,
    N_CODEBOOKS,
    N_QUERIES,
    Record,
    Vectors,
    best_times,
)

SIZES = [MILLION, 10 * MILLION, 100 * MILLION, 1000 * MILLION]
PART = 10 * MILLION
BLOCK = 1 << 18
# Larger indexes are not given to Faiss: it keeps a copy of all codes.
MAX_FAISS = 10 * MILLION
N_CHECKED = 4
N_ROUNDS = 5
# Noise vectors whose products with all words stay in the cache.
N_NOISE = 40
LANES = 16


@njit(fastmath=True, cache=True)
def code_pairs(bases: np.ndarray, offsets: np.ndarray, gram: np.ndarray, codes: np.ndarray) -> None:
    """Code every sum of a centre and a noise vector: in each codebook the word nearest the rest.

    Parameters
    ----------
    bases : (n_centres, 4 * 256) float32
        Products of centres and words, less half the square of each word.
    offsets : (n_noise, 4 * 256) float32
        Products of noise and words.
    gram : (4 * 256, 4 * 256) float32
        Products of words and words.
    codes : (n_noise, n_centres, 4) uint8; filled
    """
    values, tops = np.empty(256, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    for j in range(len(bases)):
        for i in range(len(offsets)):
            for s in range(4):
                first = 256 * s
                base, offset = bases[j, first : first + 256], offsets[i, first : first + 256]
                for v in range(256):
                    values[v] = base[v] + offset[v]
                for t in range(s):
                    row = gram[256 * t + codes[i, j, t], first : first + 256]
                    for v in range(256):
                        values[v] -= row[v]
                tops[:] = values[:LANES]
                for v in range(LANES, 256, LANES):  # many at a time, as compilers like it
                    for lane in range(LANES):
                        value = values[v + lane]
                        tops[lane] = value if value > tops[lane] else tops[lane]
                high, best = max(tops), 0
                while tops[best] != high:
                    best += 1
                while values[best] != high:
                    best += LANES
                codes[i, j, s] = best


def write_codes(folder: Path, n: int) -> list[Path]:
    """Write the codes of n items as files of ten million each; files that are there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"codes-{number:03d}.npy" for number in range(-(-n // PART))]
    if all(path.exists() for path in [*paths, folder / "queries.npy"]):
        return paths
    vectors = Vectors()
    np.save(folder / "codebooks.npy", vectors.codebooks)
    np.save(folder / "queries.npy", vectors.queries)
    words = vectors.codebooks.reshape(-1, vectors.codebooks.shape[2])
    bases = vectors.centres @ words.T - np.float32(0.5) * np.sum(words**2, axis=1)
    gram = words @ words.T
    for number, path in enumerate(paths):
        if path.exists():
            continue
        rng = np.random.default_rng([2, number])
        noise = np.float32(0.5) * vectors.noise(rng, PART // N_CENTRES)
        codes = np.empty((len(noise), N_CENTRES, N_CODEBOOKS), dtype=np.uint8)
        for start in range(0, len(noise), N_NOISE):
            block = slice(start, start + N_NOISE)
            code_pairs(bases, noise[block] @ words.T, gram, codes[block])
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.save(file, codes.reshape(-1, N_CODEBOOKS))
        partial.replace(path)
    return paths


class Codes:
    """The first n codes of some files, a block at a time, as often as one likes."""

    def __init__(self, paths: list[Path], n: int) -> None:
        self.paths, self.n = paths, n

    def __iter__(self) -> Iterator[tuple[np.ndarray, None]]:
        left = self.n
        for path in self.paths[: -(-self.n // PART)]:
            for start in range(0, PART, BLOCK):
                # Mapped again each time, so that what was read before does not stay in memory.
                block = np.load(path, mmap_mode="r")[start : start + BLOCK]
                yield block[:left], None
                left -= len(block)
                if left <= 0:
                    return


class Labelled(Codes):
    """As many codes, but 2,000 different ones, as items with the same labels have them."""

    def __iter__(self) -> Iterator[tuple[np.ndarray, None]]:
        few = np.concatenate([block for block, _ in islice(super().__iter__(), 1)])
        few = few[np.random.default_rng(3).permutation(len(few))[:2000]]
        for number, start in enumerate(range(0, self.n, MILLION)):
            rng = np.random.default_rng([4, number])
            yield few[rng.integers(2000, size=min(MILLION, self.n - start), dtype=np.uint16)], None


@njit(cache=True)
def scan(codes: np.ndarray, first: int, table: np.ndarray, scores: np.ndarray, rows: Any) -> None:
    """Put those of a block that are among the best in order among these; ties as they come."""
    k = len(scores)
    for i in range(len(codes)):
        score = table[0, codes[i, 0]]
        for s in range(1, codes.shape[1]):
            score += table[s, codes[i, s]]
        if score > scores[k - 1]:
            place = k - 1
            while place > 0 and score > scores[place - 1]:
                scores[place], rows[place] = scores[place - 1], rows[place - 1]
                place -= 1
            scores[place], rows[place] = score, first + i


def scan_all(codes: Codes, codebooks: np.ndarray, queries: np.ndarray, k: int) -> tuple[Any, ...]:
    """Return the best scores and rows of each query, and milliseconds per query."""
    tables = np.zeros((len(queries), *codebooks.shape[:2]), dtype=np.float32)
    for component in range(codebooks.shape[2]):  # added up in the order of the search
        tables += codebooks[..., component] * queries[:, component, None, None]
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1)
    scan(np.zeros((1, N_CODEBOOKS), dtype=np.uint8), 0, tables[0], np.ones(1, np.float32), rows[0])
    first, seconds = 0, 0.0
    for mapped, _ in codes:
        block = np.array(mapped)  # read from the disk before the clock starts
        started = time.perf_counter()
        for query, table in enumerate(tables):
            scan(block, first, table, scores[query], rows[query])
        seconds += time.perf_counter() - started
        first += len(block)
    return scores, rows, seconds / len(queries) * 1e3


def build_and_save(codebooks: np.ndarray, codes: Codes, path: Path) -> Record:
    """Build and save an index; return times and sizes."""
    reset_peak()
    before = resident("VmRSS")
    build_s, index = timed(lambda: build_index(codebooks, codes))
    peak = resident("VmHWM") - before
    save_s, _ = timed(lambda: index.save(path))
    return {
        "build_s": round(build_s, 4),
        "peak_bytes_per_item": round(peak / codes.n, 2),
        "peak_with_saving": round((resident("VmHWM") - before) / codes.n, 2),
        "bytes_per_item": round(index.bytes_per_item, 3),
        "grouped": bool(index._snapshot.parts[0].segment.is_grouped),
        "save_s": round(save_s, 4),
    }


def search_times(index: CodeIndex, queries: np.ndarray, k: int) -> Record:
    """Time queries one by one and in a batch, after all of them have been asked once."""
    result = index.search(queries, k, n_threads=1)
    alone = np.full(len(queries), np.inf)
    for _ in range(N_ROUNDS):
        for number in range(len(queries)):
            started = time.perf_counter()
            index.search(queries[number : number + 1], k, n_threads=1)
            alone[number] = min(alone[number], time.perf_counter() - started)
    jobs = {"batch": lambda: index.search(queries, k, n_threads=1)}
    batch = best_times(jobs, N_ROUNDS, len(queries))["batch_ms"]
    return {
        f"top{k}_ms": round(float(np.median(alone)) * 1e3, 4),
        f"top{k}_slowest_ms": round(float(alone.max()) * 1e3, 4),
        f"top{k}_batch_ms": batch,
        f"top{k}_share_scored": float(f"{result.n_scored.mean() / len(index):.3g}"),
    }


def peers(index: CodeIndex, codes: Codes, queries: np.ndarray) -> Record:
    """Compare with a scan of all codes, and where it is small enough with Faiss."""
    some = queries[:N_CHECKED]
    scores, rows, scan_ms = scan_all(codes, index.codebooks, some, 100)
    result = index.search(some, 100, n_threads=1)
    exact = np.array_equal(result.ids, rows) and np.array_equal(result.scores, scores)
    record = {"exact": exact, "scan_ms": round(scan_ms, 2)}
    if len(index) <= MAX_FAISS:
        theirs = index.to_faiss()
        times = best_times({"faiss": lambda: theirs.search(queries, 10)}, 2, len(queries))
        record["faiss_ms"] = round(times["faiss_ms"], 2)
    return record


def measure(case: str, codebooks: np.ndarray, codes: Codes, queries: np.ndarray) -> Record:
    with tempfile.TemporaryDirectory(dir=codes.paths[0].parent) as folder:
        path = Path(folder, "index.acqh")
        built = build_and_save(codebooks, codes, path)
        opened = [timed(lambda: CodeIndex.load(path)) for _ in range(5)]
        index = opened[-1][1]
        searched: Record = {"open_ms": round(min(seconds for seconds, _ in opened) * 1e3, 2)}
        for k in (10, 100):
            searched |= search_times(index, queries, k)
        return {
            "case": case,
            "n_items": codes.n,
            **built,
            **searched,
            **peers(index, codes, queries),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=Path, help="folder for codes, which stay; 4 GB in all")
    parser.add_argument("--items", type=int, nargs="*", default=SIZES)
    parser.add_argument("--labelled", type=int, nargs="*", default=SIZES[-1:], metavar="ITEMS")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    folder = arguments.codes or Path(tempfile.mkdtemp())
    try:
        paths = write_codes(folder, max([*arguments.items, *arguments.labelled, 1]))
        codebooks, queries = (np.load(folder / f"{name}.npy") for name in ("codebooks", "queries"))
        build_index(codebooks, Codes(paths, 200_000)).search(queries[:N_QUERIES], 10)  # compiles
        faiss_ns = None
        for case, kind, sizes in (
            ("clustered vectors", Codes, arguments.items),
            ("2,000 codes", Labelled, arguments.labelled),
        ):
            for n in sizes:
                record = measure(case, codebooks, kind(paths, n), queries)
                faiss_ns = record["faiss_ms"] / n if "faiss_ms" in record else faiss_ns
                if "faiss_ms" not in record and faiss_ns is not None:
                    record["faiss_ms_extrapolated"] = round(faiss_ns * n)
                emit({"benchmark": "billion", **record})
    finally:
        if arguments.codes is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
