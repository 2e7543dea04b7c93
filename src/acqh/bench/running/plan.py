"""The whole bench as one call: what is asked for, planned and run."""

import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from acqh._core.arrays import check_positive_int
from acqh._core.runtime import count_cores
from acqh.bench.protocol import find_protocol
from acqh.bench.protocol import seeds as first_seeds
from acqh.bench.running.cells import CODE_LENGTHS, Cell, RunGrid, fair_plan, paper_plan
from acqh.bench.running.evaluate import BenchData, of_memory, open_data
from acqh.bench.running.runner import RunSummary, Watch, pending, run_cells
from acqh.bench.running.store import Store
from acqh.bench.running.variants import Variant, list_variants, load_method_file, make_variant
from acqh.bench.running.worker import WorkerSettings
from acqh.data import MultiViewData, list_datasets, save_npz
from acqh.data.splits import official_rows
from acqh.errors import InvalidInputError
from acqh.methods import BaseMethod

_PAPER_DATA = ("mirflickr25k", "nuswide10", "wiki")
_USUAL_PROTOCOLS = ("labelled", "unlabelled")
_MAX_FAIR_BITS = 128

Named = str | PathLike[str]


@dataclass(frozen=True)
class Plan:
    """Cells to be run, and where to.

    Attributes
    ----------
    cells : tuple of Cell
    store : Store
    settings : WorkerSettings
    mode : {"fair", "paper"}
    in_memory : mapping of str to MultiViewData
        Data that have no file yet, by the path of the one that they get.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> planned = acqh.bench.plan(data, out="results", methods=["label-ridge"], bits=[8])
    >>> len(planned.cells) == len(planned.pending())
    True
    >>> planned.run()  # doctest: +SKIP
    """

    cells: tuple[Cell, ...]
    store: Store
    settings: WorkerSettings
    mode: str
    in_memory: Mapping[str, MultiViewData]

    def pending(self, *, retry_failed: bool = False) -> list[Cell]:
        """Return the cells that the store does not have yet."""
        return pending(self.cells, self.store, retry_failed=retry_failed)

    def run(self, *, retry_failed: bool = False, watch: Watch | None = None) -> RunSummary:
        """Run what the store does not have yet; see `acqh.bench.run`."""
        with self.store.locked():
            for path, data in self.in_memory.items():
                Path(path).parent.mkdir(exist_ok=True)
                save_npz(data, path)
            self.store.write_plan(
                {
                    "mode": self.mode,
                    "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
                    "keys": [cell.key for cell in self.cells],
                }
            )
            return run_cells(
                self.cells, self.store, self.settings, retry_failed=retry_failed, watch=watch
            )


def plan(
    data: Named | MultiViewData | Iterable[Named | MultiViewData] = (),
    *,
    out: str | PathLike[str],
    methods: str | Iterable[str | type[BaseMethod]] = "all",
    bits: Sequence[int] = CODE_LENGTHS,
    protocol: str | Iterable[str] | None = None,
    seeds: int | None = None,
    paper: bool = False,
    official: bool | str = False,
    n_threads: int | None = None,
    data_dir: str | PathLike[str] | None = None,
) -> Plan:
    """Return the cells that `run` would run; takes and raises what that does.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> planned = plan(data, out="results", methods=["dch"], bits=[8, 16], protocol="labelled")
    >>> [(cell.label, cell.bytes_asked) for cell in planned.cells]
    [('dch', 1), ('dch', 2)]
    """
    names = [_name_of(each) for each in ([methods] if isinstance(methods, str) else methods)]
    variants, method_files = _variants(names)
    if seeds is None:
        seeds = 5 if "all" in names else 1
    n_threads = n_threads or count_cores()
    grid = RunGrid(
        variants=variants,
        lengths=_lengths(bits, paper),
        protocols=_protocols(protocol, paper),
        seeds=first_seeds(seeds),
        n_threads=n_threads,
        official=official,
    )
    folder = None if data_dir is None else fspath(data_dir)
    given = _each(data)
    sources = _open_all(given or _found(folder, paper), folder, Path(out))
    if official:
        for source in sources.values():
            official_rows(source.data, official if isinstance(official, str) else "")
    cells = (paper_plan if paper else fair_plan)(list(sources.values()), grid)
    arguments = {source.data.name: argument for argument, source in sources.items()}
    settings = WorkerSettings(n_threads, arguments, folder, method_files)
    in_memory = {
        str(_place(each, Path(out))): each for each in given if isinstance(each, MultiViewData)
    }
    return Plan(tuple(cells), Store(out), settings, "paper" if paper else "fair", in_memory)


def run(
    data: Named | MultiViewData | Iterable[Named | MultiViewData] = (),
    *,
    out: str | PathLike[str],
    methods: str | Iterable[str | type[BaseMethod]] = "all",
    bits: Sequence[int] = CODE_LENGTHS,
    protocol: str | Iterable[str] | None = None,
    seeds: int | None = None,
    paper: bool = False,
    official: bool | str = False,
    n_threads: int | None = None,
    data_dir: str | PathLike[str] | None = None,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> RunSummary:
    """Run methods on data sets and store every cell as it ends, as ``acqh bench`` does.

    Cells run in a process of their own. A script that calls this must do so under
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
        ``"all"``: every method that needs no network, and the controls.
    bits : sequence of int
        Code lengths; eight times the bytes per item, unless `paper`.
    protocol : str or sequence of str, optional
        Of `list_protocols`; by default labelled and unlabelled, with `paper` labelled. With
        ``"field"`` comes ``"unlabelled"``, the strict one.
    seeds : int, optional
        Number of random splits; by default 5 of all methods, 1 of those that are named.
    paper : bool
        Run the settings of the paper's tables and figures instead of equal bytes.
    official : bool or str
        Use the data's own split; a text names it, where there are several.
    n_threads : int, optional
        Threads of a method; one per core by default.
    data_dir : path-like, optional
        Folder with the files of named data sets; ``ACQH_DATA`` by default.
    retry_failed : bool
        Run cells again that have failed.
    watch : Watch, optional
        Told how the run goes.

    Returns
    -------
    RunSummary

    Raises
    ------
    DatasetNotFoundError
        Data are neither a file nor a data set.
    InvalidInputError
        Unknown methods or protocols, lengths that are no whole bytes, no data, two data of one
        name, or another run that writes to the folder.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> data = acqh.make_multiview(120, n_labels=3, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asked = {"methods": ["random", "cvh"], "bits": [8], "protocol": "label-free"}
    ...     planned = acqh.bench.plan(data, out=folder, seeds=1, **asked)
    >>> [(cell.label, cell.database) for cell in planned.cells]
    [('random', 'hashed'), ('random', 'unified'), ('cvh', 'hashed'), ('cvh', 'unified')]
    """
    planned = plan(
        data,
        out=out,
        methods=methods,
        bits=bits,
        protocol=protocol,
        seeds=seeds,
        paper=paper,
        official=official,
        n_threads=n_threads,
        data_dir=data_dir,
    )
    return planned.run(retry_failed=retry_failed, watch=watch)


def _each(given: Any) -> list[Any]:
    return [given] if isinstance(given, str | PathLike | MultiViewData) else list(given)


def _variants(names: Sequence[str]) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """Return the lines of tables, and the files that some of their methods come from."""
    files = tuple(name for name in names if ".py:" in name)
    # First of all, so that they may be named as well.
    named = {file: load_method_file(file).info.name for file in files}
    variants: list[Variant] = []
    for name in names:
        variants += list_variants() if name == "all" else [make_variant(named.get(name, name))]
    return tuple({variant.label: variant for variant in variants}.values()), files


def _name_of(method: Any) -> str:
    if isinstance(method, str):
        return method.strip()
    if not (isinstance(method, type) and issubclass(method, BaseMethod)):
        raise InvalidInputError(f"methods are names or classes of methods, not {method!r}")
    if method.__module__.partition(".")[0] == "acqh":
        return method.info.name
    # The process that runs it has to find it too.
    return f"{inspect.getsourcefile(method)}:{method.__name__}"


def _lengths(bits: Sequence[int], paper: bool) -> tuple[int, ...]:
    lengths = tuple(check_positive_int(length, "`bits`") for length in bits)
    if not lengths:
        raise InvalidInputError("`bits` are whole numbers such as 8, 16, 32; none was given")
    if not paper and any(length % 8 or length > _MAX_FAIR_BITS for length in lengths):
        raise InvalidInputError(
            f"items take whole bytes: `bits` are multiples of 8 up to {_MAX_FAIR_BITS}, unless "
            f"with the paper's settings; got {', '.join(map(str, lengths))}"
        )
    return lengths


def _protocols(protocol: str | Iterable[str] | None, paper: bool) -> tuple[str, ...]:
    if protocol is None:
        return _USUAL_PROTOCOLS
    wanted = tuple(dict.fromkeys(_each(protocol)))
    for name in wanted:
        find_protocol(name)
    if paper and wanted != ("labelled",):
        raise InvalidInputError("the paper's database is labelled: give no other protocol with it")
    # Training items in the database flatter a method; beside such figures the strict ones stand.
    strict = ("unlabelled",) if "field" in wanted else ()
    return tuple(dict.fromkeys((*wanted, *strict)))


def _found(data_dir: str | None, paper: bool) -> list[str]:
    found = [info.name for info in list_datasets(data_dir) if info.found]
    names = [name for name in found if not paper or name in _PAPER_DATA]
    if not names:
        raise InvalidInputError(
            "no data set was found: name one, or say where files lie, by a data folder or ACQH_DATA"
        )
    return names


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
