"""Kernels of pairs of rows: inner products of prepared rows, or Gaussians of their distances."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms

from acqh._core.arrays import Array, Floats, Matrix, is_sparse
from acqh.errors import InvalidInputError
from acqh.features._kernels import add_intersections
from acqh.features._linear import SignedRoot

# In the order in which weights and widths of a fitted map are kept.
KERNELS = ("rbf", "hellinger", "cosine", "tfidf", "intersection")
# Of these, counts are compared: nothing may be below zero.
_COUNTS = ("tfidf", "intersection")


@dataclass(frozen=True)
class Side:
    """Rows prepared for one kernel.

    Attributes
    ----------
    name : str
        Of the kernel.
    rows : (n_rows, n_features), dense or CSR
    squares : (n_rows,)
        Inner product of each row with itself.
    columns : CSC or None
        The same rows by column, where minima are summed.
    """

    name: str
    rows: Matrix
    squares: Floats
    columns: Any = None

    def __getitem__(self, chosen: Any) -> "Side":
        rows = self.rows[chosen]
        columns = None if self.columns is None else sp.csc_array(rows)
        return Side(self.name, rows, self.squares[chosen], columns)

    def __len__(self) -> int:
        return len(self.squares)


def default_kernels(X: Matrix) -> tuple[str, ...]:
    """Return the kernels that are tried for rows like these where none are named."""
    if not is_sparse(X):
        return ("rbf", "hellinger", "cosine")
    return ("cosine", "tfidf", "intersection") if is_count(X) else ("rbf", "cosine")


def is_count(X: Matrix) -> bool:
    """Whether no number is below zero."""
    values = X.data if is_sparse(X) else X
    return not values.size or bool(values.min() >= 0)


def inverse_frequencies(X: Matrix) -> Floats:
    """Return ``1 + log((1 + n) / (1 + df))`` of every column, (n_features,)."""
    n_rows, width = X.shape
    if is_sparse(X):
        found = np.bincount(X.indices[X.data != 0], minlength=width)
    else:
        found = np.count_nonzero(X, axis=0)
    return np.asarray(1.0 + np.log((1.0 + n_rows) / (1.0 + found)))


def prepare(name: str, X: Matrix, idf: Floats, *, by_column: bool = False) -> Side:
    """Return rows as a kernel compares them.

    Parameters
    ----------
    name : str
        One of `KERNELS`.
    X : (n_rows, n_features), dense or CSR
    idf : (n_features,)
        Weights of columns, for ``"tfidf"``.
    by_column : bool
        Whether these rows will stand on the right of `products`.

    Raises
    ------
    InvalidInputError
        A kernel of counts gets numbers below zero.
    """
    if name in _COUNTS and not is_count(X):
        raise InvalidInputError(
            f"the kernel {name!r} compares counts, but there are numbers below zero; take "
            "'rbf' or 'cosine'"
        )
    if name == "rbf":
        return Side(name, X, row_norms(X, squared=True))
    if name == "intersection":
        rows = sp.csr_array(X)
        totals = np.asarray(rows.sum(axis=1)).ravel()
        scaled = np.where(totals > 0, totals, 1.0).astype(X.dtype)
        return Side(name, rows, scaled, sp.csc_array(rows) if by_column else None)
    if name == "hellinger":
        X = SignedRoot().fit_transform(X)
    if name == "tfidf":
        weights = idf.astype(X.dtype)
        X = sp.csr_array(X.multiply(weights)) if is_sparse(X) else X * weights
    rows = normalize(X)
    return Side(name, rows, (row_norms(rows, squared=True) > 0).astype(X.dtype))


def products(left: Side, right: Side) -> Array:
    """Return the inner products that a kernel is made of, (n_left, n_right).

    Histogram intersections are scaled so that every row has one with itself.
    """
    if left.name != "intersection":
        found: Any = left.rows @ right.rows.T
        return found.toarray() if is_sparse(found) else np.asarray(found)
    columns = sp.csc_array(right.rows) if right.columns is None else right.columns
    out = np.zeros((len(left), len(right)), left.rows.dtype)
    rows = left.rows
    add_intersections(
        rows.indptr, rows.indices, rows.data, columns.indptr, columns.indices, columns.data, out
    )
    out /= np.sqrt(left.squares)[:, np.newaxis]
    out /= np.sqrt(right.squares)
    return out


def self_products(side: Side) -> Floats:
    """Return what `products` has of every row with itself, (n_rows,)."""
    if side.name != "intersection":
        return side.squares
    return np.asarray(np.diff(side.rows.indptr) > 0, dtype=side.rows.dtype)


def kernel_block(left: Side, right: Side, width: float) -> Array:
    """Return a kernel: ``exp(-distance^2 / width)``, or inner products for an infinite width.

    Parameters
    ----------
    left, right : Side
    width : float

    Returns
    -------
    (n_left, n_right)
    """
    block = products(left, right)
    if not np.isfinite(width):
        return block
    block *= 2.0
    block -= self_products(left)[:, np.newaxis]
    block -= self_products(right)
    block /= width
    np.minimum(block, 0.0, out=block)  # rounding may leave a distance to itself below zero
    return np.exp(block, out=block)


def mean_squared_distance(side: Side) -> float:
    """Return the mean squared distance of all pairs of rows, one where there is none."""
    mean = 2.0 * float(np.mean(self_products(side)) - np.mean(products(side, side)))
    return mean if mean > 0 else 1.0
