"""Checks of what a quantizer is fitted with."""

from typing import Any

import numpy as np

from acqh._core.arrays import Floats, first_bad_row
from acqh.errors import InvalidInputError


def check_queries(queries: Any, n_components: int) -> Floats:
    """Return queries as float64, or raise InvalidInputError."""
    checked: Floats = np.asarray(queries)
    if checked.dtype.kind not in "buif" or checked.ndim != 2 or len(checked) == 0:
        raise InvalidInputError(
            f"queries must be a matrix of numbers with some rows, got {checked.dtype} of shape "
            f"{checked.shape}"
        )
    if checked.shape[1] != n_components:
        raise InvalidInputError(
            f"queries have {checked.shape[1]} components, items {n_components}; both must come "
            "from one space"
        )
    row = first_bad_row(checked)
    if row is not None:
        raise InvalidInputError(f"queries have a NaN or infinite value in row {row}; remove it")
    return checked.astype(np.float64)


def check_weights(weights: Any, n_items: int) -> Floats:
    """Return weights as float64, ones if there are none, or raise InvalidInputError."""
    if weights is None:
        return np.ones(n_items)
    checked: Floats = np.asarray(weights, dtype=np.float64)
    if checked.shape != (n_items,):
        raise InvalidInputError(
            f"sample_weight has shape {checked.shape}; give one weight for each of {n_items} rows"
        )
    if not np.isfinite(checked).all() or checked.min() < 0:
        raise InvalidInputError("sample_weight has a negative, NaN or infinite value")
    if not checked.any():
        raise InvalidInputError("sample_weight is zero for every row; some must be positive")
    return checked
