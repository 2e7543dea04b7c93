"""Fitted quantizers as values for JSON and named arrays, from which they can be made again."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from acqh._core.arrays import Array
from acqh._core.validation import check_parameters
from acqh.errors import CorruptBundleError, InvalidInputError

# Constructor's arguments that are kept; how random numbers were drawn is not.
_PARAMETERS = (
    "n_codebooks",
    "codebook_size",
    "search",
    "beam_width",
    "max_iter",
    "tol",
    "shrinkage",
    "ridge",
)
_Quantizer = TypeVar("_Quantizer")


def fitted_state(quantizer: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what a fitted `AdditiveQuantizer` is made of, without its training codes."""
    info = {
        "parameters": {name: _plain(getattr(quantizer, name)) for name in _PARAMETERS},
        "shrinkage": float(quantizer.shrinkage_),
        "ridge": str(float(quantizer.ridge_)),  # as a text, since JSON has no infinity
        "recalls": [[float(each), float(of)] for each, of in quantizer.shrinkage_recalls_.items()],
    }
    arrays = {"codebooks": quantizer.codebooks_, "history": quantizer.history_}
    if quantizer._forward is not None:
        arrays["forward"] = quantizer._forward
    return info, arrays


def fitted_from_state(
    cls: type[_Quantizer], info: Mapping[str, Any], arrays: Mapping[str, Array]
) -> _Quantizer:
    """Make a fitted `AdditiveQuantizer` again; raise CorruptBundleError."""
    try:
        quantizer: Any = cls(**info["parameters"])
        check_parameters(quantizer, quantizer._parameter_constraints)
        shrinkage, recalls = float(info["shrinkage"]), dict(info["recalls"])
        ridge = float(info.get("ridge", "nan"))  # it was not stored once
        codebooks, history = (_floats(arrays[name]) for name in ("codebooks", "history"))
        forward = _floats(arrays["forward"]) if "forward" in arrays else None
    except (KeyError, TypeError, ValueError, InvalidInputError) as error:
        raise CorruptBundleError(f"what is stored is not a quantizer: {error}") from error
    if (
        codebooks.ndim != 3
        or codebooks.shape[:2] != (quantizer.n_codebooks, quantizer.codebook_size)
        or history.ndim != 1
        or (forward is not None and (forward.ndim != 2 or len(forward) != codebooks.shape[2]))
    ):
        raise CorruptBundleError("the arrays of a stored quantizer contradict its parameters")
    quantizer.codebooks_ = codebooks
    quantizer.history_ = history
    quantizer.n_iter_ = len(history)
    quantizer.n_features_in_ = codebooks.shape[2]
    quantizer._forward = forward
    quantizer.metric_ = None if forward is None else forward @ forward.T
    quantizer.shrinkage_ = shrinkage
    quantizer.ridge_ = ridge
    quantizer.shrinkage_recalls_ = recalls
    return quantizer  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _floats(array: Array) -> Array:
    if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
        raise ValueError("an array is not of finite numbers")
    return np.array(array)
