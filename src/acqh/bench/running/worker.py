"""The worker process that carries out runs one at a time, and its handle in the parent."""

import math
import os
import platform
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

import numpy as np

from acqh import __version__
from acqh._core.arrays import Array, Ints
from acqh._core.runtime import count_cores
from acqh.bench.protocol import Split, SplitParts, make_split
from acqh.bench.running.evaluate import (
    BenchData,
    check_database,
    measure,
    open_data,
    prepare,
)
from acqh.bench.running.runs import Run, build
from acqh.bench.running.variants import load_method_file
from acqh.methods import BaseMethod
from acqh.metrics import RetrievalResult

# Ranks at which precision is measured: dense at first, up to the last rank in the paper.
_TOP_N = (1, 2, 5, 10, 20, 30, 50, 75, *range(100, 1001, 50))
_CURVE_POINTS = 200
# Rows of the warm-up fit, which only compiles and loads code.
_WARM_UP_ROWS = 200
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
# Written to the file above, it resets the peak of resident memory.
_RESET_PEAK = "5"
# Seconds that a worker may take to end before it is killed.
_PATIENCE = 5.0
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch")


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker, the same for all runs."""

    n_threads: int
    data: Mapping[str, str]  # arguments of `open_data` by name of the data
    data_dir: str | None = None
    method_files: tuple[str, ...] = ()  # ``FILE.py:CLASS`` of custom methods


# The rest of a run's record, its curves and its rankings.
Outcome = tuple[dict[str, Any], dict[str, Array] | None, list[Ints] | None]


def work(connection: Connection, settings: WorkerSettings) -> None:
    """Carry out the runs received from a connection until it closes."""
    import numba
    from threadpoolctl import threadpool_limits

    # A terminal sends interrupts to both processes; the parent handles them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # For packages that are loaded later and start their own threads.
    os.environ["OMP_NUM_THREADS"] = str(settings.n_threads)
    for method_file in settings.method_files:
        load_method_file(method_file)
    numba.set_num_threads(min(settings.n_threads, numba.config.NUMBA_NUM_THREADS))
    with threadpool_limits(settings.n_threads), suppress(EOFError, BrokenPipeError):
        bench = Workbench(settings)
        while True:
            connection.send(bench.run(connection.recv()))


def _end_with_parent() -> None:
    """End this process when its parent has ended, so that a killed bench leaves no process."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class Workbench:
    """Carries out runs; caches the data, the last split and the last fit."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._sources: dict[str, BenchData] = {}
        self._drawn: tuple[Any, Split, SplitParts] | None = None
        self._fitted: tuple[str, BaseMethod, float, float, int] | None = None
        self._warm: set[tuple[str, str | None]] = set()

    def run(self, run: Run) -> Outcome:
        """Carry out a run; an exception becomes a failed outcome."""
        started = time.perf_counter()
        curves = rankings = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                facts, curves, rankings = self._measure(run)
            except Exception as error:  # a method may raise anything
                facts = failure(f"{type(error).__name__}: {error}", traceback.format_exc())
        messages = dict.fromkeys(
            f"{warning.category.__name__}: {warning.message}" for warning in caught
        )
        facts |= {"warnings": list(messages), "seconds": time.perf_counter() - started}
        return facts, curves, rankings

    def _measure(self, run: Run) -> tuple[dict[str, Any], dict[str, Array], list[Ints]]:
        split, parts = self._draw(run)
        method, fit_seconds, cpu_seconds, peak_bytes = self._fit(run, parts)
        database = check_database(method, parts, run.database)
        threads = {"n_threads": self._settings.n_threads}
        measured = measure(
            method, split, parts, database, fit_seconds, top_n=_TOP_N, curve=True, **threads
        )
        rows, results, rankings = map(list, zip(*measured, strict=True))
        facts = {
            "status": "done",
            "reason": None,
            "rows": [asdict(row) for row in rows],
            "objective": _objective(method),
            "fit_cpu_seconds": cpu_seconds,
            "peak_bytes": max(peak_bytes, peak_memory()),
            "split_hash": split.sha256,
        }
        return facts, _curves(results), rankings

    def _draw(self, run: Run) -> tuple[Split, SplitParts]:
        """Return the split of a run, and the parts of the preprocessed data."""
        key = (run.dataset, run.protocol, run.seed, run.official)
        if self._drawn is None or self._drawn[0] != key:
            if run.dataset not in self._sources:
                argument = self._settings.data[run.dataset]
                self._sources[run.dataset] = open_data(argument, self._settings.data_dir)
            source = self._sources[run.dataset]
            split = make_split(source.data, run.protocol, seed=run.seed, official=run.official)
            self._drawn = key, split, split.parts(prepare(source, split))
        return self._drawn[1:]

    def _fit(self, run: Run, parts: SplitParts) -> tuple[BaseMethod, float, float, int]:
        """Return the fitted method, wall-clock and processor seconds, and peak memory."""
        if self._fitted is not None and self._fitted[0] == run.fit_key:
            reset_peak_memory()
            return self._fitted[1:]
        self._fitted = None
        self._warm_up(run, parts)
        method = build(run)
        reset_peak_memory()
        started, computed = time.perf_counter(), time.process_time()
        method.fit(parts.train.views, parts.train.labels)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - computed
        self._fitted = run.fit_key, method, seconds, cpu_seconds, peak_memory()
        return self._fitted[1:]

    def _warm_up(self, run: Run, parts: SplitParts) -> None:
        """Fit and encode a few rows first, so that timings exclude compilation."""
        kind = (run.method, run.feature_maps)
        if kind in self._warm:
            return
        self._warm.add(kind)
        few = parts.train.subset(np.arange(min(_WARM_UP_ROWS, len(parts.train))))
        # A method may reject so few rows; a real error appears again in the fit.
        with suppress(Exception):
            method = build(run).fit(few.views, few.labels)
            for view, rows in few.views.items():
                method.decode(method.encode({view: rows}, labels=few.labels))
                method.embed_queries(rows, view=view)


def failure(reason: str, trace: str | None = None) -> dict[str, Any]:
    """Return the record entries of a failed run."""
    unknown = dict.fromkeys(("objective", "fit_cpu_seconds", "peak_bytes", "split_hash"))
    return {"status": "failed", "reason": reason, "traceback": trace, "rows": [], **unknown}


def _objective(method: BaseMethod) -> list[float | None] | None:
    values = getattr(method, "objective_", None)
    if values is None:
        return None
    # JSON cannot represent values that are not finite.
    return [value if math.isfinite(value) else None for value in np.ravel(values).tolist()]


def _curves(results: list[RetrievalResult]) -> dict[str, Array]:
    curves: dict[str, Array] = {"top_n": np.array(results[0].top_n)}
    for place, result in enumerate(results):
        curves[f"precision_top_n_{place}"] = result.precision.astype(np.float32)
        curves[f"ap_{place}"] = result.average_precision[None].astype(np.float32)
        if result.curve is not None:
            ranks = _spread(result.curve.recall)
            curves[f"recall_{place}"] = result.curve.recall[ranks].astype(np.float32)
            curves[f"precision_{place}"] = result.curve.precision[ranks].astype(np.float32)
    return curves


def _spread(recall: Array) -> Array:
    """Return ranks from the first to the last, at nearly equal steps of recall."""
    steps = np.linspace(recall[0], recall[-1], _CURVE_POINTS)
    return np.unique(np.minimum(np.searchsorted(recall, steps), len(recall) - 1))


def reset_peak_memory() -> None:
    """Reset `peak_memory`, if the system supports it."""
    with suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def peak_memory() -> int:
    """Return the peak resident memory of this process since the last reset, in bytes.

    Systems other than Linux have no reset: the peak counts from the start. 0 if it is unknown.
    """
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Worker:
    """Handle of the worker process; starts it for the first run, and again if it dies."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._process: Any = None
        self._connection: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process is None:
            return
        self._connection.close()
        if kind is not None:
            self._process.kill()
        self._process.join(_PATIENCE)
        self._forget()

    def run(self, run: Run) -> Outcome:
        if self._process is None:
            self._start()
        started = time.perf_counter()
        try:
            self._connection.send(run)
            wait([self._connection, self._process.sentinel])
            outcome: Outcome = self._connection.recv()
        except (EOFError, OSError):
            return self._died(time.perf_counter() - started)
        return outcome

    def _start(self) -> None:
        # Spawn instead of fork: a forked process with threads may hang.
        spawn = get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=work, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()

    def _died(self, seconds: float) -> Outcome:
        self._process.join(_PATIENCE)
        code = self._process.exitcode
        self._connection.close()
        self._forget()
        how = f"with status {code}"
        if code is not None and code < 0:
            how = f"by {signal.Signals(-code).name}"
        if code == -getattr(signal, "SIGKILL", 0):
            how += " (often: out of memory)"
        facts = failure(f"the worker process was ended {how}")
        return {**facts, "warnings": [], "seconds": seconds}, None, None

    def _forget(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._process = None


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['acqh', 'numba']
    """
    installed = {"acqh": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def machine() -> dict[str, str | int]:
    """Return the kind of machine: system, processor, number of cores."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "n_cores": count_cores(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
