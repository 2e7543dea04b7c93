"""Running cells: one worker process, one cell at a time, each stored as it ends."""

import platform
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from acqh import __version__
from acqh._core.runtime import count_cores
from acqh.bench.running.cells import Cell
from acqh.bench.running.store import Record, Store
from acqh.bench.running.worker import Outcome, WorkerSettings, failure, work

# How long a worker that was told to end may take before it is killed.
_PATIENCE = 5.0
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch")
# Where nothing like a cell has been run: about a middling method on one core.
_GUESSED_SECONDS = 3.0


@dataclass(frozen=True)
class RunSummary:
    """How a run went.

    Attributes
    ----------
    out : Path
        The folder with the results, for `Store` and `write_report`.
    n_stored : int
        Cells that were there before.
    n_done, n_failed : int
        Cells run now.
    n_left : int
        Cells not run, for an interrupt.
    seconds : float
    failed : tuple of dict
        ``key``, ``label`` and ``reason`` of each cell that failed.

    Examples
    --------
    >>> import acqh
    >>> summary = acqh.bench.run("wiki", methods=["dch"], out="results")  # doctest: +SKIP
    >>> summary.n_done, summary.n_failed  # doctest: +SKIP
    (15, 0)
    """

    out: Path
    n_stored: int
    n_done: int
    n_failed: int
    n_left: int
    seconds: float
    failed: tuple[dict[str, Any], ...] = ()


def pending(cells: Sequence[Cell], store: Store, *, retry_failed: bool = False) -> list[Cell]:
    """Return the cells that are still to be run."""
    return [
        cell
        for cell in cells
        if not store.done(cell.key) and (retry_failed or not store.has_failed(cell.key))
    ]


class Watch:
    """Told how a run goes; does nothing with it. A display derives from it.

    Examples
    --------
    >>> import acqh
    >>> class Follow(acqh.bench.Watch):
    ...     def end(self, record):
    ...         print(record["label"], record["status"])
    >>> acqh.bench.run("wiki", methods=["dch"], out="results", watch=Follow())  # doctest: +SKIP
    """

    def begin(self, cells: Sequence[Cell], records: Sequence[Record]) -> None:
        """Be told which cells will be run, and what the store has already."""

    def start(self, cell: Cell) -> None:
        """Be told that a cell is being run."""

    def end(self, record: Record) -> None:
        """Be told what a cell gave."""

    def interrupted(self) -> None:
        """Be told that the run will stop after the current cell."""


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    settings: WorkerSettings,
    *,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> RunSummary:
    """Run the cells that a store does not have yet, and store each as it ends.

    Cells run one after another in a process of their own, so that neither another cell nor the
    display disturbs a timing, and none that crashes takes the run with it: that cell is stored
    as failed, and a new process goes on. The first interrupt (Ctrl-C) stops after the current
    cell, the second at once.

    The caller has locked the store. With `retry_failed`, cells stored as failed run again.
    """
    started = time.perf_counter()
    watch = watch or Watch()
    _join_experiments(cells, store)
    # A run that was killed may have left half a line.
    store.write_table()
    left = pending(cells, store, retry_failed=retry_failed)
    watch.begin(left, store.records())
    context = {"versions": versions(), "machine": machine()}
    done, failed = 0, []
    with _interruptible(watch.interrupted) as asked_to_stop, _Worker(settings) as worker:
        for cell in left:
            if asked_to_stop.is_set():
                break
            watch.start(cell)
            outcome = worker.run(cell)
            record = {**cell.header(), **outcome.facts, **context, "finished": time.time()}
            store.write(record, outcome.curves, outcome.rankings)
            if record["status"] == "done":
                done += 1
            else:
                failed.append({name: record[name] for name in ("key", "label", "reason")})
            watch.end(record)
    store.write_table()
    return RunSummary(
        out=store.path,
        n_stored=len(cells) - len(left),
        n_done=done,
        n_failed=len(failed),
        n_left=len(left) - done - len(failed),
        seconds=time.perf_counter() - started,
        failed=tuple(failed),
    )


def _join_experiments(cells: Sequence[Cell], store: Store) -> None:
    """Say of stored cells which of these experiments they serve besides their own."""
    records = {record["key"]: record for record in store.records()}
    for cell in cells:
        record = records.get(cell.key)
        if record is None or set(cell.experiments) <= set(record["experiments"]):
            continue
        joined = dict.fromkeys((*record["experiments"], *cell.experiments))
        bytes_asked = record["bytes_asked"] or cell.bytes_asked
        store.write({**record, "experiments": list(joined), "bytes_asked": bytes_asked})


@contextmanager
def _interruptible(on_interrupt: Callable[[], None]) -> Iterator[threading.Event]:
    """Turn the first interrupt into an event; the second is what it always was."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        on_interrupt()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


class _Worker:
    """A process that runs cells; started when there is one to run, and again if it dies."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._process: Any = None
        self._connection: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        self._connection.close()
        if error is not None:
            self._process.kill()
        self._process.join(_PATIENCE)
        self._forget()

    def run(self, cell: Cell) -> Outcome:
        if self._process is None:
            self._start()
        started = time.perf_counter()
        try:
            self._connection.send(cell)
            wait([self._connection, self._process.sentinel])
            outcome: Outcome = self._connection.recv()
        except (EOFError, OSError):
            return self._died(time.perf_counter() - started)
        return outcome

    def _start(self) -> None:
        # Spawned, not forked: a copy of a process with threads may hang.
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
        facts = failure(f"the process that ran it was ended {how}")
        return Outcome({**facts, "warnings": [], "seconds": seconds})

    def _forget(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._process = None


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['acqh', 'numba']
    """
    found = {"acqh": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


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


class Estimator:
    """Expects of a cell the mean time of the most alike ones that have been run.

    Alike are cells of the same data, label and length; then of the same data and label; then of
    the same data; then all. Where nothing has been run, three seconds per cell is a guess.

    Parameters
    ----------
    records : iterable of dict
        Of a Store; failed cells do not count.

    Examples
    --------
    >>> Estimator([]).describe(90)
    '2 min'
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for record in records:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Take another finished cell into account."""
        if record["status"] != "done":
            return
        length = record["n_components_asked"]
        for kind in _kinds(record["setting"]["dataset"], record["label"], length):
            known = self._sums[kind]
            known[0] += record["seconds"]
            known[1] += 1

    def seconds(self, cells: Iterable[Cell]) -> float:
        """Return the time that cells will take."""
        return sum(self._expect(cell) for cell in cells)

    def _expect(self, cell: Cell) -> float:
        for kind in _kinds(cell.dataset, cell.label, cell.n_components_asked):
            if kind in self._sums:
                total, count = self._sums[kind]
                return total / count
        return _GUESSED_SECONDS

    @staticmethod
    def describe(seconds: float) -> str:
        """Return a time in words, as exact as an estimate is."""
        if seconds < 60:
            return f"{seconds:.0f} s"
        if seconds < 5400:
            return f"{seconds / 60:.0f} min"
        return f"{seconds / 3600:.1f} h"


def _kinds(dataset: str, label: str, length: int | None) -> tuple[Any, ...]:
    """Return what a cell is like, the most alike first."""
    return (dataset, label, length), (dataset, label), (dataset,), ()
