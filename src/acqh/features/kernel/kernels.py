"""Kernels of pairs of rows: inner products of prepared rows, or Gaussians of their distances."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from acqh._core.arrays import Array, Floats, Ints, Matrix, is_sparse, is_tensor, slices, unit_rows
from acqh._core.device import Tensor, to_tensor
from acqh._core.imports import require
from acqh.errors import InvalidInputError
from acqh.features.simple import SignedRoot

# An array, or a tensor on any device.
Numbers: TypeAlias = Any

# In the order in which weights and widths of a fitted map are kept.
KERNELS = ("rbf", "hellinger", "cosine", "tfidf", "intersection")
# Of these, counts are compared: nothing may be below zero.
_COUNTS = ("tfidf", "intersection")
# Dense rows of no more columns are tried as histograms: minima are no products of matrices.
_HISTOGRAM = 256
# Rows of tensors that are prepared at a time, in double precision: on the left, on the right.
_LEFT_ROWS, _RIGHT_ROWS = 4096, 1024


class Columns(NamedTuple):
    """What kernels need to know of the columns of rows before they compare them."""

    idf: Any = None  # (n_features,): inverse document frequencies, for ``"tfidf"``
    # (n_features,): subtracted for ``"rbf"``. Distances stay the same, and float32 rows far from
    # zero keep their digits. None: nothing.
    origin: Any = None


@dataclass(frozen=True)
class Side:
    """Rows prepared for one kernel."""

    name: str  # of the kernel
    rows: Matrix  # (n_rows, n_features), dense or CSR
    squares: Floats  # (n_rows,): inner product of each row with itself
    columns: Any = None  # the same rows by column, where minima are summed

    def __getitem__(self, chosen: Any) -> "Side":
        rows = self.rows[chosen]
        columns = None if self.columns is None else sp.csc_array(rows)
        return Side(self.name, rows, self.squares[chosen], columns)

    def __len__(self) -> int:
        return len(self.squares)


@dataclass(frozen=True)
class TensorSide:
    """Rows of a tensor, prepared for one kernel only when a block is computed: the twin of `Side`.

    So no more than a block of them is ever held in double precision.
    """

    name: str  # of the kernel
    raw: Tensor  # (n_rows, n_features)
    idf: Tensor  # (n_features,): on the same device

    def __getitem__(self, chosen: Any) -> "TensorSide":
        return TensorSide(self.name, self.raw[chosen], self.idf)

    def __len__(self) -> int:
        return int(self.raw.shape[0])

    def prepared(self) -> tuple[Tensor, Tensor]:
        """Return rows as the kernel compares them, and the product of each with itself."""
        rows = self.raw.double()
        if self.name == "intersection":
            return rows, (rows > 0).any(dim=1).double()
        if self.name == "rbf":
            return rows, (rows * rows).sum(dim=1)
        if self.name == "hellinger":
            rows = rows.sign() * rows.abs().sqrt_()
        if self.name == "tfidf":
            rows = rows * self.idf
        return unit_rows(rows), (rows != 0).any(dim=1).double()

    def parts(self, n_rows: int) -> Iterator[tuple[slice, tuple[Tensor, Tensor]]]:
        """Yield blocks of prepared rows, with what each is of all."""
        for here in slices(len(self), n_rows):
            yield here, self[here].prepared()


def default_kernels(X: Matrix) -> tuple[str, ...]:
    """Return the kernels that are tried for rows like these where none are named."""
    if not is_sparse(X):
        is_histogram = X.shape[1] <= _HISTOGRAM and is_count(X)
        return ("rbf", "hellinger", "cosine", *(["intersection"] if is_histogram else []))
    return ("cosine", "tfidf", "intersection") if is_count(X) else ("rbf", "cosine")


def is_count(X: Matrix) -> bool:
    """Whether no number is below zero."""
    values: Any = X.data if is_sparse(X) else X
    return not values.shape[0] or bool(values.min() >= 0)


def inverse_frequencies(X: Matrix) -> Floats:
    """Return ``1 + log((1 + n) / (1 + df))`` of every column, (n_features,)."""
    n_rows, width = X.shape
    if is_sparse(X):
        found = np.bincount(X.indices[X.data != 0], minlength=width)
    elif is_tensor(X):
        found = (X != 0).sum(0).cpu().numpy()
    else:
        found = np.count_nonzero(X, axis=0)
    return np.asarray(1.0 + np.log((1.0 + n_rows) / (1.0 + found)))


def row_origin(X: Matrix) -> Floats | None:
    """Return the mean of dense rows, (n_features,); None of CSR rows and of tensors."""
    if is_sparse(X) or is_tensor(X):
        return None
    return np.asarray(X.mean(axis=0, dtype=np.float64).astype(X.dtype))


def prepare(name: str, X: Any, columns: Columns, *, by_column: bool = False) -> Any:
    """Return rows as a kernel compares them: a `Side`, or of a tensor a `TensorSide`.

    `name`: one of `KERNELS`. `X`: (n_rows, n_features), dense, CSR or tensor. `columns`: the same
    for both sides; of tensors its idf is a tensor. `by_column`: whether these rows will stand on
    the right of `products`. Raises InvalidInputError: a kernel of counts gets numbers
    below zero.
    """
    if name in _COUNTS and not is_count(X):
        raise InvalidInputError(
            f"the kernel {name!r} compares counts, but there are numbers below zero; take "
            "'rbf' or 'cosine'"
        )
    if is_tensor(X):
        return TensorSide(name, X, columns.idf)
    if name == "rbf":
        rows = X if columns.origin is None else X - columns.origin
        return Side(name, rows, row_norms(rows, squared=True))
    if name == "intersection":
        rows = sp.csr_array(X)
        if not rows.data.all():  # a row of zeros that are stored is as empty as any
            rows = rows.copy()
            rows.eliminate_zeros()
        totals = np.asarray(rows.sum(axis=1)).ravel()
        scaled = np.where(totals > 0, totals, 1.0).astype(X.dtype)
        return Side(name, rows, scaled, sp.csc_array(rows) if by_column else None)
    if name == "hellinger":
        X = SignedRoot().fit_transform(X)
    if name == "tfidf":
        weights = columns.idf.astype(X.dtype)
        X = sp.csr_array(X.multiply(weights)) if is_sparse(X) else X * weights
    rows = unit_rows(X)
    return Side(name, rows, (row_norms(rows, squared=True) > 0).astype(X.dtype))


def products(left: Any, right: Any) -> Any:
    """Return the inner products that a kernel is made of, (n_left, n_right).

    Histogram intersections are scaled so that every row has one with itself.
    """
    if isinstance(left, TensorSide):
        return _tensor_products(left.name, left.prepared()[0], right.prepared()[0])
    if left.name != "intersection":
        found: Any = left.rows @ right.rows.T
        return found.toarray() if is_sparse(found) else np.asarray(found)
    from acqh.features.kernel.compiled import add_intersections

    columns = sp.csc_array(right.rows) if right.columns is None else right.columns
    out = np.zeros((len(left), len(right)), left.rows.dtype)
    rows = left.rows
    add_intersections(
        rows.indptr, rows.indices, rows.data, columns.indptr, columns.indices, columns.data, out
    )
    out /= np.sqrt(left.squares)[:, np.newaxis]
    out /= np.sqrt(right.squares)
    return out


def _tensor_products(name: str, left: Tensor, right: Tensor) -> Tensor:
    """Return what `products` does of prepared rows in double precision."""
    if name != "intersection":
        return left @ right.T
    totals, others = left.sum(dim=1), right.sum(dim=1)
    # The smaller of two numbers is half of what their sum is above their difference.
    apart = require("torch").cdist(left, right, p=1.0)
    shared = (totals[:, None] + others - apart).mul_(0.5)
    scales = [it.masked_fill(it == 0, 1.0).sqrt() for it in (totals, others)]
    return shared.div_(scales[0][:, None]).div_(scales[1])


def self_products(side: Any) -> Any:
    """Return what `products` has of every row with itself, (n_rows,)."""
    if isinstance(side, TensorSide):
        return side.prepared()[1]
    if side.name != "intersection":
        return side.squares
    return np.asarray(np.diff(side.rows.indptr) > 0, dtype=side.rows.dtype)


def bend_products(block: Any, left: Any, right: Any, width: float) -> Any:
    """Turn products into Gaussians of distances, in place; as they are for an infinite width.

    `block`: (n_left, n_right), array or tensor. `left`: (n_left,); product of each row on the left
    with itself. `right`: (n_right,).
    """
    if not np.isfinite(width):
        return block
    block *= 2.0
    block -= left[:, None]
    block -= right
    block /= width
    # Rounding may leave a distance to itself below zero.
    if is_tensor(block):
        return block.clamp_(max=0.0).exp_()
    np.minimum(block, 0.0, out=block)
    return np.exp(block, out=block)


def kernel_block(left: Any, right: Any, width: float) -> Any:
    """Return a kernel: ``exp(-distance^2 / width)``, or inner products for an infinite width.

    `left`, `right`: Side, or both TensorSide. Gives (n_left, n_right); of tensors in double
    precision.
    """
    if isinstance(left, TensorSide):
        return _tensor_block(left, right, width)
    return bend_products(products(left, right), self_products(left), self_products(right), width)


def _tensor_block(left: TensorSide, right: TensorSide, width: float) -> Tensor:
    """Return a block of kernels of tensors, some columns at a time."""
    found = left.idf.new_empty((len(left), len(right)))
    for here, (own, squares) in left.parts(_LEFT_ROWS):
        for there, (others, their) in right.parts(_RIGHT_ROWS):
            block = _tensor_products(left.name, own, others)
            found[here, there] = bend_products(block, squares, their, width)
    return found


def mean_squared_distance(side: Any) -> float:
    """Return the mean squared distance of all pairs of rows, one where there is none."""
    mean = 2.0 * float(self_products(side).mean() - products(side, side).mean())
    return mean if mean > 0 else 1.0


def on_host(values: Numbers) -> Any:
    """Return numbers as an array."""
    return values.cpu().numpy() if is_tensor(values) else values


def beside(values: Array, like: Numbers) -> Numbers:
    """Bring an array to where others lie."""
    return to_tensor(values, like.device) if is_tensor(like) else values


def widen(values: Numbers) -> Numbers:
    """Return numbers in double precision, without a copy where they are."""
    return values.double() if is_tensor(values) else values.astype(np.float64, copy=False)


def rows_at(values: Numbers, chosen: Ints) -> Numbers:
    """Return some rows."""
    return values[beside(chosen, values)]
