"""Load the stored results of a bench for tables and plots."""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.bench.running.evaluate import ResultRow
from acqh.bench.running.store import Record, Store
from acqh.bench.running.trivial import TRIVIAL
from acqh.bench.running.variants import find_method
from acqh.errors import CorruptBundleError, InvalidInputError

Kind = Literal["ours", "baseline", "trivial"]
RowId = tuple[str, str]  # a label, and the kind of its database codes

# Parameters that set the size of codes; a method with neither has a fixed size.
_SIZES = ("n_bits", "n_codebooks")
_OURS = ("acqh", "acqh-paper")
_TRIVIAL = ("label-ridge", *TRIVIAL)
_SETTING = ("dataset", "protocol", "database", "method", "params", "feature_maps", "seed")
_RECORD = (
    "setting", "label", "status", "split_hash", "versions", "machine", "finished",
)  # fmt: skip
# Entries of a setting that identify the version of the data or the method.
_CONTENTS = {"dataset": ("data_sha256", "preparation"), "method": ("code",)}
_ROW = tuple(field.name for field in fields(ResultRow))


@dataclass(frozen=True)
class Result:
    """The result of a run in one direction."""

    record: Record  # of the run; see `Store`
    row: Mapping[str, Any]  # a ResultRow as dict
    position: int  # of the row among those of its run; curves are numbered by it

    @property
    def setting(self) -> Mapping[str, Any]:
        """All parameters that determine the result."""
        setting: Mapping[str, Any] = self.record["setting"]
        return setting

    @property
    def label(self) -> str:
        """Name in tables."""
        return str(self.record["label"])

    @property
    def row_id(self) -> RowId:
        """Its row in a table."""
        return self.label, str(self.setting["database"])

    @property
    def kind(self) -> Kind:
        """ACQH, a baseline, or a trivial baseline."""
        method = self.setting["method"]
        return "trivial" if method in _TRIVIAL else "ours" if method in _OURS else "baseline"

    @property
    def follows(self) -> str:
        """Source that the implementation follows, such as the authors' code."""
        if self.kind == "trivial":
            return "trivial baseline"
        try:
            return find_method(self.setting["method"]).info.status
        except InvalidInputError:  # a plug-in that this process has not loaded
            return "plug-in"

    @property
    def direction(self) -> str:
        """Such as ``"image->text"``."""
        return str(self.row["direction"])

    @property
    def seed(self) -> int:
        """Seed of the split."""
        return int(self.setting["seed"])

    @property
    def n_bytes(self) -> int | None:
        """Requested bytes per item, None if the method has a fixed size."""
        if not any(name in self.setting["params"] for name in _SIZES):
            return None
        requested = self.record.get("bytes_requested")
        return int(self.row["bytes_per_item"] if requested is None else requested)


# By row of a table: for each column, the results of its seeds.
Grid = Mapping[RowId, Sequence[Sequence[Result]]]


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over seeds."""

    mean: float
    std: float | None  # standard deviation (of a sample: over n - 1), None for a single value
    n: int


def summarise(values: Iterable[float]) -> Summary:
    """Return mean, standard deviation and number of values.

    Examples
    --------
    >>> summarise([1.0, 3.0])
    Summary(mean=2.0, std=1.4142135623730951, n=2)
    """
    array = np.array(list(values), dtype=np.float64)
    spread = float(array.std(ddof=1)) if len(array) > 1 else None
    return Summary(float(array.mean()), spread, len(array))


class Results:
    """All results of a store, each setting once.

    `failures`: records of failed runs. `n_skipped`: number of outdated runs, whose data or method
    code have changed since, and of repeated runs with another number of threads.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        records = [_checked(record, store.path) for record in store.records()]
        planned = frozenset((store.plan() or {}).get("keys", ()))
        newest = _chosen(records, planned)
        self.n_skipped = len(records) - len(newest)
        self.failures = [record for record in newest if record["status"] != "done"]
        self.results = [
            Result(record, row, position)
            for record in newest
            if record["status"] == "done"
            for position, row in enumerate(record["rows"])
        ]
        self._curves: dict[str, dict[str, Array]] = {}

    def curve(self, result: Result, name: str) -> Array:
        """Return a stored array, such as ``"ap"``, per query.

        Raises CorruptBundleError if the file of curves is missing or damaged, or lacks the array.
        """
        key = result.record["key"]
        try:
            if key not in self._curves:
                self._curves[key] = self.store.curves(key)
            arrays = self._curves[key]
            return arrays[name if name in arrays else f"{name}_{result.position}"]
        except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
            why = f"no array {error}" if isinstance(error, KeyError) else error
            raise CorruptBundleError(
                f"{self.store.path / 'curves' / key}.npz cannot be used: {why}; "
                f"remove runs/{key}.json to repeat the run"
            ) from None

    def average_precisions(self, result: Result) -> Floats:
        """Return the average precision of every query, NaN if it is undefined."""
        return np.asarray(self.curve(result, "ap"), dtype=np.float64)


def load_results(path: str | PathLike[str]) -> Results:
    """Load the results of ``acqh bench`` from a folder.

    Raises InvalidInputError for a missing folder or one without results, CorruptBundleError for
    a damaged record.
    """
    if not Path(path).is_dir():
        raise InvalidInputError(f"no such folder: {path}; pass the folder that bench wrote to")
    results = Results(Store(path))
    if not results.results and not results.failures:
        raise InvalidInputError(f"{path} has no results; first run: acqh bench ... --out {path}")
    return results


def group(
    results: Iterable[Result], key: Callable[[Result], Hashable], *, unique: bool = True
) -> dict[Any, list[Result]]:
    """Return results by a key, in the order of first appearance.

    With `unique`, a group has one result per seed and direction: the first, if several settings
    share a label.
    """
    groups: dict[Any, dict[Any, Result]] = {}
    for result in results:
        members = groups.setdefault(key(result), {})
        members.setdefault((result.seed, result.direction) if unique else id(result), result)
    return {name: list(members.values()) for name, members in groups.items()}


def _checked(record: Record, path: Path) -> Record:
    missing = [name for name in _RECORD if name not in record]
    if not missing:
        missing = [name for name in _SETTING if name not in record["setting"]]
    if not missing and record["status"] == "done":
        missing = [name for row in record["rows"] for name in _ROW if name not in row]
    if missing:
        raise CorruptBundleError(
            f"{path / 'runs' / record['key']}.json has no {missing[0]!r}; "
            "remove it to repeat the run"
        )
    return record


def _chosen(records: Sequence[Record], planned: Collection[str]) -> list[Record]:
    """Return one record per setting: that of the last plan, or else the newest."""

    def freshness(record: Record) -> tuple[bool, float]:
        return record["key"] in planned, record.get("finished", 0.0)

    for thing, content in _CONTENTS.items():
        # Of each data set and each method, only its newest version.
        oldest_first = sorted(records, key=freshness)
        newest = {record["setting"][thing]: _version(record, content) for record in oldest_first}
        records = [r for r in records if _version(r, content) == newest[r["setting"][thing]]]
    best: dict[str, str] = {}
    for record in sorted(records, key=lambda r: (r["status"] == "done", *freshness(r))):
        setting = {key: value for key, value in record["setting"].items() if key != "n_threads"}
        best[json.dumps([record["label"], setting], sort_keys=True)] = record["key"]
    chosen = set(best.values())
    return [record for record in records if record["key"] in chosen]


def _version(record: Record, content: Iterable[str]) -> str:
    return json.dumps([record["setting"].get(name) for name in content], sort_keys=True)
