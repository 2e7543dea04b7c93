"""Load stored and submitted results of a bench for tables and plots."""

import csv
import json
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.bench.protocol import PROTOCOLS
from acqh.bench.running.evaluate import ResultRow
from acqh.bench.running.store import Record, Store
from acqh.bench.running.variants import TRIVIAL, find_method
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
        if not self.has_curves:
            return "submitted"
        if self.kind == "trivial":
            return "trivial baseline"
        try:
            return find_method(self.setting["method"]).info.status
        except InvalidInputError:  # a plug-in that this process has not loaded
            return "plug-in"

    @property
    def has_curves(self) -> bool:
        """Whether curves are stored, and average precisions of queries; not if submitted."""
        return not self.record.get("submitted", False)

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

    def __init__(self, store: Store, merged: Iterable[str | PathLike[str]] = ()) -> None:
        self.store = store
        records = [_checked(record, store.path) for record in store.records()]
        planned = frozenset((store.plan() or {}).get("keys", ()))
        newest = _chosen(records, planned)
        self.n_skipped = len(records) - len(newest)
        labels = {record["label"] for record in newest}
        for path in merged:
            newest += read_submitted(path, labels)
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
        if key not in self._curves:
            try:
                self._curves[key] = self.store.curves(key)
            except (OSError, ValueError, EOFError, BadZipFile) as error:
                raise _damaged_curves(self.store.path, key, str(error)) from None
        arrays = self._curves[key]
        name = name if name in arrays else f"{name}_{result.position}"
        if name not in arrays:
            raise _damaged_curves(self.store.path, key, f"no array {name!r}")
        return arrays[name]

    def average_precisions(self, result: Result) -> Floats:
        """Return the average precision of every query, NaN if it is undefined."""
        return np.asarray(self.curve(result, "ap"), dtype=np.float64)


def load_results(path: str | PathLike[str], merged: Iterable[str | PathLike[str]] = ()) -> Results:
    """Load the results of ``acqh bench`` from a folder, and those of CSV files.

    Raises InvalidInputError for a missing folder or one without results, CorruptBundleError for
    a damaged record.
    """
    if not Path(path).is_dir():
        raise InvalidInputError(f"no such folder: {path}; pass the folder that bench wrote to")
    results = Results(Store(path), merged)
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

    def rank(record: Record) -> tuple[bool, bool, float]:
        return record["status"] == "done", record["key"] in planned, record.get("finished", 0.0)

    def latest(candidates: Iterable[Record]) -> tuple[bool, float]:
        return max((record["key"] in planned, record.get("finished", 0.0)) for record in candidates)

    for thing, content in _CONTENTS.items():
        versions: dict[str, dict[str, list[Record]]] = {}
        for record in records:
            setting = record["setting"]
            version = json.dumps([setting.get(name) for name in content], sort_keys=True)
            versions.setdefault(setting[thing], {}).setdefault(version, []).append(record)
        records = [
            record
            for by_version in versions.values()
            for record in max(by_version.values(), key=latest)
        ]
    best: dict[str, Record] = {}
    for record in records:
        setting = {key: value for key, value in record["setting"].items() if key != "n_threads"}
        name = json.dumps([record["label"], setting], sort_keys=True)
        if name not in best or rank(record) > rank(best[name]):
            best[name] = record
    return list(best.values())


def _damaged_curves(path: Path, key: str, why: str) -> CorruptBundleError:
    return CorruptBundleError(
        f"{path / 'curves' / key}.npz cannot be used: {why}; "
        f"remove runs/{key}.json to repeat the run"
    )


# Columns that may be missing, and their values then.
_DEFAULTS: dict[str, Any] = {"map_5000": math.nan, "n_codes": 0, "database": ""}
_TEXTS = ("dataset", "protocol", "method", "direction", "database")
_DATABASES = ("training", "single", "fused")


def read_submitted(path: str | PathLike[str], labels: Collection[str] = ()) -> list[Record]:
    """Return the rows of a CSV file as records, one per row.

    Rows of failed runs are skipped. A method whose label is in `labels` gets the name of the file.
    Raises InvalidInputError for a missing column, a value that is not possible, or two results of
    the same setting, with its line.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            names = {field.name for field in fields(ResultRow)} - _DEFAULTS.keys()
            missing = sorted(names - set(reader.fieldnames or ()))
            if missing:
                raise InvalidInputError(
                    f"{path} lacks the column {missing[0]!r}; it needs {', '.join(sorted(names))}"
                )
            lines: dict[tuple[Any, ...], int] = {}
            records = []
            for row in reader:
                if row.get("status") != "failed":
                    records.append(_record(row, path, reader.line_num, labels))
                    _check_new(records[-1], path, reader.line_num, lines)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not a CSV file: {error}") from None
    if not records:
        raise InvalidInputError(f"{path} has no results")
    return records


def _check_new(record: Record, path: Path, line: int, lines: dict[tuple[Any, ...], int]) -> None:
    (row,) = record["rows"]
    columns = ("dataset", "protocol", "database", "n_components", "bytes_per_item", "seed")
    key = (record["label"], *(row[column] for column in columns), row["direction"])
    if lines.setdefault(key, line) != line:
        raise InvalidInputError(
            f"{path}, line {line}: {record['label']!r} has a result with the same "
            f"{', '.join(columns)} and direction in line {lines[key]}; "
            "keep one of them, or tell them apart by the column 'label' or 'database'"
        )


def _record(row: dict[str, Any], path: Path, line: int, labels: Collection[str]) -> Record:
    values: dict[str, Any] = {}
    for field in fields(ResultRow):
        text = (row.get(field.name) or "").strip()
        if field.name in _TEXTS:
            values[field.name] = text
        elif not text and field.name in _DEFAULTS:
            values[field.name] = _DEFAULTS[field.name]
        else:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            is_map = field.name.startswith("map_")
            if not 0 <= number < math.inf or (is_map and number > 1):
                raise InvalidInputError(
                    f"{path}, line {line}: {field.name} must be a number "
                    f"{'from 0 to 1' if is_map else 'that is not negative'}, got {text[:40]!r}"
                )
            values[field.name] = number if field.type is float else int(number)
    if values["protocol"] not in PROTOCOLS or "->" not in values["direction"]:
        raise InvalidInputError(
            f"{path}, line {line}: protocol must be one of {', '.join(PROTOCOLS)}, and direction "
            f"such as image->text; got {values['protocol'][:40]!r}, {values['direction'][:40]!r}"
        )
    is_labelled = PROTOCOLS[values["protocol"]].database_is_train
    values["database"] = values["database"] or ("training" if is_labelled else "single")
    if values["database"] not in _DATABASES or not values["method"]:
        raise InvalidInputError(
            f"{path}, line {line}: a method needs a name, and database must be one of "
            f"{', '.join(_DATABASES)}"
        )
    is_fixed = row.get("bytes_requested") == ""
    label = (row.get("label") or values["method"]).strip()
    setting = {name: values[name] for name in ("dataset", "protocol", "database", "method", "seed")}
    return {
        "key": f"submitted {path.name} {line}",
        "label": f"{label} ({path.stem})" if label in labels else label,
        "status": "done",
        "submitted": True,
        "bytes_requested": values["bytes_per_item"],
        "n_components_requested": None,
        "setting": {
            **setting,
            # Without a requested size, as in results.csv of label-ridge, the size is fixed.
            "params": {} if is_fixed else {"n_bits": 8 * values["bytes_per_item"]},
            "feature_maps": None,
        },
        "rows": [values],
        "split_hash": f"not known: {path.name}",
        "versions": {},
        "machine": {"results": f"submitted in {path.name}"},
        "finished": 0.0,
    }
