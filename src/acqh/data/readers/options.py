"""What kinds of files have in common: options, usual column names and the split column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Ints
from acqh.errors import InvalidInputError


@dataclass(frozen=True)
class NamedOptions:
    """What a caller may say of arrays, columns or folders by name; None means by usual names."""

    views: Mapping[str, str] | None = None
    labels: str | None = None
    ids: str | None = None
    label_names: Sequence[str] | None = None


_EXPECTED = {
    "views": "a mapping such as {'image': NAME}",
    "variables": "a mapping such as {'image': NAME} or {'image': {'train': NAME}}",
    "label_names": "a list of names",
    "max_bytes": "a positive whole number",
    "extra": "True or False",
    "fill_missing": "True or False",
}


def is_mapping_of_names(value: Any) -> bool:
    """Whether a value maps at least one name to names."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(each, str) for pair in value.items() for each in pair)
    )


def check_option(name: str, value: Any) -> None:
    """Refuse an option of another type than it should have; None means the usual."""
    match name:
        case _ if value is None:
            fits = True
        case "views":
            fits = is_mapping_of_names(value)
        case "variables":
            fits = isinstance(value, Mapping) and all(
                isinstance(each, str) or is_mapping_of_names(each) for each in value.values()
            )
        case "label_names":
            fits = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        case "max_bytes":
            fits = isinstance(value, int | np.integer) and bool(value > 0)
        case "extra" | "fill_missing":
            fits = isinstance(value, bool | np.bool_)
        case _:
            fits = isinstance(value, str)
    if not fits:
        raise InvalidInputError(f"{name} must be {_EXPECTED.get(name, 'a name')}, got {value!r}")


def as_path(path: str | PathLike[str]) -> Path:
    """Return a path as an object; refuse what is none."""
    if not isinstance(path, str | PathLike):
        raise InvalidInputError(f"give the path of a file, got {path!r}")
    return Path(path)


LABEL_COLUMNS = ("labels", "label")
ID_COLUMNS = ("id", "ids")
SPLIT_COLUMN = "split"


def find_column(
    columns: Sequence[str], given: str | None, usual: Sequence[str], file: str, what: str
) -> str | None:
    """Return the column that was named, or the first that has a usual name, or None.

    Capital letters make no difference to usual names.

    Raises InvalidInputError: the column that was named is not there.
    """
    if given is not None:
        if given not in columns:
            raise InvalidInputError(
                f"{file} has no column {given!r}, named for {what}; "
                f"its columns are: {', '.join(columns)}"
            )
        return given
    by_small_letters = {column.lower(): column for column in reversed(columns)}
    exact = next((name for name in usual if name in columns), None)
    return exact or next((by_small_letters[n] for n in usual if n in by_small_letters), None)


def sort_names(values: Iterable[Any]) -> tuple[str, ...]:
    """Return class names in order: numbers by value, names by letters."""
    return tuple(str(value) for value in sorted(set(values)))


def column_splits(items: Mapping[str, Array]) -> dict[str, Ints]:
    """Return the splits that columns ``split`` and ``split_NAME`` with train and test give."""
    found: dict[str, Ints] = {}
    for name, column in items.items():
        split, _, suffix = name.partition("_")
        if split != SPLIT_COLUMN or not {"train", "test"} <= set(column.tolist()):
            continue
        parts = sorted({value for value in column.tolist() if isinstance(value, str) and value})
        for part in parts:
            key = f"{part}_{suffix}" if suffix else part
            found[key] = np.flatnonzero(column == part)
    return found
