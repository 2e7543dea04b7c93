"""Rows prepared for a choice of kernels, and stored in as few bytes as they need."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix, is_sparse
from acqh.features._kernel_choice import Choice
from acqh.features._kernel_functions import KERNELS, Side, prepare

# Half precision serves where it moves no kernel with an anchor by more than this.
_HALF_ERROR = 1e-3

Sides: TypeAlias = Mapping[str, Side]


def prepare_sides(
    X: Matrix, choice: Choice, idf: Floats, *, by_column: bool = False
) -> dict[str, Side]:
    """Prepare rows for the kernels that are used."""
    used = [name for name, weight in zip(KERNELS, choice.weights, strict=True) if weight]
    return {name: prepare(name, X, idf, by_column=by_column) for name in used}


def between(choice: Choice, left: Sides, right: Sides) -> Callable[[slice, slice], Array]:
    """Return what gives the kernel of two slices of rows."""

    def block(rows: slice, columns: slice) -> Array:
        return choice.block(
            {name: side[rows] for name, side in left.items()},
            {name: side[columns] for name, side in right.items()},
        )

    return block


def halved(anchors: Matrix, choice: Choice, idf: Floats) -> Matrix:
    """Return anchors in half precision where that moves no kernel of some of them by much.

    Of sparse rows, which SciPy does not have in half precision, in single precision.
    """
    with np.errstate(over="ignore"):
        half = anchors.astype(np.float32 if is_sparse(anchors) else np.float16)
    back = half.astype(anchors.dtype)
    if not np.all(np.isfinite(back.data if is_sparse(back) else back)):
        return anchors
    some = slice(None, None, max(1, anchors.shape[0] // 256))
    exact = prepare_sides(anchors[some], choice, idf)
    moved = choice.block(exact, prepare_sides(back[some], choice, idf)) - choice.block(exact, exact)
    return half if np.max(np.abs(moved), initial=0.0) <= _HALF_ERROR else anchors


def widened(anchors: Matrix) -> Matrix:
    """Return half precision, in which nothing is computed, as single."""
    return anchors.astype(np.float32) if anchors.dtype == np.float16 else anchors
