"""Serialize objects as JSON values and named arrays: no pickle, no class paths.

`pack` accepts numbers, texts, lists, tuples, sets, mappings, arrays and sparse matrices;
dataclasses by their fields; estimators by their parameters and fitted attributes. A file contains
names of classes, and `allowed` maps them to modules: other classes can be neither written nor read.

A class lists its fitted attributes in ``_state_axes``, each with a name for each axis or with a
type. Axes of the same name have the same length; ``"n_features"`` is the number of features of
``fit``. An attribute whose name ends in ``"?"`` may be None or absent. Custom classes have
``get_state`` and ``set_state`` instead. ``_restored``, if a class defines it, is called last, for
further checks.
"""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from acqh._core.arrays import Array, is_sparse
from acqh._core.imports import require
from acqh.errors import InvalidInputError, NotFittedError

# Name -> the module that defines it, imported on first use; or the class or function itself.
ClassTable: TypeAlias = Mapping[str, Any]
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
# Classes of scikit-learn: their modules and fitted attributes.
_SCIKIT: dict[str, tuple[str, Axes]] = {
    "Normalizer": ("sklearn.preprocessing", _WIDTH),
    "Nystroem": ("sklearn.kernel_approximation", {**_WIDTH, **_NYSTROEM}),
    "PCA": ("sklearn.decomposition", {**_SVD, **_PCA}),
    "Pipeline": ("sklearn.pipeline", {}),  # its steps have the state
    "StandardScaler": ("sklearn.preprocessing", {**_WIDTH, **_SCALER}),
    "TfidfTransformer": ("sklearn.feature_extraction.text", {**_WIDTH, "idf_?": _COLUMN}),
    "TfidfVectorizer": ("sklearn.feature_extraction.text", {}),  # words: see `_with_words`
    "TruncatedSVD": ("sklearn.decomposition", _SVD),
}
# Parameters that are not stored: they do not affect ``transform``, or access files and processes.
_NOT_STORED = frozenset({"memory", "n_jobs", "verbose"})
_MODULES = {name: home for name, (home, _) in _SCIKIT.items()} | dict.fromkeys(
    ("float32", "float64"), "numpy"
)


def pack(
    value: Any, allowed: ClassTable, *, fitted: bool = True, path: str = ""
) -> tuple[Any, dict[str, Array]]:
    """Return an object as JSON values and named arrays, for `unpack`.

    `fitted`: include the fitted attributes of estimators, not only their parameters. `path`: prefix
    of the names of arrays. A ``Generator`` becomes None: fitted estimators do not need it. Raises
    InvalidInputError: a value cannot be stored. Raises NotFittedError: an estimator is not fitted.

    Examples
    --------
    >>> pack({"a": (1, 2.5)}, {})
    ({'dict': [['a', {'tuple': [1, 2.5]}]]}, {})
    """
    writer = _Writer(allowed, fitted)
    return writer.write(value, path), writer.arrays


def unpack(
    packed: Any, arrays: dict[str, Array], allowed: ClassTable, *, use_all: bool = True
) -> Any:
    """Return the object of `pack`; removes its arrays from `arrays`.

    `use_all`: reject arrays that the object does not use. Raises InvalidInputError: the stored
    object is damaged, or of a class that is not allowed.

    Examples
    --------
    >>> unpack(*pack({"a": (1, np.arange(2))}, {}), {})
    {'a': (1, array([0, 1]))}
    """
    try:
        value = _Reader(allowed, arrays).read(packed)
        if use_all and arrays:
            raise InvalidInputError(f"unexpected arrays in the file: {', '.join(sorted(arrays))}")
        return value
    except (InvalidInputError, NotFittedError):
        raise
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise InvalidInputError(f"the stored object is not readable: {error!r}") from error


def resolve(name: str, allowed: ClassTable) -> Any:
    """Return the class or function of a name; raise InvalidInputError if it is not allowed."""
    source = allowed.get(name) or _MODULES.get(name)
    if source is None:
        raise InvalidInputError(f"the stored object has the unknown class {name!r}")
    return getattr(import_module(source), name) if isinstance(source, str) else source


def _name_of(value: Any, allowed: ClassTable) -> str:
    """Return the name of a class or function; raise InvalidInputError if it is not allowed."""
    name = str(getattr(value, "__name__", value))
    if name not in {**_MODULES, **allowed} or resolve(name, allowed) is not value:
        raise InvalidInputError(
            f"a {name} cannot be stored; use one of {', '.join(sorted({**_MODULES, **allowed}))}, "
            "or register the class with acqh.encoders.register_encoder"
        )
    return name


def _is_scikit(kind: type) -> bool:
    return kind.__module__.startswith("sklearn.")


def _fields_of(kind: Any) -> dict[str, Any]:
    """Return the stored attributes of a class, without parameters, each with axes or a type."""
    if _is_scikit(kind):
        return dict(_SCIKIT[kind.__name__][1])
    attributes: dict[str, Any] = {}
    if is_dataclass(kind) and not hasattr(kind, "get_params"):
        hints = get_type_hints(kind)
        # Files of earlier versions lack parameters that have been added, which are None by default.
        attributes = {
            f"{entry.name}?" if entry.default is None else entry.name: hints[entry.name]
            for entry in fields(kind)
            if entry.init
        }
    for base in reversed(kind.__mro__):
        attributes |= vars(base).get("_state_axes", {})
    return attributes


@dataclass
class _Writer:
    """Converts objects to JSON values; arrays are named by their path."""

    allowed: ClassTable
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
            case np.ndarray() if value.dtype == bool:  # files have no boolean arrays
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
        return [self.write(value, _join(path, place)) for place, value in enumerate(values)]

    def _named(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {name: self.write(value, _join(path, name)) for name, value in values.items()}

    def _keep(self, array: Array, path: str) -> str:
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(
                f"{path} cannot be stored: its dtype is {array.dtype}; use numbers"
            )
        name = path or "array"
        while name in self.arrays:
            name += "'"
        self.arrays[name] = array
        return name

    def _csr(self, value: Any, path: str) -> list[Any]:
        matrix = require("scipy.sparse").csr_array(value)
        parts = ("data", "indices", "indptr")
        names = [self._keep(getattr(matrix, part), f"{path}.{part}") for part in parts]
        return [*names, *matrix.shape]

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        kind = type(value)
        name = _name_of(kind, self.allowed)
        if not hasattr(value, "get_params"):
            names = [spec.removesuffix("?") for spec in _fields_of(kind)]
            attributes = {attribute: getattr(value, attribute) for attribute in names}
            return {"class": name, "fields": self._named(attributes, path)}
        params = value.get_params(deep=False)
        if _is_scikit(kind):
            params = {key: param for key, param in params.items() if key not in _NOT_STORED}
        # Estimators that are parameters are not fitted, except the steps of a pipeline.
        inner = self if name == "Pipeline" else replace(self, fitted=False)
        packed = {"class": name, "params": inner._named(params, path)}
        return packed | ({"state": self._named(_state_of(value), path)} if self.fitted else {})


@dataclass
class _Reader:
    """Restores objects from untrusted JSON values and arrays."""

    allowed: ClassTable
    arrays: dict[str, Array]

    def read(self, packed: Any) -> Any:
        """Return the value of `_Writer.write`."""
        if isinstance(packed, list):
            return [*map(self.read, packed)]
        if not isinstance(packed, dict):
            return packed
        if "class" in packed:
            return self._object(packed)
        ((kind, inner),) = packed.items()
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
                return {self.read(key): self.read(value) for key, value in inner}
            case "name":
                return resolve(inner, self.allowed)
        raise InvalidInputError(f"the stored object is not readable: {packed!r:.80}")

    def _take(self, name: str) -> Array:
        if name not in self.arrays:
            raise InvalidInputError(f"the array {name!r} is missing")
        array = np.asarray(self.arrays.pop(name))
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(f"the array {name!r} has dtype {array.dtype}, not numbers")
        return array if array.flags.writeable else array.copy()

    def _csr(self, data: str, indices: str, indptr: str, n_rows: int, width: int) -> Any:
        parts = tuple(map(self._take, (data, indices, indptr)))
        try:
            matrix = require("scipy.sparse").csr_array(parts, shape=(n_rows, width))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InvalidInputError(f"a stored CSR matrix is invalid: {error}") from error
        return matrix

    def _object(self, packed: Mapping[str, Any]) -> Any:
        parts = dict(packed)
        kind: Any = resolve(parts.pop("class"), self.allowed)
        if not isinstance(kind, type):
            raise InvalidInputError(f"{kind!r} is not a class")
        values_of = {
            part: {name: self.read(value) for name, value in inner.items()}
            for part, inner in parts.items()
        }
        match values_of:
            case {"fields": values, **rest} if not rest:
                if not is_dataclass(kind):
                    return _filled(object.__new__(kind), values)
                check_values(kind.__name__, values, _fields_of(kind))
                return _finished(kind(**values))
            case {"params": params, **rest} if not rest:
                return _estimator(kind, params)
            case {"params": params, "state": state, **rest} if not rest:
                return _with_state(_estimator(kind, params), state)
        raise InvalidInputError(f"the stored object is not readable: {[*packed]}")


def _estimator(kind: Any, params: dict[str, Any]) -> Any:
    if not _is_scikit(kind):
        return kind(**params)
    rejected = _NOT_STORED & set(params)
    if params.get("input", "content") != "content":
        rejected |= {"input"}
    if rejected:
        raise InvalidInputError(
            f"a stored {kind.__name__} cannot set {', '.join(sorted(rejected))}"
        )
    estimator = kind(**params)
    estimator._validate_params()
    return estimator


def check_values(owner: str, values: Mapping[str, Any], expected: Axes) -> None:
    """Raise InvalidInputError for missing or unknown attributes, wrong types or shapes.

    `expected`: for each attribute a name for each axis, or a type.

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
            raise InvalidInputError(
                f"{name!r} of {owner} is not an array of {len(axes)} dimensions"
            )
        for axis, length in zip(axes, shape, strict=True):
            expected_length = length if sizes.get(axis) is None else sizes[axis]
            if expected_length != length:
                raise InvalidInputError(
                    f"{name!r} of {owner} has {length} entries along {axis}, not {expected_length}"
                )
            sizes[axis] = length


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type of an annotation; True for unsupported annotations."""
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
            return all(fits(entry, parts[0]) for entry in value)
        return len(value) == len(parts) and all(map(fits, value, parts))
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            fits(key, parts[0]) and fits(entry, parts[1]) for key, entry in value.items()
        )
    if isinstance(kind, type) and issubclass(kind, AbstractSet | Sequence):
        return isinstance(value, kind) and all(fits(entry, parts[0]) for entry in value)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    if hint is None or hint is type(None):
        return value is None
    return isinstance(value, hint) if isinstance(hint, type) and hint is not Any else True


def _join(path: str, part: object) -> str:
    return f"{path}/{part}" if path else str(part)


def _state_of(estimator: Any) -> dict[str, Any]:
    """Return the fitted attributes; raise NotFittedError if the estimator is not fitted."""
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
    needed = (spec for spec in specs if not spec.endswith("?"))
    if is_words or not all(hasattr(estimator, name) for name in needed):
        raise NotFittedError(f"this {kind.__name__} is not fitted; call fit first")
    names = [spec.removesuffix("?") for spec in specs]
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def _with_state(estimator: Any, state: dict[str, Any]) -> Any:
    """Set the fitted attributes of an estimator."""
    kind = type(estimator)
    if hasattr(estimator, "set_state"):
        return estimator.set_state(state)
    if kind.__name__ == "TfidfVectorizer":
        return _with_words(estimator, state)
    _filled(estimator, state)
    if _is_scikit(kind) and any(isinstance(value, np.ndarray) for value in state.values()):
        _try(estimator, np.zeros((1, estimator.n_features_in_)))
    return estimator


def _filled(target: Any, values: Mapping[str, Any]) -> Any:
    """Check attributes, then set them."""
    check_values(type(target).__name__, values, _fields_of(type(target)))
    for name, value in values.items():
        setattr(target, name, value)
    return _finished(target)


def _with_words(vectorizer: Any, state: Mapping[str, Any]) -> Any:
    """Set vocabulary and weights of scikit-learn's vectorizer."""
    from sklearn.feature_extraction.text import TfidfTransformer

    words = json.loads(np.asarray(state["words"], dtype=np.uint8).tobytes())
    are_words = isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not are_words or len(set(words)) != len(words):
        raise InvalidInputError("a stored vocabulary is not a list of different words")
    vectorizer.vocabulary_ = {word: column for column, word in enumerate(words)}
    vectorizer.fixed_vocabulary_ = False
    names = ("norm", "use_idf", "smooth_idf", "sublinear_tf")
    vectorizer._tfidf = TfidfTransformer(**{name: getattr(vectorizer, name) for name in names})
    vectorizer._tfidf.n_features_in_ = len(words)
    if vectorizer.use_idf:
        vectorizer.idf_ = state["idf_"]
    _try(vectorizer, [""])
    return vectorizer


def _try(transformer: Any, rows: Any) -> None:
    """Transform rows once, to detect stored parameters and arrays that scikit-learn rejects."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            transformer.transform(rows)
    except Exception as error:  # of any type: the map cannot be used
        raise InvalidInputError(
            f"a stored {type(transformer).__name__} cannot be used: {error}"
        ) from error


def _finished(value: Any) -> Any:
    if hasattr(value, "_restored"):
        value._restored()
    return value
