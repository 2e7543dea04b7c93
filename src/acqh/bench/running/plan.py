"""The whole bench as one call: what is asked for, planned and run."""

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
from acqh._core.runtime import count_cores
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
    """Numbers of runs done, failed, stored before and left.

    Attributes
    ----------
    out : Path
        The folder with the results, for `Store` and `write_report`.
    n_stored : int
        Runs that were there before.
    n_done, n_failed : int
        Runs carried out now.
    n_left : int
        Runs that an interrupt left.
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
    """Turn the first interrupt into an event; the second is what it always was."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        progress("stopping after this run; interrupt again to stop at once")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked
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
        Data that have no file yet, by the path of the one that they get.

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
        """Return the runs that the store does not have yet."""
        store = self.store
        return [
            run
            for run in self.runs
            if not store.done(run.key) and (retry_failed or not store.has_failed(run.key))
        ]

    def run(self, *, retry_failed: bool = False, progress: Progress = _silent) -> RunSummary:
        """Carry out the runs that the store does not have yet; see `acqh.bench.run`.

        Runs follow one another in a process of their own, so that neither another run nor a
        display disturbs a timing. If a run crashes, it is stored as failed, and a new process
        goes on. The first interrupt (Ctrl-C) stops after the current run, the second at once.
        """
        started, store = time.perf_counter(), self.store
        with store.locked():
            for path, data in self.in_memory.items():
                Path(path).parent.mkdir(exist_ok=True)
                save_npz(data, path)
            command = [Path(sys.argv[0]).name, *sys.argv[1:]]
            store.write_plan({"command": command, "keys": [run.key for run in self.runs]})
            store.write_table()  # if the last command was killed, its last line may be torn
            left = self.pending(retry_failed=retry_failed)
            context = {"versions": versions(), "machine": machine()}
            done, failed = 0, list[dict[str, Any]]()

            def tell(message: str) -> None:
                progress(done + len(failed), len(left), message)

            with _interruptible(tell) as is_stopping, Worker(self.settings) as worker:
                for number, run in enumerate(left):
                    if is_stopping.is_set():
                        break
                    seconds = expected_seconds(left[number:], store.records())
                    tell(f"running: about {as_duration(seconds)} left, {run}")
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
    seeds: int | None = None,
    official: bool | str = False,
    n_threads: int | None = None,
    data_dir: str | PathLike[str] | None = None,
) -> Plan:
    """Return the runs that `run` would carry out; takes and raises what that does.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> planned = plan(data, out="results", methods=["dch"], bits=[8, 16], protocol="labelled")
    >>> [(run.label, run.bytes_asked) for run in planned.runs]
    [('dch', 1), ('dch', 2)]
    """
    names = [name_of(each) for each in ([methods] if isinstance(methods, str) else methods)]
    variants, method_files = find_variants(names)
    if seeds is None:
        seeds = 5 if "all" in names else 1
    n_threads = n_threads or count_cores()
    folder = None if data_dir is None else fspath(data_dir)
    given = _each(data) or [info.name for info in list_datasets(folder) if info.is_available]
    sources = _open_all(given, folder, Path(out))
    if official:
        for source in sources.values():
            official_rows(source.data, official if isinstance(official, str) else "")
    runs = plan_runs(
        sources.values(),
        variants,
        lengths=_lengths(bits),
        protocols=_protocols(protocol),
        seeds=range(check_positive_int(seeds, "seeds")),
        n_threads=n_threads,
        official=official,
    )
    arguments = {source.data.name: argument for argument, source in sources.items()}
    settings = WorkerSettings(n_threads, arguments, folder, method_files)
    in_memory = {
        str(_place(each, Path(out))): each for each in given if isinstance(each, MultiViewData)
    }
    return Plan(tuple(runs), Store(out), settings, in_memory)


def run(
    data: Named | MultiViewData | Iterable[Named | MultiViewData] = (),
    *,
    out: str | PathLike[str],
    methods: str | Iterable[str | type[BaseMethod]] = "all",
    bits: Sequence[int] = CODE_LENGTHS,
    protocol: str | Iterable[str] | None = None,
    seeds: int | None = None,
    official: bool | str = False,
    n_threads: int | None = None,
    data_dir: str | PathLike[str] | None = None,
    retry_failed: bool = False,
    progress: Progress = _silent,
) -> RunSummary:
    """Run methods on data sets and store every run as it ends, as ``acqh bench`` does.

    Runs are carried out in a process of their own. A script that calls this must do so under
    ``if __name__ == "__main__":``, as with everything that starts processes.

    Parameters
    ----------
    data : name, path, MultiViewData, or several of them
        A name of `acqh.list_datasets`, if need be with options, such as
        ``"mirflickr25k:features=deep"``; or a file that `acqh.data.read` reads. Data in memory
        are saved in the folder of results. By default every data set that is found.
    out : path-like
        Folder for the results; what it has already is not run again.
    methods : "all", or sequence of names or classes
        Names of `acqh.methods.list`, ``"random"``, ``"NAME rbf"`` or ``"NAME kernel"`` for a
        method with RBF features or kernel maps, or ``"FILE.py:CLASS"`` for one of your own.
        ``"all"``: every method that needs no network, and the trivial baselines.
    bits : sequence of int
        Code lengths; eight times the bytes per item.
    protocol : str or sequence of str, optional
        Of `list_protocols`; by default labelled and unlabelled. With
        ``"field"`` comes ``"unlabelled"``, the strict one.
    seeds : int, optional
        Number of random splits; by default 5 of all methods, 1 of those that are named.
    official : bool or str
        Use the data's own split; a text names it, where there are several.
    n_threads : int, optional
        Threads of a method; one per core by default.
    data_dir : path-like, optional
        Folder with the files of named data sets; ``ACQH_DATA`` by default.
    retry_failed : bool
        Repeat runs that have failed.
    progress : callable, optional
        Called with the number of runs done, the number of all, and a message.

    Returns
    -------
    RunSummary

    Raises
    ------
    DatasetNotFoundError
        Data are neither a file nor a data set.
    InvalidInputError
        Unknown methods or protocols, lengths that are no whole bytes, two data of one
        name, or another run that writes to the folder.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asked = {"methods": ["random", "cvh"], "bits": [8], "protocol": "label-free"}
    ...     planned = acqh.bench.plan(data, out=folder, seeds=1, **asked)
    >>> [(run.label, run.database) for run in planned.runs]
    [('random', 'hashed'), ('random', 'unified'), ('cvh', 'hashed'), ('cvh', 'unified')]
    """
    planned = plan(
        data,
        out=out,
        methods=methods,
        bits=bits,
        protocol=protocol,
        seeds=seeds,
        official=official,
        n_threads=n_threads,
        data_dir=data_dir,
    )
    return planned.run(retry_failed=retry_failed, progress=progress)


def _each(given: Any) -> list[Any]:
    return [given] if isinstance(given, str | PathLike | MultiViewData) else list(given)


def _lengths(bits: Sequence[int]) -> tuple[int, ...]:
    lengths = tuple(check_positive_int(length, "`bits`") for length in bits)
    if not lengths:
        raise InvalidInputError("`bits` are whole numbers such as 8, 16, 32; none was given")
    if any(length % 8 or length > _MAX_BITS for length in lengths):
        raise InvalidInputError(
            f"items take whole bytes: `bits` are multiples of 8 up to {_MAX_BITS}; "
            f"got {', '.join(map(str, lengths))}"
        )
    return lengths


def _protocols(protocol: str | Iterable[str] | None) -> tuple[str, ...]:
    if protocol is None:
        return _USUAL_PROTOCOLS
    wanted = tuple(dict.fromkeys(_each(protocol)))
    for name in wanted:
        find_protocol(name)
    # Training items in the database flatter a method; the strict results are shown beside them.
    strict = ("unlabelled",) if "field" in wanted else ()
    return tuple(dict.fromkeys((*wanted, *strict)))


def _open_all(given: Iterable[Any], data_dir: str | None, out: Path) -> dict[str, BenchData]:
    """Return data by what opens them again in another process."""
    opened: dict[str, BenchData] = {}
    for each in given:
        if isinstance(each, MultiViewData):
            argument, source = str(_place(each, out)), of_memory(each)
        else:
            argument, source = fspath(each), open_data(fspath(each), data_dir)
        if any(source.data.name == other.data.name for other in opened.values()):
            raise InvalidInputError(
                f"two of the data given are called {source.data.name!r}; rename one"
            )
        opened[argument] = source
    return opened


def _place(data: MultiViewData, out: Path) -> Path:
    """Return where data in memory are saved: a file that gives them their name again."""
    path = out / "data" / f"{data.name}.npz"
    if path.stem != data.name or path.parent != out / "data":
        raise InvalidInputError(
            f"{data.name!r} is not a name of a file; give the data another name"
        )
    return path
