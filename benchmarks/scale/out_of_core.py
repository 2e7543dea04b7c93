"""Fitting and coding of features that do not fit in memory, against the same rows in memory.

Two views of 1,024 float32 features. In the cases ``fit`` and ``encode`` all rows, 21 GB by default,
are made chunk by chunk while they are used; the time for that is excluded. In the
cases ``npy``, ``parquet`` and ``zarr`` 2 GB of them come from disk (from what the system keeps of
it in memory, since they were just written), and reading counts.

Prints one JSON line per case. ``ratio`` is the speed, in rows per second, over that of the same
step with rows held in memory, goal 0.8; the two take turns and the median counts. ``cpu_ratio``
counts seconds of the processor instead, which other processes do not disturb, and exclude
waiting for a disk. ``ratio_all_rows`` and ``cpu_ratio_all_rows`` compare with the run over all
rows. ``peak_over_interpreter_gb`` is the most memory a process of its own had in use at any time,
less what it had after all was imported, goal 2. Everything runs on one thread.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import acqh
from acqh.data import MultiViewData
from acqh.scale import encode_parts, fit
from acqh.scale.parts import encode_chunk
from benchmarks._measure import emit, resident

WIDTHS = {"image": 1024, "text": 1024}
CHUNK_ROWS = 65_536
FULL_ROWS = 40 * CHUNK_ROWS
HELD_ROWS = 3 * CHUNK_ROWS
DISK_ROWS = 4 * CHUNK_ROWS
N_LABELS = 24
N_SETS = 200
ROUNDS = 3
RATIO_GOAL, PEAK_GOAL_GB = 0.8, 2.0


class Spent(NamedTuple):
    """Seconds by the clock and of the processor."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Spent":
        """Return what the clocks say."""
        return cls(time.perf_counter(), time.process_time())

    def less(self, other: "Spent") -> "Spent":
        """Return the difference."""
        return Spent(self.wall - other.wall, self.cpu - other.cpu)

    def plus(self, other: "Spent") -> "Spent":
        """Return the sum."""
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


NOTHING = Spent(0.0, 0.0)


class Stream:
    """Chunks of rows that are made when they are asked for, always the same.

    Attributes
    ----------
    spent : Spent
        On making rows since the last reset.
    """

    def __init__(self, n_rows: int) -> None:
        rng = np.random.default_rng(0)
        self.n_rows = n_rows
        self.spent = NOTHING
        self._sets = (rng.random((N_SETS, N_LABELS)) < 0.15).astype(np.uint8)
        self._sets[:, 0] |= self._sets.sum(axis=1) == 0
        self._centres = {
            view: rng.standard_normal((N_SETS, width), dtype=np.float32)
            for view, width in WIDTHS.items()
        }

    def __iter__(self) -> Iterator[MultiViewData]:
        for start in range(0, self.n_rows, CHUNK_ROWS):
            # Nothing of a chunk is kept here: the next one is made when it is gone.
            yield self._chunk(start)

    def _chunk(self, start: int) -> MultiViewData:
        started = Spent.now()
        n_rows = min(CHUNK_ROWS, self.n_rows - start)
        arrays = self.arrays(start, n_rows)
        self.spent = self.spent.plus(Spent.now().less(started))
        labels = arrays.pop("labels")
        return MultiViewData(arrays, labels, ids=np.arange(start, start + n_rows))

    def arrays(self, start: int, n_rows: int) -> dict[str, Any]:
        """Return the views and labels of some rows."""
        rng = np.random.default_rng([1, start])
        sets = rng.integers(0, N_SETS, n_rows)
        arrays_of: dict[str, Any] = {"labels": self._sets[sets]}
        for view, centres in self._centres.items():
            matrix = rng.random((n_rows, centres.shape[1]), dtype=np.float32)
            for at in range(0, n_rows, 4096):
                block = matrix[at : at + 4096]
                block *= 4
                block += centres[sets[at : at + 4096]]
            arrays_of[view] = matrix
        return arrays_of

    def held(self) -> MultiViewData:
        """Return all rows in memory."""
        return MultiViewData.concat(list(self))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=FULL_ROWS, help="of the cases fit and encode")
    parser.add_argument("--disk-rows", type=int, default=DISK_ROWS, help="of the other cases")
    parser.add_argument("--cases", default="fit,encode,npy,parquet,zarr")
    parser.add_argument("--scratch", type=Path, help="folder for the files")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        with threadpool_limits(1):
            emit(CHILDREN[arguments.child](arguments))
        return
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        arguments.scratch = Path(folder)
        run(arguments, "model")
        for case in arguments.cases.split(","):
            emit(measure(case, arguments))


def measure(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a case in processes of its own: one for memory, one for speed against memory."""
    if case in ("fit", "encode"):
        result = run(arguments, f"{case}-all")
        turns = run(arguments, f"{case}-turns")
        facts = {**result, **turns}
        for kind, seconds in (("", "seconds"), ("cpu_", "cpu_seconds")):
            rate = result["rows"] / result[seconds]
            held = turns[f"in_memory_rows_per_{kind}second"]
            facts[f"rows_per_{kind}second"] = round(rate)
            facts[f"{kind}ratio_all_rows"] = round(rate / held, 3)
    else:
        facts = {**run(arguments, f"{case}-peak"), **run(arguments, f"{case}-turns")}
        shutil.rmtree(arguments.scratch / case)
    return {
        "benchmark": "out_of_core",
        "case": case,
        **facts,
        "ratio_goal": RATIO_GOAL,
        "peak_goal_gb": PEAK_GOAL_GB,
    }


def run(arguments: argparse.Namespace, child: str) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale.out_of_core",
        "--child",
        child,
        "--scratch",
        str(arguments.scratch),
    ]
    command += ["--rows", str(arguments.rows), "--disk-rows", str(arguments.disk_rows)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    return dict(json.loads(done.stdout))


def make_model(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit and save the model that the other processes code with, compiling all kernels."""
    few = Stream(CHUNK_ROWS // 4).held()
    model = new_model().fit(few)
    encode_chunk(model, few)
    model.save(arguments.scratch / "model")
    return {}


def new_model() -> Any:
    return acqh.ACQH(32, n_codebooks=4, random_state=0)


def fit_all(arguments: argparse.Namespace) -> dict[str, Any]:
    stream = Stream(arguments.rows)
    return with_peak(arguments.rows, stream, lambda: fit(new_model(), stream))


def encode_all(arguments: argparse.Namespace) -> dict[str, Any]:
    stream = Stream(arguments.rows)
    model = acqh.load(arguments.scratch / "model")
    out = arguments.scratch / "codes"
    facts = with_peak(arguments.rows, stream, lambda: encode_parts(model, stream, out))
    shutil.rmtree(out)
    return facts


def with_peak(n_rows: int, stream: Stream | None, step: Callable[[], Any]) -> dict[str, Any]:
    before = resident()
    spent = spent_on(step)
    stream_spent = NOTHING if stream is None else stream.spent
    return {
        "rows": n_rows,
        "gigabytes": round(n_rows * sum(WIDTHS.values()) * 4 / 1e9, 2),
        "seconds": round(spent.wall - stream_spent.wall, 2),
        "cpu_seconds": round(spent.cpu - stream_spent.cpu, 2),
        "generation_seconds": round(stream_spent.wall, 2),
        "peak_over_interpreter_gb": round((resident("VmHWM") - before) / 1e9, 3),
    }


def fit_turns(_: argparse.Namespace) -> dict[str, Any]:
    stream = Stream(HELD_ROWS)
    held = stream.held()
    return take_turns(
        HELD_ROWS, lambda: new_model().fit(held), lambda: fit(new_model(), stream), stream
    )


def encode_turns(arguments: argparse.Namespace) -> dict[str, Any]:
    stream = Stream(HELD_ROWS)
    held = stream.held()
    model = acqh.load(arguments.scratch / "model")
    return take_turns(
        HELD_ROWS,
        lambda: encode_chunk(model, held),
        lambda: encode_into(model, stream, arguments.scratch / "codes"),
        stream,
    )


def encode_into(model: Any, source: Any, out: Path) -> None:
    encode_parts(model, source, out)
    shutil.rmtree(out)


def take_turns(
    n_rows: int, held: Callable[[], Any], streamed: Callable[[], Any], stream: Stream | None
) -> dict[str, Any]:
    times: dict[str, list[Spent]] = {"held": [], "streamed": []}
    for _ in range(ROUNDS):
        times["held"].append(spent_on(held))
        if stream is not None:
            stream.spent = NOTHING
        spent = spent_on(streamed)
        times["streamed"].append(spent.less(NOTHING if stream is None else stream.spent))
    medians = {name: Spent(*np.median(runs, axis=0)) for name, runs in times.items()}
    return {
        "in_memory_rows_per_second": round(n_rows / medians["held"].wall),
        "in_memory_rows_per_cpu_second": round(n_rows / medians["held"].cpu),
        "ratio": round(medians["held"].wall / medians["streamed"].wall, 3),
        "cpu_ratio": round(medians["held"].cpu / medians["streamed"].cpu, 3),
    }


def spent_on(step: Callable[[], Any]) -> Spent:
    started = Spent.now()
    step()
    return Spent.now().less(started)


def disk_peak(case: str) -> Callable[[argparse.Namespace], dict[str, Any]]:
    def measure_peak(arguments: argparse.Namespace) -> dict[str, Any]:
        n_rows, path = arguments.disk_rows, arguments.scratch / case
        if not path.exists():
            # In a process of its own, so that its memory is not counted.
            run(arguments, f"{case}-write")
        fitted = with_peak(n_rows, None, lambda: fit(new_model(), path))
        model = acqh.load(arguments.scratch / "model")
        coded = with_peak(
            n_rows, None, lambda: encode_into(model, path, arguments.scratch / "codes")
        )
        peak = max(record["peak_over_interpreter_gb"] for record in (fitted, coded))
        seconds = {"fit_seconds": fitted["seconds"], "encode_seconds": coded["seconds"]}
        facts = {key: fitted[key] for key in ("rows", "gigabytes")}
        return {**facts, **seconds, "peak_over_interpreter_gb": peak}

    return measure_peak


def disk_turns(case: str) -> Callable[[argparse.Namespace], dict[str, Any]]:
    def measure_turns(arguments: argparse.Namespace) -> dict[str, Any]:
        n_rows, path = arguments.disk_rows, arguments.scratch / case
        held = Stream(n_rows).held()
        model = acqh.load(arguments.scratch / "model")
        out = arguments.scratch / "codes"
        fits = take_turns(
            n_rows, lambda: new_model().fit(held), lambda: fit(new_model(), path), None
        )
        codes = take_turns(
            n_rows, lambda: encode_chunk(model, held), lambda: encode_into(model, path, out), None
        )
        return {
            f"{step}_{kind}": facts[kind]
            for step, facts in (("fit", fits), ("encode", codes))
            for kind in ("ratio", "cpu_ratio")
        }

    return measure_turns


def write_npy(arguments: argparse.Namespace) -> dict[str, Any]:
    n_rows, folder = arguments.disk_rows, arguments.scratch / "npy"
    folder.mkdir()
    shapes = {**{view: (np.float32, width) for view, width in WIDTHS.items()}}
    shapes["labels"] = (np.uint8, N_LABELS)
    files = {
        name: np.lib.format.open_memmap(
            folder / f"{name}.npy", mode="w+", dtype=dtype, shape=(n_rows, width)
        )
        for name, (dtype, width) in shapes.items()
    }
    for start, arrays in chunks_of(n_rows):
        for name, array in arrays.items():
            files[name][start : start + len(array)] = array
    return {}


def write_parquet(arguments: argparse.Namespace) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import parquet

    folder = arguments.scratch / "parquet"
    folder.mkdir()
    for start, arrays in chunks_of(arguments.disk_rows):
        table = pa.table(
            {
                name: pa.FixedSizeListArray.from_arrays(array.ravel(), array.shape[1])
                for name, array in arrays.items()
            }
        )
        parquet.write_table(table, folder / f"{start}.parquet", row_group_size=CHUNK_ROWS // 8)
    return {}


def write_zarr(arguments: argparse.Namespace) -> dict[str, Any]:
    import zarr

    group = zarr.open_group(arguments.scratch / "zarr", mode="w")
    for start, arrays in chunks_of(arguments.disk_rows):
        for name, array in arrays.items():
            if start == 0:
                group.create_array(
                    name,
                    shape=(arguments.disk_rows, array.shape[1]),
                    dtype=array.dtype,
                    chunks=(CHUNK_ROWS // 16, array.shape[1]),
                )
            group[name][start : start + len(array)] = array
    return {}


def chunks_of(n_rows: int) -> Iterator[tuple[int, dict[str, Any]]]:
    stream = Stream(n_rows)
    for start in range(0, n_rows, CHUNK_ROWS):
        yield start, stream.arrays(start, min(CHUNK_ROWS, n_rows - start))


CHILDREN = {
    "model": make_model,
    "fit-all": fit_all,
    "encode-all": encode_all,
    "fit-turns": fit_turns,
    "encode-turns": encode_turns,
    **{f"{case}-peak": disk_peak(case) for case in ("npy", "parquet", "zarr")},
    **{f"{case}-turns": disk_turns(case) for case in ("npy", "parquet", "zarr")},
    "npy-write": write_npy,
    "parquet-write": write_parquet,
    "zarr-write": write_zarr,
}

if __name__ == "__main__":
    main()
