"""Names and stored classes of before: what stands in for them now."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import Normalizer, StandardScaler

from acqh._core.arrays import Array
from acqh._core.imports import warn_of_former
from acqh.encoders.tfidf import tfidf_encoder, word_vectorizer
from acqh.features.scikit import params_to_json

# Former name -> what makes its successor, and what to write instead.
_SUCCESSORS: dict[str, tuple[Any, str]] = {
    "Center": (
        partial(StandardScaler, with_std=False),
        "scikit-learn's StandardScaler(with_std=False)",
    ),
    "Standardize": (StandardScaler, "scikit-learn's StandardScaler"),
    "Tfidf": (TfidfTransformer, "scikit-learn's TfidfTransformer"),
    "TfidfText": (partial(tfidf_encoder, None), "acqh.encoders.word_vectorizer"),
    "UnitNorm": (Normalizer, "scikit-learn's Normalizer"),
}


def former_name(name: str) -> Any:
    """Return what stands in for a former public name, with a warning; else AttributeError."""
    if name not in _SUCCESSORS:
        raise AttributeError(f"module 'acqh.features' has no attribute {name!r}")
    successor, written = _SUCCESSORS[name]
    warn_of_former(f"acqh.features.{name}", written, stacklevel=5)
    return successor


def is_former(name: Any) -> bool:
    """Whether stored state of before names this class."""
    return name in _SUCCESSORS


def from_former(
    description: Mapping[str, Any], arrays: Mapping[str, Array] | None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the description and arrays that stand in for those of a former class."""
    name, params, state = description["class"], dict(description["params"]), dict(arrays or {})
    if name == "TfidfText":
        return _former_text(params, state)
    if name == "Center":
        params = {"with_std": False}
        state["n_samples_seen"] = np.array([0])
    if name == "Standardize":
        state["n_samples_seen"] = np.array([0])
        state["var"] = np.square(state["scale"]) if "scale" in state else np.empty(0)
    successor = {"Tfidf": "TfidfTransformer", "UnitNorm": "Normalizer"}.get(name, "StandardScaler")
    return {"class": successor, "params": params}, state


def _former_text(
    params: dict[str, Any], state: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Words and weights of ``TfidfText``, with its components as the second step of a pipeline."""
    vectorizer = word_vectorizer(min_df=params["min_texts"])
    words = params_to_json("TfidfVectorizer", vectorizer.get_params(deep=False))
    described = {"class": "TfidfVectorizer", "params": words}
    weights = {
        name: state.pop(former)
        for name, former in (("vocabulary", "vocabulary"), ("idf", "tfidf.idf"))
        if former in state
    }
    state.pop("tfidf.n_features_in", None)
    if params["n_components"] is None:
        return described, {**weights, **state}
    params = {name: params[name] for name in ("n_components", "random_state")}
    steps = [["words", described], ["svd", {"class": "TagSVD", "params": params}]]
    arrays = {f"0/{name}": value for name, value in weights.items()}
    arrays.update({f"1/{name.removeprefix('svd.')}": value for name, value in state.items()})
    return {"class": "Pipeline", "steps": steps}, arrays
