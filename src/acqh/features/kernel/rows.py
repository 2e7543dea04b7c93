"""Rows prepared for a choice of kernels, and stored in as few bytes as they need."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.device import is_tensor
from acqh.errors import InvalidInputError
from acqh.features.kernel.arithmetic import Arithmetic, Numbers, arithmetic_of
from acqh.features.kernel.choice import Choice
from acqh.features.kernel.kernels import KERNELS, prepare

# Half precision serves where it moves no kernel with an anchor by more than this.
_HALF_ERROR = 1e-3

# Of arrays Side, of tensors TensorSide.
Sides: TypeAlias = Mapping[str, Any]


def prepare_sides(
    X: Matrix, choice: Choice, idf: Floats, *, by_column: bool = False
) -> dict[str, Any]:
    """Prepare rows for the kernels that are used."""
    used = [name for name, weight in zip(KERNELS, choice.weights, strict=True) if weight]
    return {name: prepare(name, X, idf, by_column=by_column) for name in used}


def between(choice: Choice, left: Sides, right: Sides) -> Callable[[slice, slice], Numbers]:
    """Return what gives the kernel of two slices of rows."""

    def block(rows: slice, columns: slice) -> Numbers:
        return choice.block(
            {name: side[rows] for name, side in left.items()},
            {name: side[columns] for name, side in right.items()},
        )

    return block


def halved(anchors: Matrix, choice: Choice, idf: Floats) -> Matrix:
    """Return anchors in half precision where that moves no kernel of some of them by much.

    Of sparse rows, which SciPy does not have in half precision, in single precision.
    """
    arithmetic = arithmetic_of(anchors)
    half: Any = anchors.astype(np.float32) if is_sparse(anchors) else arithmetic.half(anchors)
    back = arithmetic.like(half, anchors)
    if not arithmetic.is_finite(back.data if is_sparse(back) else back):
        return anchors
    some = slice(None, None, max(1, anchors.shape[0] // 256))
    exact = prepare_sides(anchors[some], choice, idf)
    moved = choice.block(exact, prepare_sides(back[some], choice, idf)) - choice.block(exact, exact)
    return half if not moved.shape[0] or float(abs(moved).max()) <= _HALF_ERROR else anchors


def widened(anchors: Matrix) -> Matrix:
    """Return half precision, in which nothing is computed, as single; tensors as they are."""
    if is_tensor(anchors):
        return anchors
    return anchors.astype(np.float32) if anchors.dtype == np.float16 else anchors


def check_targets(targets: Any, n_rows: int, arithmetic: Arithmetic) -> Numbers:
    """Return targets in double precision, where the rows lie.

    Raises InvalidInputError: they do not fit the rows, or are not finite.
    """
    if not is_tensor(targets):
        targets = np.asarray(targets, dtype=np.float64)
    found = arithmetic.widen(arithmetic.here(targets))
    if found.ndim != 2 or found.shape[0] != n_rows or not found.shape[1]:
        raise InvalidInputError(
            f"targets must be a matrix of {n_rows} rows, one per row of X, got shape "
            f"{tuple(found.shape)}"
        )
    if not arithmetic.is_finite(found):
        raise InvalidInputError("targets have a NaN or infinite value; leave such rows out")
    return found
