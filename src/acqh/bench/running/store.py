"""Store of results: records, curves and rankings of runs, and a table of all runs."""

import csv
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh._core.files import parse_json
from acqh.bench.running.evaluate import ResultRow
from acqh.bench.running.runs import Run
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io.manifest import MANIFEST_NAME
from acqh.io.write import replace_file

if sys.platform != "win32":
    import fcntl

Record = dict[str, Any]

_ROW_COLUMNS = tuple(field.name for field in fields(ResultRow))
_RUN_COLUMNS = (
    "label", "n_components_requested", "bytes_requested", "status", "reason", "key",
    "fit_cpu_seconds", "peak_bytes", "seconds", "split_hash", "feature_maps",
)  # fmt: skip
# Estimate without any similar run: about an average method on one core.
_GUESSED_SECONDS = 3.0


class Store:
    """A folder of results: a record, curves and rankings per run, and a table of all runs.

    ``runs/KEY.json`` is authoritative; ``results.csv`` is generated from it and never read. Each
    file is replaced atomically, and the record of a run is written last. A run may therefore be
    killed at any time: every record is complete.

    Parameters
    ----------
    path : path-like
        The folder; created on first write.

    Raises
    ------
    CorruptBundleError
        A record in the folder is damaged.
    InvalidInputError
        The folder is a collection, an index or a model.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(folder.name)
    >>> store.write({"key": "0123", "status": "failed", "reason": "no memory", "rows": []})
    >>> Store(folder.name).has_failed("0123")
    True
    >>> folder.cleanup()
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if (self.path / MANIFEST_NAME).exists():
            raise InvalidInputError(
                f"{path} is a saved collection, index or model; choose another folder for results"
            )
        files = sorted((self.path / "runs").glob("*.json"))
        self._records: dict[str, Record] = {file.stem: _read_record(file) for file in files}

    def done(self, key: str) -> bool:
        """Return whether a run succeeded."""
        return self._status(key) == "done"

    def has_failed(self, key: str) -> bool:
        """Return whether a run failed."""
        return self._status(key) == "failed"

    def _status(self, key: str) -> str | None:
        record = self._records.get(key)
        return None if record is None else record["status"]

    def records(self) -> list[Record]:
        """Return the records of all runs, sorted by setting."""
        return sorted(self._records.values(), key=_place)

    def curves(self, key: str) -> dict[str, Array]:
        """Return the curves of a run; see `write`.

        Raises
        ------
        FileNotFoundError
            The run has no curves.
        """
        return _read_arrays(self.path / "curves" / f"{key}.npz")

    def rankings(self, key: str) -> list[Ints]:
        """Return the first items of every query of a run, direction by direction.

        Returns
        -------
        list of int64 (n_query, n_listed)
            Row numbers of the data, best first, one array per row of the record. Equal scores
            are ordered by row. `acqh.metrics` accepts them with ``kind="ranking"``.

        Raises
        ------
        FileNotFoundError
            The run has no rankings.
        """
        steps = _read_arrays(self.path / "rankings" / f"{key}.npz")
        # Unsigned cumulative sums wrap around exactly as the differences did.
        return [
            np.cumsum(steps[str(place)], axis=1, dtype=steps[str(place)].dtype).astype(np.int64)
            for place in range(len(steps))
        ]

    def write(
        self,
        record: Record,
        curves: Mapping[str, Array] | None = None,
        rankings: Sequence[Ints] | None = None,
    ) -> None:
        """Store a run; replaces an earlier result of the same run.

        Parameters
        ----------
        record : dict
            JSON values: ``key``, ``status`` (``"done"`` or ``"failed"``), ``reason``, ``rows``
            (a ResultRow as dict for each direction) and any other entries.
        curves : mapping of str to ndarray, optional
            ``top_n`` (n,) and, for direction i in the order of the rows, ``precision_top_n_i``
            (n,), ``recall_i`` and ``precision_i`` (n_points,) and ``ap_i`` (n_queries,).
        rankings : sequence of (n_query, n_listed), optional
            Row numbers of the data, best first, for each direction.
        """
        key = record["key"]
        if curves is not None:
            self._write_arrays("curves", key, curves)
        if rankings is not None:
            steps = {str(place): _steps(rows) for place, rows in enumerate(rankings)}
            self._write_arrays("rankings", key, steps)
        (self.path / "runs").mkdir(parents=True, exist_ok=True)
        replace_file(self.path / "runs" / f"{key}.json", _as_json(record))
        is_new = key not in self._records
        self._records[key] = record
        if is_new and self._table.is_file():
            with self._table.open("a", encoding="utf-8", newline="") as file:
                file.write(_as_csv([record]))
        else:
            self.write_table()

    def _write_arrays(self, folder: str, key: str, arrays: Mapping[str, Array]) -> None:
        (self.path / folder).mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
        replace_file(self.path / folder / f"{key}.npz", buffer.getvalue())

    @property
    def _table(self) -> Path:
        return self.path / "results.csv"

    def write_table(self) -> None:
        """Write all of ``results.csv``: a row per run and direction, one for a failed run."""
        header = ",".join((*_ROW_COLUMNS, *_RUN_COLUMNS))
        replace_file(self._table, f"{header}\n{_as_csv(self.records())}".encode())

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write ``plan.json``: the last plan."""
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.path / "plan.json", _as_json(plan))

    def plan(self) -> dict[str, Any] | None:
        """Return the last plan, or None."""
        path = self.path / "plan.json"
        if not path.is_file():
            return None
        plan: dict[str, Any] = _read_json(path)
        return plan

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes until the process ends; not on Windows.

        Raises
        ------
        InvalidInputError
            Another process holds the lock.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("wb") as file:
            if sys.platform != "win32":
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InvalidInputError(
                        f"another process is writing to {self.path}; wait, or pass another `out`"
                    ) from None
            yield


def _place(record: Record) -> tuple[Any, ...]:
    """Return the sort key of a record."""
    setting = record.get("setting", {})
    names = (setting.get(name) or "" for name in ("dataset", "protocol", "database"))
    sizes = (record.get(name) or 0 for name in ("bytes_requested", "n_components_requested"))
    return *names, record.get("label", ""), *sizes, setting.get("seed", 0), record["key"]


def _table_rows(record: Record) -> Iterator[dict[str, Any]]:
    setting = record.get("setting", {})
    columns = {name: setting[name] for name in _ROW_COLUMNS if name in setting}
    facts = {name: record.get(name) for name in _RUN_COLUMNS}
    facts["feature_maps"] = setting.get("feature_maps")
    for row in record["rows"] or [{}]:
        yield {**columns, **row, **facts}


def _as_csv(records: Iterable[Record]) -> str:
    text = io.StringIO()
    columns = (*_ROW_COLUMNS, *_RUN_COLUMNS)
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    for record in records:
        writer.writerows(_table_rows(record))
    return text.getvalue()


def _steps(rows: Ints) -> Array:
    """Return rankings as differences, which compress better, in the narrowest dtype."""
    small = rows.astype(np.min_scalar_type(int(rows.max(initial=0))))
    return np.diff(small, axis=1, prepend=small.dtype.type(0))


def _read_arrays(path: Path) -> dict[str, Array]:
    # np.load would leave a damaged file open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptBundleError(f"{path} is damaged: {error}; remove it to run it again") from None


def _read_record(path: Path) -> Record:
    record = _read_json(path)
    is_complete = isinstance(record, dict) and {"key", "status", "rows"} <= set(record)
    if not is_complete or record["key"] != path.stem:
        raise CorruptBundleError(f"{path} is not a record of a run; remove it to run it again")
    return dict(record)


def expected_seconds(runs: Iterable[Run], records: Iterable[Record]) -> float:
    """Return the estimated time of runs: for each the mean of the most similar stored runs.

    Similar runs have the same data, label and length; else the same data and label; else the same
    data; else all runs count. Without stored runs, the estimate is three seconds per run.
    """
    seconds: dict[Any, list[float]] = defaultdict(list)
    for record in records:
        if record["status"] == "done":
            setting, length = record["setting"], record["n_components_requested"]
            for kind in _kinds(setting["dataset"], record["label"], length):
                seconds[kind].append(record["seconds"])
    means = {kind: sum(times) / len(times) for kind, times in seconds.items()}
    return sum(
        next((means[kind] for kind in kinds if kind in means), _GUESSED_SECONDS)
        for kinds in (_kinds(run.dataset, run.label, run.n_components_requested) for run in runs)
    )


def _kinds(dataset: str, label: str, length: int | None) -> tuple[Any, ...]:
    return (dataset, label, length), (dataset, label), (dataset,), ()


def as_duration(seconds: float) -> str:
    """Return a duration as text, with the precision of an estimate.

    Examples
    --------
    >>> as_duration(90)
    '2 min'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
