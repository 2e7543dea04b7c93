"""Plan and carry out the runs of a bench."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from types import FrameType
from typing import Any

from acqh._core.arrays import check_positive_int
from acqh._core.runtime import count_cores, suggest_keywords
from acqh.bench.protocol import find_protocol
from acqh.bench.running.evaluate import BenchData, of_memory, open_data
from acqh.bench.running.runs import CODE_LENGTHS, Run, plan_runs
from acqh.bench.running.store import Store, as_duration, expected_seconds
from acqh.bench.running.variants import find_variants, name_of
from acqh.bench.running.worker import Worker, WorkerSettings, machine, versions
from acqh.data import MultiViewData, list_datasets, save_npz
from acqh.data.splits import official_rows
from acqh.errors import InvalidInputError
from acqh.methods import BaseMethod

_USUAL_PROTOCOLS = ("labelled", "unlabelled")
_MAX_BITS = 128

Named = str | PathLike[str]
Progress = Callable[[int, int, str], None]


def _silent(done: int, total: int, message: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class RunSummary:
    """Numbers of finished, failed, previously stored and pending runs.

    Attributes
    ----------
    out : Path
        The folder with the results, for `Store` and `write_report`.
    n_stored : int
        Runs stored before.
    n_done, n_failed : int
        Runs of this call that succeeded or failed.
    n_left : int
        Runs still pending after an interrupt.
    seconds : float
    failed : tuple of dict
        ``key``, ``label`` and ``reason`` of each run that failed.

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


@contextmanager
def _interruptible(progress: Callable[[str], None]) -> Iterator[threading.Event]:
    """Set an event on the first interrupt; raise KeyboardInterrupt on the second."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()
        progress("stopping after this run; interrupt again to stop at once")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Plan:
    """Runs, and the folder for their results.

    Attributes
    ----------
    runs : tuple of Run
    store : Store
    settings : WorkerSettings
    in_memory : mapping of str to MultiViewData
        Data without a file, by the path at which `run` saves them.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> planned = acqh.bench.plan(data, out="results", methods=["label-ridge"], bits=[8])
    >>> len(planned.runs) == len(planned.pending())
    True
    >>> planned.run()  # doctest: +SKIP
    """

    runs: tuple[Run, ...]
    store: Store
    settings: WorkerSettings
    in_memory: Mapping[str, MultiViewData] = field(default_factory=dict)

    def pending(self, *, retry_failed: bool = False) -> list[Run]:
        """Return the runs that are not in the store yet."""
        store = self.store
        return [
            run
            for run in self.runs
            if not store.done(run.key) and (retry_failed or not store.has_failed(run.key))
        ]

    def run(self, *, retry_failed: bool = False, progress: Progress = _silent) -> RunSummary:
        """Carry out the pending runs; see `acqh.bench.run`.

        Runs are sequential, in a separate process, so that nothing disturbs their timing. If a
        run crashes, it is stored as failed and a new process continues. The first interrupt
        (Ctrl-C) stops after the current run, the second immediately.
        """
        started, store = time.perf_counter(), self.store
        with store.locked():
            for path, data in self.in_memory.items():
                Path(path).parent.mkdir(exist_ok=True)
                save_npz(data, path)
            command = [Path(sys.argv[0]).name, *sys.argv[1:]]
            store.write_plan({"command": command, "keys": [run.key for run in self.runs]})
            store.write_table()  # a killed command may have left an incomplete line
            left = self.pending(retry_failed=retry_failed)
            context = {"versions": versions(), "machine": machine()}
            done, failed = 0, list[dict[str, Any]]()

            def report(message: str) -> None:
                progress(done + len(failed), len(left), message)

            with _interruptible(report) as is_stopping, Worker(self.settings) as worker:
                for number, run in enumerate(left):
                    if is_stopping.is_set():
                        break
                    seconds = expected_seconds(left[number:], store.records())
                    report(f"running: about {as_duration(seconds)} left, {run}")
                    facts, curves, rankings = worker.run(run)
                    record = {**run.header(), **facts, **context, "finished": time.time()}
                    store.write(record, curves, rankings)
                    if record["status"] == "done":
                        done += 1
                    else:
                        failed.append({name: record[name] for name in ("key", "label", "reason")})
            store.write_table()
        return RunSummary(
            out=store.path,
            n_stored=len(self.runs) - len(left),
            n_done=done,
            n_failed=len(failed),
            n_left=len(left) - done - len(failed),
            seconds=time.perf_counter() - started,
            failed=tuple(failed),
        )


def plan(
    data: Named | MultiViewData | Iterable[Named | MultiViewData] = (),
    *,
    out: str | PathLike[str],
    methods: str | Iterable[str | type[BaseMethod]] = "all",
    bits: Sequence[int] = CODE_LENGTHS,
    protocol: str | Iterable[str] | None = None,
    n_splits: int | None = None,
    random_state: int = 0,
    official: bool | str = False,
    n_threads: int | None = None,
    data_dir: str | PathLike[str] | None = None,
) -> Plan:
    """Return the runs that `run` would carry out; same parameters and errors.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> planned = plan(data, out="results", methods=["dch"], bits=[8, 16], protocol="labelled")
    >>> [(run.label, run.bytes_requested) for run in planned.runs]
    [('dch', 1), ('dch', 2)]
    """
    names = [name_of(method) for method in ([methods] if isinstance(methods, str) else methods)]
    variants, method_files = find_variants(names)
    if n_splits is None:
        n_splits = 5 if "all" in names else 1
    n_threads = n_threads or count_cores()
    folder = None if data_dir is None else fspath(data_dir)
    datasets = _as_list(data) or [
        info.name for info in list_datasets(folder) if info.is_available and info.n_labels
    ]
    sources: dict[str, BenchData] = {}  # by the argument that opens the data in another process
    in_memory: dict[str, MultiViewData] = {}
    for dataset in datasets:
        if isinstance(dataset, MultiViewData):
            argument = str(_place(dataset, Path(out)))
            in_memory[argument], source = dataset, of_memory(dataset)
        else:
            argument, source = fspath(dataset), open_data(fspath(dataset), folder)
        if any(source.data.name == other.data.name for other in sources.values()):
            raise InvalidInputError(f"two data sets have the name {source.data.name!r}; rename one")
        if official:
            official_rows(source.data, official if isinstance(official, str) else "")
        sources[argument] = source
    runs = plan_runs(
        sources.values(),
        variants,
        lengths=_lengths(bits),
        protocols=_protocols(protocol),
        seeds=range(random_state, random_state + check_positive_int(n_splits, "n_splits")),
        n_threads=n_threads,
        official=official,
    )
    arguments = {source.data.name: argument for argument, source in sources.items()}
    settings = WorkerSettings(n_threads, arguments, folder, method_files)
    return Plan(tuple(runs), Store(out), settings, in_memory)


@suggest_keywords
def run(
    data: Named | MultiViewData | Iterable[Named | MultiViewData] = (),
    *,
    out: str | PathLike[str],
    methods: str | Iterable[str | type[BaseMethod]] = "all",
    bits: Sequence[int] = CODE_LENGTHS,
    protocol: str | Iterable[str] | None = None,
    n_splits: int | None = None,
    random_state: int = 0,
    official: bool | str = False,
    n_threads: int | None = None,
    data_dir: str | PathLike[str] | None = None,
    retry_failed: bool = False,
    progress: Progress = _silent,
) -> RunSummary:
    """Run methods on data sets and store every run as it ends; ``acqh bench`` in Python.

    Runs are carried out in a separate process. Scripts must therefore call this function under
    ``if __name__ == "__main__":``.

    Parameters
    ----------
    data : name, path, MultiViewData, or several of them
        A name of `acqh.list_datasets`, optionally with options, such as
        ``"mirflickr25k:features=deep"``; or a file for `acqh.data.read`. Data in memory are saved
        in `out`. Default: all available data sets.
    out : path-like
        Folder for the results; runs that it already contains are skipped.
    methods : "all", or sequence of names or classes
        Names of `acqh.methods.list`, ``"random"``, ``"NAME rbf"`` or ``"NAME kernel"`` for a
        method with RBF features or kernel maps, or ``"FILE.py:CLASS"`` for a custom method.
        ``"all"``: every method without a neural network, and the trivial baselines.
    bits : sequence of int
        Code lengths; eight times the bytes per item.
    protocol : str or sequence of str, optional
        Names of `list_protocols`. Default: labelled and unlabelled. ``"field"`` also runs
        ``"unlabelled"``, the strict variant.
    n_splits : int, optional
        Number of random splits. Default: 5 for ``methods="all"``, otherwise 1.
    random_state : int, default 0
        Seed of the first split; the next ones follow.
    official : bool or str
        Use the official split; a str selects one of several by name.
    n_threads : int, optional
        Threads of a method. Default: one per core.
    data_dir : path-like, optional
        Folder with the files of named data sets. Default: ``ACQH_DATA``.
    retry_failed : bool
        Repeat failed runs.
    progress : callable, optional
        Called with the number of finished runs, the number of all runs, and a message.

    Returns
    -------
    RunSummary

    Raises
    ------
    DatasetNotFoundError
        Data are neither a file nor a data set.
    InvalidInputError
        Unknown methods or protocols, lengths that are not whole bytes, two data sets with the
        same name, or another process that writes to the folder.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     setting = {"methods": ["random", "cvh"], "bits": [8], "protocol": "label-free"}
    ...     planned = acqh.bench.plan(data, out=folder, n_splits=1, **setting)
    >>> [(run.label, run.database) for run in planned.runs]
    [('random', 'single'), ('random', 'fused'), ('cvh', 'single'), ('cvh', 'fused')]
    """
    planned = plan(
        data,
        out=out,
        methods=methods,
        bits=bits,
        protocol=protocol,
        n_splits=n_splits,
        random_state=random_state,
        official=official,
        n_threads=n_threads,
        data_dir=data_dir,
    )
    return planned.run(retry_failed=retry_failed, progress=progress)


def _as_list(data: Any) -> list[Any]:
    return [data] if isinstance(data, str | PathLike | MultiViewData) else list(data)


def _lengths(bits: Sequence[int]) -> tuple[int, ...]:
    lengths = tuple(check_positive_int(length, "`bits`") for length in bits)
    if not lengths:
        raise InvalidInputError("bits is empty; pass code lengths such as 8, 16, 32")
    if any(length % 8 or length > _MAX_BITS for length in lengths):
        raise InvalidInputError(
            f"bits must be multiples of 8 up to {_MAX_BITS}, got {', '.join(map(str, lengths))}"
        )
    return lengths


def _protocols(protocol: str | Iterable[str] | None) -> tuple[str, ...]:
    if protocol is None:
        return _USUAL_PROTOCOLS
    requested = tuple(dict.fromkeys(_as_list(protocol)))
    for name in requested:
        find_protocol(name)
    # Training items in the database inflate results, so the strict variant is always run too.
    strict = ("unlabelled",) if "field" in requested else ()
    return tuple(dict.fromkeys((*requested, *strict)))


def _place(data: MultiViewData, out: Path) -> Path:
    """Return the path at which data in memory are saved; its stem is their name."""
    path = out / "data" / f"{data.name}.npz"
    if path.stem != data.name or path.parent != out / "data":
        raise InvalidInputError(
            f"{data.name!r} is not a valid file name; give the data another name"
        )
    return path
