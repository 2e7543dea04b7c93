"""Read Matlab files with the variable layouts the field uses."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Ints, Matrix, is_sparse
from acqh.data.concat import stack
from acqh.data.multiview import MultiViewData
from acqh.data.readers.classes import find_classes
from acqh.data.readers.limits import check_names_have_labels
from acqh.data.readers.mat5 import Mat5File
from acqh.data.readers.mat73 import Mat73File, is_hdf5
from acqh.data.readers.matlayout import LABELS, WHOLE, Orientation, Plan, find_axes, make_plan
from acqh.data.readers.matvariable import MatFile
from acqh.data.readers.pieces import ReadRows, RowSource
from acqh.errors import InvalidInputError


@dataclass(frozen=True)
class MatOptions:
    """What a caller may say about a Matlab file; None means by the usual names and shapes."""

    variables: Mapping[str, str | Mapping[str, str]] | None = None
    orientation: Orientation | None = None
    label_names: Sequence[str] | None = None
    max_bytes: int | None = None


# Role -> matrix, items in rows.
_Block = dict[str, Matrix]


def read_mat(path: Path, options: MatOptions) -> MultiViewData:
    """Read a whole Matlab file."""
    with _open(path, options.max_bytes) as file:
        plan = make_plan(file.variables, path.name, options.variables)
        blocks = _load_blocks(file, plan, path.name, options.orientation)
        rows = {part: _whole_numbers(file.load(name), name) for part, name in plan.rows.items()}
    if WHOLE in blocks:
        whole = blocks[WHOLE]
        splits = _index_splits(rows)
    else:
        whole, splits = _join_parts(blocks, path.name)
    labels = whole.pop(LABELS, None)
    names = options.label_names
    if labels is None:
        check_names_have_labels(names, path)
    elif labels.shape[1] == 1:
        numbers = _whole_numbers(labels, LABELS)
        classes = find_classes(
            lambda start, stop: numbers[start:stop], len(numbers), names, path.name, first=1
        )
        labels, names = classes.named(numbers), classes.names
    return MultiViewData(whole, labels, label_names=names, splits=splits, name=path.stem)


@dataclass(frozen=True)
class MatRows(RowSource):
    """The rows of a Matlab file, whose formats cannot be entered by items: it is read whole."""

    options: MatOptions
    data: MultiViewData | None = None

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Read the file, unless it is in memory already."""
        whole = read_mat(self.path, self.options) if self.data is None else self.data
        yield lambda start, stop: whole.subset(slice(start, stop))

    def only(self, start: int, stop: int) -> Self:  # noqa: ARG002
        """Return this without what has been read."""
        return replace(self, data=None)


def find_mat_rows(path: Path, _: int, options: MatOptions) -> MatRows:
    """Read a file, to know its rows."""
    whole = read_mat(path, options)
    return MatRows(path, len(whole), options, whole)


def _open(path: Path, max_bytes: int | None) -> MatFile:
    return Mat73File(path, max_bytes) if is_hdf5(path) else Mat5File(path, max_bytes)


def _load_blocks(
    file: MatFile, plan: Plan, name: str, orientation: Orientation | None
) -> dict[str, _Block]:
    shapes = {
        variable: file.variables[variable].shape
        for roles in plan.parts.values()
        for variable in roles.values()
    }
    view_axis, label_axis = find_axes(plan, shapes, name, orientation)
    blocks: dict[str, _Block] = {}
    for part, roles in plan.parts.items():
        blocks[part] = {
            role: _items_first(file.load(variable), label_axis if role == LABELS else view_axis)
            for role, variable in roles.items()
        }
    return blocks


def _items_first(matrix: Matrix, axis: int) -> Matrix:
    turned = matrix if axis == 0 else matrix.T
    return sp.csr_array(turned) if is_sparse(turned) else np.ascontiguousarray(turned)


def _whole_numbers(values: Matrix, name: str) -> Array:
    numbers = np.asarray(values.toarray() if is_sparse(values) else values).ravel()
    if not np.all(np.isfinite(numbers)) or np.any(numbers != np.round(numbers)):
        raise InvalidInputError(f"the numbers in {name!r} must be whole, but some are not")
    return numbers.astype(np.int64)


def _index_splits(rows: Mapping[str, Array]) -> dict[str, Ints]:
    """Turn the row numbers of parts, counted from 1 unless one is 0, into a split."""
    first = 0 if any((numbers == 0).any() for numbers in rows.values()) else 1
    return _disjoint({part: numbers - first for part, numbers in rows.items()})


def _disjoint(rows: dict[str, Any]) -> dict[str, Ints]:
    """Name the parts train, test and, where it has further rows, database."""
    if "database" in rows:
        if "train" not in rows:
            rows["train"] = rows.pop("database")
        else:
            rest = np.setdiff1d(rows.pop("database"), rows["train"])
            if rest.size:
                rows["database"] = rest
    return rows


def _join_parts(blocks: dict[str, _Block], file: str) -> tuple[_Block, dict[str, Ints]]:
    """Put the parts under one another and say which rows came from which."""
    rows: dict[str, Any] = {}
    if "train" in blocks and "database" in blocks:
        inside = _find_rows(blocks["train"], blocks["database"], file)
        if inside is not None:
            rows["train"] = inside
            blocks = {part: block for part, block in blocks.items() if part != "train"}
    start = 0
    order = [part for part in ("train", "database", "test") if part in blocks]
    for part in order:
        n_items = next(iter(blocks[part].values())).shape[0]
        rows[part] = np.arange(start, start + n_items)
        start += n_items
    roles = blocks[order[0]]
    whole = {role: stack([blocks[part][role] for part in order]) for role in roles}
    return whole, _disjoint(rows) if len(rows) > 1 else {}


def _find_rows(part: _Block, whole: _Block, file: str) -> Ints | None:
    """Return the rows of `whole` that are those of `part`; None where it has none of them.

    The field's files often repeat the training items inside the database.
    """
    places: dict[bytes, list[int]] = {}
    for row, digest in enumerate(_row_digests(whole)):
        places.setdefault(digest, []).append(row)
    for rows in places.values():
        rows.reverse()
    found = [places[d].pop() if places.get(d) else None for d in _row_digests(part)]
    rows_found = [row for row in found if row is not None]
    if not rows_found:
        return None
    if len(rows_found) < len(found):
        raise InvalidInputError(
            f"{file}: {len(rows_found)} of the {len(found)} training items are also in the "
            "database, the others are not; name the variables to read with variables="
        )
    return np.asarray(rows_found, dtype=np.int64)


def _row_digests(block: _Block) -> list[bytes]:
    n_items = next(iter(block.values())).shape[0]
    hashes = [hashlib.blake2b(digest_size=16) for _ in range(n_items)]
    for role in sorted(block):
        matrix = block[role]
        if is_sparse(matrix):
            matrix.sum_duplicates()
        for row, running in enumerate(hashes):
            if is_sparse(matrix):
                span = slice(matrix.indptr[row], matrix.indptr[row + 1])
                running.update(matrix.indices[span].astype(np.int64).tobytes())
                running.update(matrix.data[span].astype(np.float64).tobytes())
            else:
                running.update(matrix[row].astype(np.float64).tobytes())
    return [running.digest() for running in hashes]
