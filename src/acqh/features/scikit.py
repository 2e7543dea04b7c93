"""scikit-learn's own transformers as JSON values and named arrays: which, and what of them.

Only the classes and functions named here can be stored, and a stored file can name nothing else:
what is read is a table of numbers and a few words, never a program.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.encoders.words import fold_text
from acqh.errors import InvalidInputError
from acqh.features.state import WIDTH, Axes, UnfittedMapError, arrays_of, take_arrays

_ROW, _COLUMN, _MATRIX = ("n_components",), ("n_features",), ("n_components", "n_features")
# Beside the width, which all but vectorizers of texts and some functions have.
_FITTED: dict[Any, Axes] = {
    FunctionTransformer: {},
    Normalizer: {},
    Nystroem: {
        "components_": _MATRIX,
        "component_indices_": _ROW,
        "normalization_": ("n_components", "n_components"),
    },
    PCA: {
        "components_": _MATRIX,
        "mean_": _COLUMN,
        "explained_variance_": _ROW,
        "explained_variance_ratio_": _ROW,
        "singular_values_": _ROW,
        "noise_variance_": (),
        "n_components_": (),
        "n_samples_": (),
    },
    StandardScaler: {
        "n_samples_seen_": (),
        "mean_": _COLUMN,
        "var_": _COLUMN,
        "scale_": _COLUMN,
    },
    TfidfTransformer: {"idf_": _COLUMN},
    TfidfVectorizer: {"idf_": _COLUMN},
    TruncatedSVD: {
        "components_": _MATRIX,
        "explained_variance_": _ROW,
        "explained_variance_ratio_": _ROW,
        "singular_values_": _ROW,
    },
}
# What is learnt, and by which parameter it is needed.
_WANTED_BY = {"idf_": "use_idf", "mean_": "with_mean", "scale_": "with_std", "var_": "with_std"}
SCIKIT_CLASSES = {kind.__name__: kind for kind in (*_FITTED, ColumnTransformer)}
_UFUNCS = (
    "abs",
    "arcsinh",
    "cbrt",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sign",
    "sqrt",
    "square",
    "tanh",
)
_FUNCTIONS: dict[str, Any] = {f"numpy.{name}": getattr(np, name) for name in _UFUNCS}
_FUNCTIONS["acqh.features.fold_text"] = fold_text
_DTYPES: dict[str, Any] = {"float32": np.float32, "float64": np.float64}
# Parameters that are of no use to what is fitted, or that would let a stored map reach for files
# and processes.
_LEFT_OUT = frozenset({"memory", "n_jobs", "verbose"})


def params_to_json(kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return constructor arguments as JSON values; raise InvalidInputError where one is none."""
    left_out = _LEFT_OUT if kind in SCIKIT_CLASSES else frozenset()
    return {name: _as_json(value, name) for name, value in params.items() if name not in left_out}


def params_from_json(kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments that `params_to_json` wrote."""
    made = {name: _from_json(value) for name, value in params.items()}
    if kind not in SCIKIT_CLASSES:
        return made
    if refused := sorted(_LEFT_OUT & set(made)):
        raise InvalidInputError(f"a stored feature map cannot set {', '.join(refused)}")
    if made.get("input", "content") != "content":
        raise InvalidInputError(f"a stored feature map cannot set input to {made['input']!r}")
    if "ngram_range" in made:
        made["ngram_range"] = tuple(made["ngram_range"])
    return made


def scikit_arrays(transformer: Any) -> dict[str, Array]:
    """Return what a transformer of `SCIKIT_CLASSES` has learnt, as named arrays."""
    kind = type(transformer)
    if kind is TfidfVectorizer and not hasattr(transformer, "vocabulary_"):
        raise UnfittedMapError("this TfidfVectorizer is not fitted; call fit with texts first")
    state = arrays_of(transformer, _FITTED[kind], _optional(transformer))
    if kind is TfidfVectorizer:
        columns = transformer.vocabulary_
        state["vocabulary"] = _write_words(sorted(columns, key=columns.__getitem__))
    return {**state, **_column_names(transformer)}


def take_scikit_arrays(transformer: Any, arrays: Mapping[str, Array]) -> Any:
    """Make a transformer of `SCIKIT_CLASSES` fitted with what `scikit_arrays` gave."""
    kind, arrays = type(transformer), dict(arrays)
    _check_params(transformer)
    if kind is TfidfVectorizer:
        words = _read_words(arrays.pop("vocabulary", None))
        transformer.vocabulary_ = {word: column for column, word in enumerate(words)}
        transformer.fixed_vocabulary_ = False
        weights = TfidfTransformer(
            norm=transformer.norm,
            use_idf=transformer.use_idf,
            sublinear_tf=transformer.sublinear_tf,
        )
        arrays["n_features_in"] = np.array([len(words)])
        transformer._tfidf = take_scikit_arrays(weights, arrays)
        return transformer
    names = arrays.pop("feature_names_in", None)
    take_arrays(transformer, _FITTED[kind], arrays, _optional(transformer))
    if names is not None:
        transformer.feature_names_in_ = np.array(_read_words(names), dtype=object)
    if kind is Nystroem:
        transformer._n_features_out = transformer.components_.shape[0]
    if kind is StandardScaler:
        for attribute in ("mean_", "var_", "scale_"):
            setattr(transformer, attribute, getattr(transformer, attribute, None))
    return transformer


def _check_params(transformer: Any) -> None:
    """Find parameters that scikit-learn would refuse only when it fits, or uses them."""
    try:
        transformer._validate_params()
        if isinstance(transformer, TfidfVectorizer):
            transformer.build_analyzer()
    except (ValueError, TypeError, re.error) as error:
        raise InvalidInputError(
            f"a stored {type(transformer).__name__} has parameters that it cannot have: {error}"
        ) from error


def _optional(transformer: Any) -> frozenset[str]:
    """Which attributes of a fitted transformer its parameters let be absent."""
    without_width = isinstance(transformer, FunctionTransformer | TfidfVectorizer)
    return frozenset({WIDTH} if without_width else ()) | {
        attribute
        for attribute, parameter in _WANTED_BY.items()
        if not getattr(transformer, parameter, True)
    }


class _Stub(TransformerMixin, BaseEstimator):
    """Stands for a fitted transformer while scikit-learn lays out the columns around it."""

    def __init__(self, width: int = 0) -> None:
        self.width = width

    def fit(self, X: Any, y: Any = None) -> "_Stub":  # noqa: ARG002
        return self

    def transform(self, X: Any) -> Array:
        return np.zeros((len(X), self.width))


def column_arrays(transformer: ColumnTransformer) -> dict[str, Array]:
    """Return what a fitted ``ColumnTransformer`` knows beside its parts."""
    if not hasattr(transformer, "transformers_"):
        raise UnfittedMapError("this ColumnTransformer is not fitted; call fit first")
    slices = [transformer.output_indices_[name] for name, _, _ in transformer.transformers]
    state = {
        "n_features_in": np.array([transformer.n_features_in_]),
        "widths": np.array([part.stop - part.start for part in slices], dtype=np.int64),
        "sparse": np.array([transformer.sparse_output_]),
    }
    return {**state, **_column_names(transformer)}


def fitted_columns(
    unfitted: ColumnTransformer, parts: list[Any], arrays: dict[str, Array]
) -> ColumnTransformer:
    """Return the fitted ``ColumnTransformer`` of fitted parts; see `column_arrays`."""
    holder = _Stub()
    names = arrays.pop("feature_names_in", None)
    take_arrays(holder, {"widths": ("parts",), "sparse": ()}, arrays)
    width, widths = holder.n_features_in_, holder.widths.tolist()
    rows: Any = np.zeros((1, width))
    if names is not None:
        rows = require("pandas").DataFrame(rows, columns=list(_read_words(names)))
    stubs = [
        (name, part if isinstance(part, str) else _Stub(size), columns)
        for (name, part, columns), size in zip(unfitted.transformers, widths, strict=True)
    ]
    whole = ColumnTransformer(stubs, remainder=unfitted.remainder).fit(rows)
    by_name = {name: part for (name, _, _), part in zip(unfitted.transformers, parts, strict=True)}
    whole.transformers_ = [
        (name, by_name.get(name, part) if isinstance(part, _Stub) else part, columns)
        for name, part, columns in whole.transformers_
    ]
    whole.set_params(**unfitted.get_params(deep=False))
    whole.sparse_output_ = bool(holder.sparse)
    return whole


def columns_to_json(columns: Any) -> Any:
    """Return which columns a part of a ``ColumnTransformer`` reads, as JSON values."""
    if isinstance(columns, slice):
        ends = (columns.start, columns.stop, columns.step)
        return {"slice": [_as_json(each, "columns") for each in ends]}
    return _as_json(columns.tolist() if isinstance(columns, np.ndarray) else columns, "columns")


def columns_from_json(columns: Any) -> Any:
    """Return what `columns_to_json` wrote."""
    return slice(*columns["slice"]) if isinstance(columns, dict) else columns


def _as_json(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if name == "random_state" and not isinstance(value, int):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_as_json(entry, name) for entry in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"mapping": {key: _as_json(entry, name) for key, entry in value.items()}}
    for kind, known in (("function", _FUNCTIONS), ("dtype", _DTYPES)):
        for word, meant in known.items():
            if value is meant:
                return {kind: word}
    raise InvalidInputError(
        f"parameter {name} cannot be stored: {value!r} is not a JSON value and none of the "
        f"functions {', '.join(_FUNCTIONS)}"
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"mapping": dict(entries)}:
            return {key: _from_json(entry) for key, entry in entries.items()}
        case {"function": str(name)} if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        case {"dtype": str(name)} if name in _DTYPES:
            return _DTYPES[name]
    raise InvalidInputError(f"a stored feature map names something unknown: {value!r}")


def _column_names(transformer: Any) -> dict[str, Array]:
    names = getattr(transformer, "feature_names_in_", None)
    return {} if names is None else {"feature_names_in": _write_words(list(names))}


def _write_words(words: list[str]) -> Array:
    return np.frombuffer(json.dumps(words, ensure_ascii=False).encode(), dtype=np.uint8)


def _read_words(written: Array | None) -> list[str]:
    try:
        words = json.loads(np.asarray(written, dtype=np.uint8).tobytes())
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"a stored list of words is not readable: {error!r}") from error
    distinct = isinstance(words, list) and len(set(map(str, words))) == len(words)
    if not distinct or not all(isinstance(word, str) for word in words):
        raise InvalidInputError("a stored vocabulary is not a list of different words")
    return list(words)
