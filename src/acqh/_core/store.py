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
from dataclasses import fields, is_dataclass
from importlib import import_module
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from acqh._core.arrays import Array, is_sparse
from acqh.errors import InvalidInputError, NotFittedError

# Name -> the module that defines it, which is imported when it is needed; or the thing itself.
Homes: TypeAlias = Mapping[str, Any]
# Attribute -> a name for each axis, or a type.
Axes: TypeAlias = Mapping[str, Any]

_CSR = ("data", "indices", "indptr")
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
    writer = _Writer(allowed)
    return writer.write(value, path, fitted), writer.arrays


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


def _axes_of(kind: type) -> Axes:
    """Return what is stored of a class beside its parameters or fields."""
    if kind.__module__.startswith("sklearn."):
        return _SCIKIT[kind.__name__][1]
    own = [vars(each).get("_state_axes", {}) for each in reversed(kind.__mro__)]
    return {name: axes for each in own for name, axes in each.items()}


class _Writer:
    """Takes objects apart."""

    def __init__(self, allowed: Homes) -> None:
        self.allowed = allowed
        self.arrays: dict[str, Array] = {}

    def write(self, value: Any, path: str, fitted: bool) -> Any:
        """Return a value as JSON; its arrays are named by the path to them."""
        if isinstance(value, np.generic):
            value = value.item()
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if isfinite(value) else {"number": str(value)}
            case np.random.Generator() | np.random.SeedSequence() | np.random.RandomState():
                return None
            case np.ndarray():
                if value.dtype == bool:  # files know no truth values
                    return {"bools": self._keep(path, value.astype(np.uint8))}
                return {"array": self._keep(path, value)}
            case list():
                return self._all(value, path, fitted)
            case tuple():
                return {"tuple": self._all(value, path, fitted)}
            case AbstractSet():
                return {"set": self._all(sorted(value), path, fitted)}
            case Mapping():
                keys = self._all(value, path, fitted)
                parts = [
                    key if isinstance(key, str) else number for number, key in enumerate(value)
                ]
                return {"dict": [
                    [key, self.write(each, _join(path, part), fitted)]
                    for key, part, each in zip(keys, parts, value.values(), strict=True)
                ]}  # fmt: skip
        if is_sparse(value):
            return self._csr(value, path)
        if isinstance(value, type) or not hasattr(type(value), "__dict__"):
            return {"name": _name_of(value, self.allowed)}
        if callable(value) and hasattr(value, "__name__"):
            return {"name": _name_of(value, self.allowed)}
        return self._object(value, path, fitted)

    def _all(self, values: Iterable[Any], path: str, fitted: bool) -> list[Any]:
        return [self.write(it, _join(path, place), fitted) for place, it in enumerate(values)]

    def _named(self, values: Mapping[str, Any], path: str, fitted: bool) -> dict[str, Any]:
        return {name: self.write(it, _join(path, name), fitted) for name, it in values.items()}

    def _keep(self, path: str, array: Array) -> str:
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(f"{path} cannot be stored: an array of {array.dtype}")
        name = path or "array"
        while name in self.arrays:
            name += "'"
        self.arrays[name] = array
        return name

    def _csr(self, value: Any, path: str) -> dict[str, Any]:
        import scipy.sparse as sp

        matrix = sp.csr_array(value)
        names = [self._keep(f"{path}.{part}", getattr(matrix, part)) for part in _CSR]
        return {"csr": names, "shape": list(matrix.shape)}

    def _object(self, value: Any, path: str, fitted: bool) -> dict[str, Any]:
        kind = type(value)
        described: dict[str, Any] = {"class": _name_of(kind, self.allowed)}
        if not hasattr(value, "get_params"):
            named = [it.name for it in fields(value) if it.init] if is_dataclass(value) else []
            named += [name.removesuffix("?") for name in _axes_of(kind)]
            own = {name: getattr(value, name) for name in named}
            return described | {"fields": self._named(own, path, fitted)}
        params = value.get_params(deep=False)
        if kind.__module__.startswith("sklearn."):
            params = {name: it for name, it in params.items() if name not in _LEFT_OUT}
        inside = fitted and described["class"] == "Pipeline"
        described["params"] = self._named(params, path, inside)
        if fitted:
            described["state"] = self._named(_learnt(value), path, True)
        return described


class _Reader:
    """Puts objects together again."""

    def __init__(self, allowed: Homes, arrays: dict[str, Array]) -> None:
        self.allowed = allowed
        self.arrays = arrays

    def read(self, described: Any) -> Any:
        """Return what `_Writer.write` described."""
        match described:
            case None | bool() | int() | float() | str():
                return described
            case list():
                return [self.read(each) for each in described]
            case {"number": str(text), **rest} if not rest:
                return float(text)
            case {"array": str(name), **rest} if not rest:
                return self._take(name)
            case {"bools": str(name), **rest} if not rest:
                return self._take(name).astype(bool)
            case {"csr": [*names], "shape": [int(n_rows), int(width)], **rest} if not rest:
                return self._csr([self._take(name) for name in names], (n_rows, width))
            case {"tuple": [*values], **rest} if not rest:
                return tuple(self.read(each) for each in values)
            case {"set": [*values], **rest} if not rest:
                return frozenset(self.read(each) for each in values)
            case {"dict": [*pairs], **rest} if not rest:
                return {self.read(key): self.read(each) for key, each in pairs}
            case {"name": str(name), **rest} if not rest:
                return thing_of(name, self.allowed)
            case {"class": str(name), "fields": dict(own), **rest} if not rest:
                return self._record(self._class(name), self._named(own))
            case {"class": str(name), "params": dict(params), **rest} if not rest:
                return self._estimator(self._class(name), self._named(params))
            case {"class": str(name), "params": dict(params), "state": dict(state), **rest} if (
                not rest
            ):
                made = self._estimator(self._class(name), self._named(params))
                return _with_learnt(made, self._named(state))
        raise InvalidInputError(f"what is stored is not readable: {described!r:.80}")

    def _named(self, described: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.read(each) for name, each in described.items()}

    def _take(self, name: str) -> Array:
        if name not in self.arrays:
            raise InvalidInputError(f"what is stored lacks the array {name!r}")
        array = np.asarray(self.arrays.pop(name))
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(f"{name!r} holds no numbers but {array.dtype}")
        return array if array.flags.writeable else array.copy()

    def _csr(self, parts: Sequence[Array], shape: tuple[int, int]) -> Any:
        import scipy.sparse as sp

        try:
            matrix = sp.csr_array(tuple(parts), shape=shape)
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InvalidInputError(f"what is stored is not a CSR matrix: {error}") from error
        return matrix

    def _class(self, name: str) -> Any:
        kind = thing_of(name, self.allowed)
        if not isinstance(kind, type):
            raise InvalidInputError(f"{name!r} is not a class")
        return kind

    def _record(self, kind: Any, own: dict[str, Any]) -> Any:
        """Make an object of its fields, checked against their annotations."""
        if hasattr(kind, "__dataclass_fields__"):
            hints = get_type_hints(kind)
            named = {each.name: hints[each.name] for each in fields(kind) if each.init}
            check_values(kind.__name__, own, named | dict(_axes_of(kind)))
            return _finished(kind(**own))
        check_values(kind.__name__, own, _axes_of(kind))
        made = kind.__new__(kind)
        for name, value in own.items():
            setattr(made, name, value)
        return _finished(made)

    def _estimator(self, kind: Any, params: dict[str, Any]) -> Any:
        if not kind.__module__.startswith("sklearn."):
            return kind(**params)
        if refused := sorted(_LEFT_OUT & set(params)):
            raise InvalidInputError(f"a stored {kind.__name__} cannot set {', '.join(refused)}")
        if params.get("input", "content") != "content":
            raise InvalidInputError(f"a stored {kind.__name__} cannot set input")
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
    if kind.__name__ == "TfidfVectorizer" and hasattr(estimator, "vocabulary_"):
        columns = estimator.vocabulary_
        words = json.dumps(sorted(columns, key=columns.__getitem__), ensure_ascii=False)
        weights = estimator.idf_ if estimator.use_idf else None
        return {"words": np.frombuffer(words.encode(), dtype=np.uint8), "idf_": weights}
    found = {}
    for spec in _axes_of(kind):
        name = spec.removesuffix("?")
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)
        elif name == spec:
            raise NotFittedError(f"this {kind.__name__} is not fitted; call fit first")
    if kind.__name__ == "TfidfVectorizer":
        raise NotFittedError("this TfidfVectorizer is not fitted; call fit with texts first")
    return found


def _with_learnt(made: Any, learnt: dict[str, Any]) -> Any:
    """Give an estimator what it had learnt."""
    kind = type(made)
    if hasattr(made, "set_state"):
        return made.set_state(learnt)
    if kind.__name__ == "TfidfVectorizer":
        return _with_words(made, learnt)
    check_values(kind.__name__, learnt, _axes_of(kind))
    for name, value in learnt.items():
        setattr(made, name, value)
    is_scikit = kind.__module__.startswith("sklearn.")
    if is_scikit and any(isinstance(each, np.ndarray) for each in learnt.values()):
        _try(made, np.zeros((1, made.n_features_in_)))
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
