"""Results of others as a CSV file with the columns of ``results.csv``."""

import csv
import math
from collections.abc import Collection
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from acqh.bench.protocol import PROTOCOLS
from acqh.bench.running.evaluate import ResultRow
from acqh.bench.running.store import Record
from acqh.errors import InvalidInputError

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
            values[field.name] = number if field.type == "float" or is_map else int(number)
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
