"""What a run has stored: one record and one file of curves a cell, and a table of all."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.bench.running._evaluate import ResultRow
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import replace_file

if sys.platform != "win32":
    import fcntl

Record = dict[str, Any]

# The columns that come first in the table, in this order; the other figures follow.
_FIRST_COLUMNS = (
    "dataset",
    "protocol",
    "method",
    "n_components",
    "bytes_per_item",
    "seed",
    "direction",
    "map_all",
    "map_50",
    "map_100",
    "fit_seconds",
    "encode_seconds",
    "query_seconds",
    "n_train",
    "n_query",
    "n_database",
)
_ROW_COLUMNS = tuple(field.name for field in fields(ResultRow))
_CELL_COLUMNS = (
    "label",
    "n_components_asked",
    "bytes_asked",
    "status",
    "reason",
    "key",
    "fit_cpu_seconds",
    "peak_bytes",
    "seconds",
    "split_hash",
)
_COLUMNS = (
    *_FIRST_COLUMNS,
    *(name for name in _ROW_COLUMNS if name not in _FIRST_COLUMNS),
    *_CELL_COLUMNS,
    "feature_maps",
    "experiments",
)


class Store:
    """A folder of results: ``cells/KEY.json``, ``curves/KEY.npz``, ``results.csv``, ``plan.json``.

    Each file is replaced in one step, and a cell's record is written last of all that belongs to
    it, so a run may be killed at any time: what is recorded is whole.

    Parameters
    ----------
    path : path-like
        The folder; made when something is first written.

    Raises
    ------
    CorruptBundleError
        A record in the folder is damaged.

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
        found = sorted((self.path / "cells").glob("*.json"))
        self._records: dict[str, Record] = {file.stem: _read_record(file) for file in found}

    def done(self, key: str) -> bool:
        """Return whether a cell has been run with success."""
        return self._status(key) == "done"

    def has_failed(self, key: str) -> bool:
        """Return whether a cell has been run and has failed."""
        return self._status(key) == "failed"

    def _status(self, key: str) -> str | None:
        record = self._records.get(key)
        return None if record is None else record["status"]

    def records(self) -> list[Record]:
        """Return the records of all cells, like ones side by side."""
        return sorted(self._records.values(), key=_place)

    def curves(self, key: str) -> dict[str, Array]:
        """Return the curves of a cell; see `write`.

        Raises
        ------
        FileNotFoundError
            The cell has none.
        """
        path = self.path / "curves" / f"{key}.npz"
        # Opened here: on a damaged file np.load would leave it open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def write(self, record: Record, curves: Mapping[str, Array] | None = None) -> None:
        """Store a cell, in place of what was stored of it before.

        Parameters
        ----------
        record : dict
            JSON values: ``key``, ``status`` (``"done"`` or ``"failed"``), ``reason``, ``rows``
            (a ResultRow as dict for each direction) and what else there is to say.
        curves : mapping of str to ndarray, optional
            ``top_n`` (n,) and, for direction i in the order of the rows, ``precision_top_n_i``
            (n,), ``recall_i`` and ``precision_i`` (n_points,) and ``ap_i`` (n_queries,).
        """
        for folder in ("cells", "curves"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        key = record["key"]
        if curves is not None:
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **dict(curves))
            replace_file(self.path / "curves" / f"{key}.npz", buffer.getvalue())
        replace_file(self.path / "cells" / f"{key}.json", _as_json(record))
        self._records[key] = record
        self.write_table()

    def write_table(self) -> None:
        """Write ``results.csv``: one row a cell and direction, one for a cell that failed."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for record in self.records():
            writer.writerows(_table_rows(record))
        replace_file(self.path / "results.csv", text.getvalue().encode())

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write ``plan.json``: what was asked for last."""
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.path / "plan.json", _as_json(plan))

    def plan(self) -> dict[str, Any] | None:
        """Return what was asked for last, if anything was."""
        path = self.path / "plan.json"
        if not path.is_file():
            return None
        plan: dict[str, Any] = _read_json(path)
        return plan

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder; the system undoes it when the process ends.

        Windows has no such lock.

        Raises
        ------
        InvalidInputError
            Another run holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("wb") as file:
            if sys.platform != "win32":
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InvalidInputError(
                        f"another run is writing to {self.path}; wait for it, or give another --out"
                    ) from None
            yield


def _place(record: Record) -> tuple[Any, ...]:
    """Return what records are sorted by."""
    setting = record.get("setting", {})
    names = (setting.get(name) or "" for name in ("dataset", "protocol", "database"))
    sizes = (record.get(name) or 0 for name in ("bytes_asked", "n_components_asked"))
    return *names, record.get("label", ""), *sizes, setting.get("seed", 0), record["key"]


def _table_rows(record: Record) -> Iterator[dict[str, Any]]:
    setting = record.get("setting", {})
    known = {name: setting[name] for name in _ROW_COLUMNS if name in setting}
    cell = {name: record.get(name) for name in _CELL_COLUMNS}
    cell["feature_maps"] = setting.get("feature_maps")
    cell["experiments"] = " ".join(record.get("experiments", ()))
    for row in record["rows"] or [{}]:
        yield {**known, **row, **cell}


def _as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptBundleError(f"{path} is damaged: {error}; remove it to run it again") from None


def _read_record(path: Path) -> Record:
    record = _read_json(path)
    whole = isinstance(record, dict) and {"key", "status", "rows"} <= set(record)
    if not whole or record["key"] != path.stem:
        raise CorruptBundleError(f"{path} is no record of a cell; remove it to run it again")
    return dict(record)
