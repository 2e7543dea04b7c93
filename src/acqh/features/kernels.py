"""Kernels of pairs of rows: inner products of prepared rows, or Gaussians of their distances.

Rows are arrays, CSR or, for queries on a device, tensors.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.utils.extmath import row_norms

from acqh._core.arrays import Floats, Matrix, is_sparse, is_tensor, unit_rows
from acqh._core.device import to_tensor
from acqh._core.imports import require
from acqh.errors import InvalidInputError
from acqh.features.simple import signed_root

# In the order in which weights and widths of a fitted map are kept.
KERNELS = ("rbf", "hellinger", "cosine", "tfidf", "intersection")
# These compare counts: no value may be negative.
_COUNTS = ("tfidf", "intersection")
# Dense rows of at most this many columns may be histograms: sums of minima are slow.
_HISTOGRAM = 256
# Pairs of sparse counts in memory at a time: 100 MB.
_MAX_PAIRS = 1 << 22


class Columns(NamedTuple):
    """Statistics of the columns that kernels need."""

    idf: Any = None  # (n_features,): inverse document frequencies, for ``"tfidf"``
    # (n_features,): subtracted for ``"rbf"``. Distances stay the same, and float32 rows far from
    # zero keep their digits. None: nothing.
    origin: Any = None


@dataclass(frozen=True)
class PreparedRows:
    """Rows in the form that one kernel compares."""

    name: str  # of the kernel
    rows: Matrix  # (n_rows, n_features)
    # (n_rows,): inner product of each row with itself; for ``"intersection"`` the sum of its counts
    squares: Any

    def __getitem__(self, chosen: Any) -> "PreparedRows":
        return PreparedRows(self.name, self.rows[chosen], self.squares[chosen])

    def __len__(self) -> int:
        return len(self.squares)

    @cached_property
    def columns(self) -> Any:
        """The rows as CSC."""
        return sp.csc_array(self.rows)

    def to(self, device: Any) -> "PreparedRows":
        """Return the rows as tensors on a device."""
        rows = self.rows.toarray() if is_sparse(self.rows) else self.rows
        return PreparedRows(self.name, to_tensor(rows, device), to_tensor(self.squares, device))


def default_kernels(X: Matrix) -> tuple[str, ...]:
    """Return the candidate kernels of ``kernels="auto"`` for these rows."""
    if not is_sparse(X):
        is_histogram = X.shape[1] <= _HISTOGRAM and is_count(X)
        return ("rbf", "hellinger", "cosine", *(["intersection"] if is_histogram else []))
    return ("cosine", "tfidf", "intersection") if is_count(X) else ("rbf", "cosine")


def is_count(X: Matrix) -> bool:
    """Whether no value is negative."""
    values: Any = X.data if is_sparse(X) else X
    return not values.shape[0] or bool(values.min() >= 0)


def measure_columns(X: Matrix) -> Columns:
    """Return ``1 + log((1 + n) / (1 + df))`` of every column, and the mean of dense rows."""
    n_rows, width = X.shape
    if is_sparse(X):
        counts, origin = np.bincount(X.indices[X.data != 0], minlength=width), None
    else:
        counts, origin = np.count_nonzero(X, axis=0), row_origin(X)
    return Columns(np.asarray(1.0 + np.log((1.0 + n_rows) / (1.0 + counts))), origin)


def row_origin(X: Matrix) -> Floats | None:
    """Return the mean of dense rows, (n_features,); None for CSR."""
    return None if is_sparse(X) else X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def prepare(name: str, X: Any, columns: Columns) -> PreparedRows:
    """Return rows in the form that a kernel compares.

    `name`: one of `KERNELS`. `X`: (n_rows, n_features), dense, CSR or tensor. `columns`: the same
    for both sides; of tensors, tensors. Raises InvalidInputError: a kernel of counts gets negative
    values.
    """
    if name in _COUNTS and not is_count(X):
        raise InvalidInputError(
            f"the kernel {name!r} requires counts, but there are negative values; use 'rbf' or "
            "'cosine'"
        )
    if name == "rbf":
        rows = X if columns.origin is None else X - columns.origin
        return PreparedRows(name, rows, _squared_norms(rows))
    if name == "intersection":
        return PreparedRows(
            name, X, np.asarray(X.sum(axis=1)).ravel() if is_sparse(X) else X.sum(1)
        )
    if name == "hellinger":
        X = signed_root(X)
    if name == "tfidf" and is_sparse(X):
        X = sp.csr_array(X.multiply(columns.idf.astype(X.dtype)))
    elif name == "tfidf":
        X = X * (columns.idf if is_tensor(X) else columns.idf.astype(X.dtype))
    rows = unit_rows(X)
    return PreparedRows(name, rows, _ones_above_zero(_squared_norms(rows)))


def _squared_norms(rows: Any) -> Any:
    return (rows * rows).sum(1) if is_tensor(rows) else row_norms(rows, squared=True)


def _ones_above_zero(values: Any) -> Any:
    return (values > 0).to(values.dtype) if is_tensor(values) else (values > 0).astype(values.dtype)


def products(left: PreparedRows, right: PreparedRows) -> Any:
    """Return the inner products of a kernel, (n_left, n_right).

    Histogram intersections are normalized to 1 for a row with itself.
    """
    if left.name != "intersection":
        block: Any = left.rows @ right.rows.T
        return block.toarray() if is_sparse(block) else block
    if is_sparse(left.rows) or is_sparse(right.rows):
        rows, columns = sp.csr_array(left.rows), right.columns
        if (rows.data == 1).all() and (columns.data == 1).all():  # tags
            shared = (rows @ columns.T).toarray()
        else:
            shared = _sum_minima(rows, columns)
    else:
        # min(x, z) = (x + z - |x - z|) / 2
        totals = left.squares[:, None] + right.squares
        if is_tensor(left.rows):
            shared = (totals - require("torch").cdist(left.rows, right.rows, p=1.0)) / 2
        else:
            apart = cdist(left.rows, right.rows, "cityblock")
            shared = ((totals - apart) / 2).astype(left.rows.dtype)
    scales = [(side.squares + (side.squares == 0)) ** 0.5 for side in (left, right)]
    shared /= scales[0][:, None]
    shared /= scales[1]
    return shared


def _sum_minima(left: Any, columns: Any) -> Floats:
    """Return ``sum_j min(x_ij, z_aj)``, (n_left, n_right), of counts in CSR and in CSC."""
    n_pairs = np.diff(columns.indptr)[left.indices]  # of each value on the left
    ends = np.cumsum(n_pairs)
    shape = left.shape[0], columns.shape[0]
    sums = np.zeros(shape, left.dtype)
    places = np.repeat(np.arange(shape[0]) * shape[1], np.diff(left.indptr))
    first = 0
    while first < len(ends):
        before = ends[first] - n_pairs[first]
        last = max(int(np.searchsorted(ends, before + _MAX_PAIRS)), first + 1)
        chunk, counts = slice(first, last), n_pairs[first:last]
        starts = columns.indptr[left.indices[chunk]] - (ends[chunk] - counts - before)
        entries = np.arange(counts.sum()) + np.repeat(starts, counts)
        minima = np.minimum(np.repeat(left.data[chunk], counts), columns.data[entries])
        np.add.at(sums.ravel(), np.repeat(places[chunk], counts) + columns.indices[entries], minima)
        first = last
    return sums


def self_products(side: PreparedRows) -> Any:
    """Return the inner product of every row with itself, (n_rows,)."""
    return _ones_above_zero(side.squares) if side.name == "intersection" else side.squares


def gaussian(block: Any, left: Any, right: Any, width: float) -> Any:
    """Convert inner products to Gaussians of distances, in place; unchanged for infinite width.

    `block`: (n_left, n_right), array or tensor. `left`: (n_left,); product of each row on the left
    with itself. `right`: (n_right,).
    """
    if not np.isfinite(width):
        return block
    block *= 2.0
    block -= left[:, None]
    block -= right
    block /= width
    # Squared distances may be negative by rounding.
    if is_tensor(block):
        return block.clamp_(max=0.0).exp_()
    np.minimum(block, 0.0, out=block)
    return np.exp(block, out=block)


def kernel_block(left: PreparedRows, right: PreparedRows, width: float) -> Any:
    """Return ``exp(-distance^2 / width)``, or inner products for an infinite width."""
    return gaussian(products(left, right), self_products(left), self_products(right), width)


def mean_squared_distance(side: PreparedRows) -> float:
    """Return the mean squared distance of all pairs of rows; 1 if it is zero."""
    mean = 2.0 * float(self_products(side).mean() - products(side, side).mean())
    return mean if mean > 0 else 1.0
