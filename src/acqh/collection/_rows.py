"""Items as rows of the store: checked, and noted where they cannot be used."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Matrix
from acqh.collection._prepare import PreparedItem, prepare
from acqh.collection._tables import Row
from acqh.data import MultiViewData
from acqh.errors import AcqhError

# What was left out, and why.
Skipped = list[tuple[str, str]]


def prepared(items: Iterable[Any], skipped: Skipped, *, strict: bool) -> Iterator[PreparedItem]:
    """Yield items that can be used; note the others, or raise for the first of them."""
    for item in items:
        try:
            yield prepare(item)
        except AcqhError as error:
            name = getattr(item, "name", "an item")
            if strict:
                raise type(error)(f"{name}: {error}") from error
            skipped.append((name, str(error)))


def as_row(item: PreparedItem, coded_by: str = "", code: bytes = b"") -> Row:
    """Return an item as it is stored."""
    return Row(
        item.id, item.text, item.labels, item.columns, item.thumbnail, coded_by, code, item.origin
    )


def data_rows(data: MultiViewData) -> list[Row]:
    """Return the items of data that brings its features: ids, labels and item table."""
    names = np.array(data.label_names, dtype=object)
    labels = [()] * len(data) if data.labels is None else _label_sets(data.labels, names)
    columns = {name: values for name, values in data.items.items() if values.ndim == 1}
    texts = columns.pop("text", [""] * len(data))
    return [
        Row(
            str(data.ids[row]),
            str(texts[row]),
            labels[row],
            {name: _plain(values[row]) for name, values in columns.items()},
            None,
            "",
            b"",
            f"item {str(data.ids[row])!r}",
        )
        for row in range(len(data))
    ]


def _label_sets(matrix: Matrix, names: Any) -> list[tuple[str, ...]]:
    csr = sp.csr_array(matrix)
    return [
        tuple(names[csr.indices[a:b]]) for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)
    ]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
