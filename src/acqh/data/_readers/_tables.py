"""What kinds of files have in common: options, usual column names and the split column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
