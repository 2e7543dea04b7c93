"""Checks of what a quantizer is fitted with."""

from typing import Any

import numpy as np

from acqh._core.arrays import Floats, as_rows, first_bad_row
from acqh._core.device import is_tensor
from acqh.errors import InvalidInputError


def check_queries(queries: Any, n_components: int) -> Floats:
    """Return queries as float64, or raise InvalidInputError."""
    checked: Floats = as_rows(queries, "queries", InvalidInputError)
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
    checked: Floats = as_rows(weights, "sample_weight", InvalidInputError).astype(np.float64)
    if checked.shape != (n_items,):
        raise InvalidInputError(
            f"sample_weight has shape {checked.shape}; give one weight for each of {n_items} rows"
        )
    if not np.isfinite(checked).all() or checked.min() < 0:
        raise InvalidInputError("sample_weight has a negative, NaN or infinite value")
    if not checked.any():
        raise InvalidInputError("sample_weight is zero for every row; some must be positive")
    return checked


def check_codes(codes: Any, codebooks: Floats, n_items: int | None = None) -> Any:
    """Return codes as uint8, a tensor as it is, or raise InvalidInputError.

    `n_items`: how many there must be.
    """
    if not is_tensor(codes):
        codes = as_rows(codes, "codes", InvalidInputError)
    n_codebooks, n_words, _ = codebooks.shape
    rows = codes.shape[:1] if n_items is None else (n_items,)
    kind = str(codes.dtype).removeprefix("torch.")
    if codes.shape != (*rows, n_codebooks) or not kind.startswith(("int", "uint")):
        raise InvalidInputError(
            f"codes must be whole numbers of shape {(*rows, n_codebooks)}, "
            f"got {kind} of shape {tuple(codes.shape)}"
        )
    if len(codes) and not 0 <= codes.min() <= codes.max() < n_words:
        raise InvalidInputError(
            f"codes must lie from 0 to {n_words - 1}, got {int(codes.min())} to {int(codes.max())}"
        )
    return codes if is_tensor(codes) else np.asarray(codes, dtype=np.uint8)
