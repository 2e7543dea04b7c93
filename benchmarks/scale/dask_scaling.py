"""Two workers of one thread against one, and one against plain local work, one JSON line per case.

The items (features of 512 and 256 numbers, about 1.8 GB in .npy files) are made in a temporary
folder. Each case is run here in one process, on a cluster of one worker process, and on one of two;
all take turns, and the best of several rounds counts. ``efficiency`` is the time of one worker over
twice that of two, ``overhead`` the time of one worker over that of plain local work. Every process
has one thread. The answers are compared: same codes, same hits, and sums that
differ by no more than rounding.
"""

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before NumPy is imported; workers are given the same by Dask.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import distributed
import numpy as np

import acqh
from acqh._core.runtime import limit_threads
from acqh._core.store import pack
from acqh.methods.registry import HOMES
from acqh.scale import build_shards, encode_parts, fit, search_table
from benchmarks._measure import emit

GOAL = 0.8
WIDTHS = {"image": 512, "text": 256}
N_LABELS = 24
CHUNK = 16_384
K = 10
Clients = dict[str, Any]
Record = dict[str, Any]


def write_items(folder: Path, n_items: int, seed: int) -> Path:
    """Write features that depend on labels, chunk by chunk, and the labels."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    maps = {name: rng.standard_normal((N_LABELS, width)) for name, width in WIDTHS.items()}
    arrays = {
        name: np.lib.format.open_memmap(
            folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=(n_items, width)
        )
        for name, width in WIDTHS.items()
    }
    rng = np.random.default_rng([1, seed])
    # Two of the labels each: 276 different sets at most.
    labels = np.zeros((n_items, N_LABELS), dtype=np.uint8)
    for column in rng.integers(N_LABELS, size=(2, n_items)):
        labels[np.arange(n_items), column] = 1
    for start in range(0, n_items, CHUNK):
        rows = slice(start, min(start + CHUNK, n_items))
        for name, array in arrays.items():
            noise = rng.standard_normal((rows.stop - start, WIDTHS[name]), dtype=np.float32)
            array[rows] = labels[rows] @ maps[name] + 2 * noise
    np.save(folder / "labels.npy", labels)
    return folder


@contextmanager
def clusters() -> Iterator[Clients]:
    """Give no client, and clients of one and of two workers that are ready to work."""
    clients: Clients = {"local": None}
    clients_of = []
    logging.getLogger("distributed").setLevel(logging.ERROR)
    try:
        for n_workers in (1, 2):
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                dashboard_address=":0",
                memory_limit=None,
                silence_logs=logging.ERROR,
            )
            clients_of.append(cluster)
            clients[f"workers_{n_workers}"] = distributed.Client(cluster)
        yield clients
    finally:
        for client in filter(None, clients.values()):
            client.close()
        for cluster in clients_of:
            cluster.close()


def best_times(
    clients: Clients, job: Callable[[Any, str], Any], n_rounds: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the seconds of a job with each client, taking turns, and what it gave."""
    best, gave = dict.fromkeys(clients, float("inf")), {}
    for number in range(n_rounds + 1):
        for name, client in clients.items():
            start = time.perf_counter()
            with limit_threads(1):
                gave[name] = job(client, f"{name}-{number}")
            # The first round warms up: imports and compiled code.
            if number > 0:
                best[name] = min(best[name], time.perf_counter() - start)
    return best, gave


def report(case: str, n_items: int, best: dict[str, float], same: bool) -> Record:
    efficiency = best["workers_1"] / (2 * best["workers_2"])
    return {
        "case": case,
        "n_items": n_items,
        **{f"{name}_s": round(seconds, 3) for name, seconds in best.items()},
        "efficiency": round(efficiency, 3),
        "overhead": round(best["workers_1"] / best["local"], 3),
        "same_answers": same,
        "goal": GOAL,
        "ok": same and efficiency >= GOAL,
    }


def same_sums(models: dict[str, Any]) -> bool:
    first, *others = (pack(model.stats_.compact(), HOMES)[1] for model in models.values())
    return all(
        np.allclose(sums[name], first[name], rtol=1e-9, atol=1e-9 * np.abs(first[name]).max())
        for sums in others
        for name in first
    )


def same_arrays(parts: dict[str, Any]) -> bool:
    first, *others = (part.to_arrays() for part in parts.values())
    return all(
        np.array_equal(mine, theirs)
        for other in others
        for mine, theirs in zip(first, other, strict=True)
    )


def run(folder: Path, n_items: int, n_queries: int, n_rounds: int) -> Iterator[Record]:
    """Yield a record a case."""
    source = write_items(folder / "items", n_items, seed=0)
    queries = write_items(folder / "queries", n_queries, seed=1)
    with clusters() as clients:

        def learn(client: Any, _: str) -> Any:
            model = acqh.ACQH(32, random_state=0)
            return fit(model, source, chunk_size=CHUNK, client=client)

        best, models = best_times(clients, learn, n_rounds)
        yield report("fit", n_items, best, same_sums(models))
        model = models["local"]

        def encode(client: Any, name: str) -> Any:
            out = folder / f"codes-{name}"
            return encode_parts(model, source, out, chunk_size=CHUNK, client=client)

        best, parts = best_times(clients, encode, n_rounds)
        yield report("encode", n_items, best, same_arrays(parts))

        build_shards(model.codebooks_, parts["local"], folder / "index", n_shards=2)

        def search(client: Any, name: str) -> Any:
            out = folder / f"hits-{name}.csv"
            out.unlink(missing_ok=True)
            search_table(model, folder / "index", queries, out, view="text", k=K, client=client)
            return out.read_bytes()

        best, hits = best_times(clients, search, n_rounds)
        yield report("search", n_queries, best, len(set(hits.values())) == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=600_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for record in run(Path(folder), options.items, options.queries, options.rounds):
            emit({"benchmark": "dask_scaling", **record})
            failed |= not record["ok"]
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
