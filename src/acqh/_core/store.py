"""Objects as JSON values and named arrays, and back: never a pickle, never a class path.

`pack` takes numbers, texts, lists, tuples, sets, mappings, arrays and sparse matrices; dataclasses
by their fields; estimators by their parameters and what ``fit`` learnt. A file says the names of
classes, and `allowed` where each is found: what it does not list can be neither written nor made.

What ``fit`` learnt is what a class lists in ``_state_axes``: attributes with a name for each axis,
or with a type. Axes of one name have one length; ``"n_features"`` is the width that was fitted. An
attribute whose name ends in ``"?"`` may be None, or absent. A class of a user's own has
``get_state`` and ``set_state`` instead. ``_restored``, where a class has it, is called at the end,
to check or prepare more.
"""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from acqh._core.arrays import Array, is_sparse
from acqh._core.imports import require
from acqh.errors import InvalidInputError, NotFittedError

# Name -> the module that defines it, which is imported when it is needed; or the thing itself.
Homes: TypeAlias = Mapping[str, Any]
# Attribute -> a name for each axis, or a type.
Axes: TypeAlias = Mapping[str, Any]

_ROW, _COLUMN, _MATRIX = ("n_components",), ("n_features",), ("n_components", "n_features")
_WIDTH: dict[str, Any] = {"n_features_in_": int}
_SVD = {
    **_WIDTH,
    "components_": _MATRIX,
    "explained_variance_": _ROW,
    "explained_variance_ratio_": _ROW,
    "singular_values_": _ROW,
}
_PCA = {"mean_": _COLUMN, "noise_variance_": float, "n_components_": int, "n_samples_": int}
_SCALER = {"n_samples_seen_": float, "mean_?": _COLUMN, "var_?": _COLUMN, "scale_?": _COLUMN}
_NYSTROEM = {
    "components_": _MATRIX,
    "component_indices_": _ROW,
    "normalization_": ("n_components", "n_components"),
    "_n_features_out": int,
}
# Of scikit-learn: where each class is, and what it learns.
_SCIKIT: dict[str, tuple[str, Axes]] = {
    "Normalizer": ("sklearn.preprocessing", _WIDTH),
    "Nystroem": ("sklearn.kernel_approximation", {**_WIDTH, **_NYSTROEM}),
    "PCA": ("sklearn.decomposition", {**_SVD, **_PCA}),
    "Pipeline": ("sklearn.pipeline", {}),  # its steps learn
    "StandardScaler": ("sklearn.preprocessing", {**_WIDTH, **_SCALER}),
    "TfidfTransformer": ("sklearn.feature_extraction.text", {**_WIDTH, "idf_?": _COLUMN}),
    "TfidfVectorizer": ("sklearn.feature_extraction.text", {}),  # words: see `_with_words`
    "TruncatedSVD": ("sklearn.decomposition", _SVD),
}
# Parameters of these that are of no use to what is fitted, or that reach for files and processes.
_LEFT_OUT = frozenset({"memory", "n_jobs", "verbose"})
_HOMES = {name: home for name, (home, _) in _SCIKIT.items()} | dict.fromkeys(
    ("float32", "float64"), "numpy"
)


def pack(
    value: Any, allowed: Homes, *, fitted: bool = True, path: str = ""
) -> tuple[Any, dict[str, Array]]:
    """Return an object as values that JSON holds, and named arrays, for `unpack`.

    `fitted`: with what estimators learnt; otherwise with their parameters alone. `path`: begins
    the names of arrays. A ``Generator`` becomes None: what is fitted draws nothing more. Raises
    InvalidInputError: something in it cannot be stored. Raises NotFittedError: an estimator is not
    fitted.

    Examples
    --------
    >>> pack({"a": (1, 2.5)}, {})
    ({'dict': [['a', {'tuple': [1, 2.5]}]]}, {})
    """
    writer = _Writer(allowed, fitted)
    return writer.write(value, path), writer.arrays


def unpack(described: Any, arrays: dict[str, Array], allowed: Homes, *, whole: bool = True) -> Any:
    """Return the object of which `pack` gave the parts; takes its arrays out of `arrays`.

    `whole`: refuse arrays that are left over. Raises InvalidInputError: what is stored is damaged,
    or of a class that is not allowed.

    Examples
    --------
    >>> unpack(*pack({"a": (1, np.arange(2))}, {}), {})
    {'a': (1, array([0, 1]))}
    """
    try:
        made = _Reader(allowed, arrays).read(described)
        if whole and arrays:
            raise InvalidInputError(f"arrays belong to nothing: {', '.join(sorted(arrays))}")
        return made
    except (InvalidInputError, NotFittedError):
        raise
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise InvalidInputError(f"what is stored is not readable: {error!r}") from error


def thing_of(name: str, allowed: Homes) -> Any:
    """Return what a name stands for; raise InvalidInputError where it is not allowed."""
    home = allowed.get(name) or _HOMES.get(name)
    if home is None:
        raise InvalidInputError(f"what is stored names the unknown {name!r}")
    return getattr(import_module(home), name) if isinstance(home, str) else home


def _name_of(thing: Any, allowed: Homes) -> str:
    """Return the name of a class or function; raise InvalidInputError where it has none."""
    name = str(getattr(thing, "__name__", thing))
    if name not in {**_HOMES, **allowed} or thing_of(name, allowed) is not thing:
        raise InvalidInputError(
            f"a {name} cannot be stored: it is neither numbers nor text, and only these can be "
            f"stored by name: {', '.join(sorted({**_HOMES, **allowed}))}; register a class of "
            "your own with acqh.encoders.register_encoder"
        )
    return name


def _is_scikit(kind: type) -> bool:
    return kind.__module__.startswith("sklearn.")


def _fields_of(kind: Any) -> dict[str, Any]:
    """Return what is stored of a class beside parameters: attributes, each with axes or a type."""
    if _is_scikit(kind):
        return dict(_SCIKIT[kind.__name__][1])
    found: dict[str, Any] = {}
    if is_dataclass(kind) and not hasattr(kind, "get_params"):
        hints = get_type_hints(kind)
        found = {each.name: hints[each.name] for each in fields(kind) if each.init}
    for each in reversed(kind.__mro__):
        found |= vars(each).get("_state_axes", {})
    return found


@dataclass
class _Writer:
    """Takes objects apart; arrays are named by the path to them."""

    allowed: Homes
    fitted: bool
    arrays: dict[str, Array] = field(default_factory=dict)

    def write(self, value: Any, path: str) -> Any:
        """Return a value as JSON."""
        if isinstance(value, np.generic):
            value = value.item()
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if isfinite(value) else {"number": str(value)}
            case np.random.Generator() | np.random.SeedSequence() | np.random.RandomState():
                return None
            case np.ndarray() if value.dtype == bool:  # files know no truth values
                return {"bools": self._keep(value.astype(np.uint8), path)}
            case np.ndarray():
                return {"array": self._keep(value, path)}
            case list():
                return self._all(value, path)
            case tuple():
                return {"tuple": self._all(value, path)}
            case AbstractSet():
                return {"set": self._all(sorted(value), path)}
            case Mapping():
                parts = [key if isinstance(key, str) else at for at, key in enumerate(value)]
                inner = [self.write(value[k], _join(path, p)) for k, p in zip(value, parts)]  # noqa: B905
                return {"dict": [*map(list, zip(self._all(value, path), inner, strict=True))]}
        if is_sparse(value):
            return {"csr": self._csr(value, path)}
        if hasattr(value, "__name__"):
            return {"name": _name_of(value, self.allowed)}
        return self._object(value, path)

    def _all(self, values: Iterable[Any], path: str) -> list[Any]:
        return [self.write(each, _join(path, place)) for place, each in enumerate(values)]

    def _named(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {name: self.write(each, _join(path, name)) for name, each in values.items()}

    def _keep(self, array: Array, path: str) -> str:
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(f"{path} cannot be stored: an array of {array.dtype}")
        name = path or "array"
        while name in self.arrays:
            name += "'"
        self.arrays[name] = array
        return name

    def _csr(self, value: Any, path: str) -> list[Any]:
        matrix = require("scipy.sparse").csr_array(value)
        parts = ("data", "indices", "indptr")
        return [*(self._keep(getattr(matrix, it), f"{path}.{it}") for it in parts), *matrix.shape]

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        kind = type(value)
        name = _name_of(kind, self.allowed)
        if not hasattr(value, "get_params"):
            named = [spec.removesuffix("?") for spec in _fields_of(kind)]
            own = {each: getattr(value, each) for each in named}
            return {"class": name, "fields": self._named(own, path)}
        params = value.get_params(deep=False)
        if _is_scikit(kind):
            params = {each: it for each, it in params.items() if each not in _LEFT_OUT}
        # What estimators are given as parameters is not fitted, but for the steps of a pipeline.
        inner = self if name == "Pipeline" else replace(self, fitted=False)
        described = {"class": name, "params": inner._named(params, path)}
        return described | ({"state": self._named(_learnt(value), path)} if self.fitted else {})


@dataclass
class _Reader:
    """Puts objects together again; of values that JSON holds, whatever they say."""

    allowed: Homes
    arrays: dict[str, Array]

    def read(self, described: Any) -> Any:
        """Return what `_Writer.write` described."""
        if isinstance(described, list):
            return [*map(self.read, described)]
        if not isinstance(described, dict):
            return described
        if "class" in described:
            return self._object(described)
        ((kind, inner),) = described.items()
        match kind:
            case "number":
                return float(inner)
            case "array":
                return self._take(inner)
            case "bools":
                return self._take(inner).astype(bool)
            case "csr":
                return self._csr(*inner)
            case "tuple":
                return tuple(map(self.read, inner))
            case "set":
                return frozenset(map(self.read, inner))
            case "dict":
                return {self.read(key): self.read(each) for key, each in inner}
            case "name":
                return thing_of(inner, self.allowed)
        raise InvalidInputError(f"what is stored is not readable: {described!r:.80}")

    def _take(self, name: str) -> Array:
        if name not in self.arrays:
            raise InvalidInputError(f"what is stored lacks the array {name!r}")
        array = np.asarray(self.arrays.pop(name))
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(f"{name!r} holds no numbers but {array.dtype}")
        return array if array.flags.writeable else array.copy()

    def _csr(self, data: str, indices: str, indptr: str, n_rows: int, width: int) -> Any:
        parts = tuple(map(self._take, (data, indices, indptr)))
        try:
            matrix = require("scipy.sparse").csr_array(parts, shape=(n_rows, width))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InvalidInputError(f"what is stored is not a CSR matrix: {error}") from error
        return matrix

    def _object(self, described: Mapping[str, Any]) -> Any:
        parts = dict(described)
        kind: Any = thing_of(parts.pop("class"), self.allowed)
        if not isinstance(kind, type):
            raise InvalidInputError(f"{kind!r} is not a class")
        own = {
            part: {name: self.read(each) for name, each in inner.items()}
            for part, inner in parts.items()
        }
        match own:
            case {"fields": values, **rest} if not rest:
                if not is_dataclass(kind):
                    return _filled(object.__new__(kind), values)
                check_values(kind.__name__, values, _fields_of(kind))
                return _finished(kind(**values))
            case {"params": params, **rest} if not rest:
                return _estimator(kind, params)
            case {"params": params, "state": learnt, **rest} if not rest:
                return _with_learnt(_estimator(kind, params), learnt)
        raise InvalidInputError(f"what is stored is not readable: {[*described]}")


def _estimator(kind: Any, params: dict[str, Any]) -> Any:
    if not _is_scikit(kind):
        return kind(**params)
    refused = _LEFT_OUT & set(params)
    if params.get("input", "content") != "content":
        refused |= {"input"}
    if refused:
        raise InvalidInputError(f"a stored {kind.__name__} cannot set {', '.join(sorted(refused))}")
    made = kind(**params)
    made._validate_params()
    return made


def check_values(owner: str, values: Mapping[str, Any], expected: Axes) -> None:
    """Refuse attributes that are missing, unknown, of another type, or that do not fit together.

    `expected`: for each attribute a name for each axis, or a type. Raises InvalidInputError.

    Examples
    --------
    >>> check_values("Map", {"a": np.ones((2, 3)), "b": np.ones(2)}, {"a": ("n", "k"), "b": ("n",)})
    """
    names = {spec.removesuffix("?") for spec in expected}
    if missing := sorted(set(expected) & names - set(values)):
        raise InvalidInputError(f"a stored {owner} lacks {', '.join(missing)}")
    if unknown := sorted(set(values) - names):
        raise InvalidInputError(f"a stored {owner} has the unknown {', '.join(unknown)}")
    sizes = {"n_features": values.get("n_features_in_")}
    for spec, axes in expected.items():
        name = spec.removesuffix("?")
        value = values.get(name)
        if value is None and name != spec:
            continue
        if not isinstance(axes, tuple):
            if not fits(value, axes):
                raise InvalidInputError(f"{name!r} of {owner} is {value!r:.80}, not a {axes}")
            continue
        shape = getattr(value, "shape", None)
        if shape is None or len(shape) != len(axes):
            raise InvalidInputError(f"{name!r} of {owner} is no array of {len(axes)} dimensions")
        for axis, length in zip(axes, shape, strict=True):
            expected_length = length if sizes.get(axis) is None else sizes[axis]
            if expected_length != length:
                raise InvalidInputError(
                    f"{name!r} of {owner} has {length} entries along {axis}, not {expected_length}"
                )
            sizes[axis] = length


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; True where it says nothing that is known."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if kind is Literal:
        return value in parts
    if kind is np.ndarray:
        dtype = get_args(parts[1])[0]
        return isinstance(value, np.ndarray) and (
            dtype is Any or bool(np.issubdtype(value.dtype, get_origin(dtype) or dtype))
        )
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[-1:] == (Ellipsis,):
            return all(fits(each, parts[0]) for each in value)
        return len(value) == len(parts) and all(map(fits, value, parts))
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            fits(key, parts[0]) and fits(each, parts[1]) for key, each in value.items()
        )
    if isinstance(kind, type) and issubclass(kind, AbstractSet | Sequence):
        return isinstance(value, kind) and all(fits(each, parts[0]) for each in value)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    if hint is None or hint is type(None):
        return value is None
    return isinstance(value, hint) if isinstance(hint, type) and hint is not Any else True


def _join(path: str, part: object) -> str:
    return f"{path}/{part}" if path else str(part)


def _learnt(estimator: Any) -> dict[str, Any]:
    """Return what ``fit`` learnt, by attribute; raise NotFittedError where it did not."""
    kind = type(estimator)
    if hasattr(estimator, "get_state"):
        return dict(estimator.get_state())
    is_words = kind.__name__ == "TfidfVectorizer"
    if is_words and hasattr(estimator, "vocabulary_"):
        columns = estimator.vocabulary_
        words = json.dumps(sorted(columns, key=columns.__getitem__), ensure_ascii=False)
        weights = estimator.idf_ if estimator.use_idf else None
        return {"words": np.frombuffer(words.encode(), dtype=np.uint8), "idf_": weights}
    specs = _fields_of(kind)
    if is_words or not all(map(partial(hasattr, estimator), set(specs) - _optional(specs))):
        raise NotFittedError(f"this {kind.__name__} is not fitted; call fit first")
    names = [spec.removesuffix("?") for spec in specs]
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def _optional(specs: Iterable[str]) -> set[str]:
    return {spec for spec in specs if spec.endswith("?")}


def _with_learnt(made: Any, learnt: dict[str, Any]) -> Any:
    """Give an estimator what it had learnt."""
    kind = type(made)
    if hasattr(made, "set_state"):
        return made.set_state(learnt)
    if kind.__name__ == "TfidfVectorizer":
        return _with_words(made, learnt)
    _filled(made, learnt)
    if _is_scikit(kind) and any(isinstance(each, np.ndarray) for each in learnt.values()):
        _try(made, np.zeros((1, made.n_features_in_)))
    return made


def _filled(made: Any, values: Mapping[str, Any]) -> Any:
    """Set attributes, once they are checked."""
    check_values(type(made).__name__, values, _fields_of(type(made)))
    for name, value in values.items():
        setattr(made, name, value)
    return _finished(made)


def _with_words(vectorizer: Any, learnt: Mapping[str, Any]) -> Any:
    """Give words and their weights to scikit-learn's vectorizer."""
    from sklearn.feature_extraction.text import TfidfTransformer

    words = json.loads(np.asarray(learnt["words"], dtype=np.uint8).tobytes())
    are_words = isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not are_words or len(set(words)) != len(words):
        raise InvalidInputError("a stored vocabulary is not a list of different words")
    vectorizer.vocabulary_ = {word: column for column, word in enumerate(words)}
    vectorizer.fixed_vocabulary_ = False
    names = ("norm", "use_idf", "smooth_idf", "sublinear_tf")
    vectorizer._tfidf = TfidfTransformer(**{name: getattr(vectorizer, name) for name in names})
    vectorizer._tfidf.n_features_in_ = len(words)
    if vectorizer.use_idf:
        vectorizer.idf_ = learnt["idf_"]
    _try(vectorizer, [""])
    return vectorizer


def _try(transformer: Any, rows: Any) -> None:
    """Find parameters and numbers that scikit-learn would refuse, or stumble on, in use."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            transformer.transform(rows)
    except Exception as error:  # whatever it is: this is not a map that can be used
        raise InvalidInputError(
            f"a stored {type(transformer).__name__} cannot be used: {error}"
        ) from error


def _finished(made: Any) -> Any:
    if hasattr(made, "_restored"):
        made._restored()
    return made
