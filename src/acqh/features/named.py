"""Feature maps by name, and fitted maps as JSON and named arrays."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from acqh._core.arrays import Array
from acqh.encoders.clip import ClipImages, ClipTexts, EfficientNetLite0, MiniLM
from acqh.encoders.general.map import GeneralMap
from acqh.encoders.hog import HogColour
from acqh.encoders.plain import PLAIN, readable
from acqh.errors import InvalidInputError
from acqh.features.condition import Condition
from acqh.features.former import from_former, is_former
from acqh.features.kernel.map import KernelMap
from acqh.features.rbf import RBF_VARIANTS, RBFAnchors
from acqh.features.row_space import RowSpace
from acqh.features.scikit import (
    SCIKIT_CLASSES,
    column_arrays,
    columns_from_json,
    columns_to_json,
    fitted_columns,
    params_from_json,
    params_to_json,
    scikit_arrays,
    take_scikit_arrays,
)
from acqh.features.simple import Bias, SignedRoot
from acqh.features.svd import TagSVD

_NAMED: dict[str, Callable[..., Any]] = {
    "bias": Bias,
    "center": partial(StandardScaler, with_std=False),
    "kernel": KernelMap,
    "signed_root": SignedRoot,
    "standardize": StandardScaler,
    "svd": TagSVD,
    "tfidf": TfidfTransformer,
    "unit_norm": Normalizer,
}
# The only classes that stored state can name; a file never says what to import.
_STORABLE: dict[str, Any] = {
    **{
        kind.__name__: kind
        for kind in (
            Bias,
            ClipImages,
            ClipTexts,
            Condition,
            RowSpace,
            EfficientNetLite0,
            GeneralMap,
            HogColour,
            KernelMap,
            MiniLM,
            RBFAnchors,
            SignedRoot,
            TagSVD,
        )
    },
    **SCIKIT_CLASSES,
}
_PIPELINE, _COLUMNS = "Pipeline", "ColumnTransformer"
# What may stand in a pipeline, or for some columns, in place of a transformer.
_WORDS = ("passthrough", "drop")
_ENCODER_METHODS = ("fit", "transform", "get_params", "get_state", "set_state")
T = TypeVar("T")


def register_encoder(kind: type[T]) -> type[T]:
    """Let an encoder, or feature map, of one's own be stored; to be used as a decorator.

    What is stored names the class, not where it is defined: those who open it register the class
    first. See `acqh.encoders.Encoder` for what the class needs.

    Parameters
    ----------
    kind : type
        With ``fit``, ``transform``, ``get_params``, ``get_state`` and ``set_state``.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    InvalidInputError
        A method is missing, or another class has the name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from acqh.encoders import register_encoder
    >>> @register_encoder
    ... class TextLength(BaseEstimator):
    ...     def fit(self, texts, y=None):
    ...         return self
    ...
    ...     def transform(self, texts):
    ...         return np.array([[len(text), 1.0] for text in texts])
    ...
    ...     def get_state(self):
    ...         return {}
    ...
    ...     def set_state(self, arrays):
    ...         return self
    """
    missing = [name for name in _ENCODER_METHODS if not callable(getattr(kind, name, None))]
    if missing:
        raise InvalidInputError(f"{kind.__name__} has no {', '.join(missing)}; encoders need it")
    other = _STORABLE.get(kind.__name__, kind)
    if other is not kind and other.__module__ != kind.__module__:
        raise InvalidInputError(f"there is another class {kind.__name__}; choose another name")
    _STORABLE[kind.__name__] = kind
    return kind


def list_feature_maps() -> list[str]:
    """Return the names `make_feature_map` knows, in alphabetical order.

    Examples
    --------
    >>> from acqh.features import list_feature_maps
    >>> "rbf_fixed" in list_feature_maps()
    True
    """
    return sorted((*_NAMED, *RBF_VARIANTS))


def make_feature_map(kind: Any, **params: Any) -> Any:
    """Make an unfitted feature map from a name, or from any transformer.

    Parameters
    ----------
    kind : str or object with ``fit`` and ``transform``
        A name of `list_feature_maps`, or a transformer, of which an unfitted copy is made.
    **params
        Constructor arguments, with a name only.

    Returns
    -------
    object with ``fit`` and ``transform``

    Raises
    ------
    InvalidInputError
        The name is unknown, or the object is not a transformer.

    Examples
    --------
    >>> from acqh.features import make_feature_map
    >>> make_feature_map("rbf_fixed", sigma=0.6)
    RBFAnchors(sigma=0.6, variant='rbf_fixed')
    """
    if isinstance(kind, str):
        if kind in RBF_VARIANTS:
            return RBFAnchors(variant=kind, **params)
        if kind not in _NAMED:
            known = ", ".join(list_feature_maps())
            raise InvalidInputError(f"no feature map is called {kind!r}; there are: {known}")
        return _NAMED[kind](**params)
    if isinstance(kind, type) or not (hasattr(kind, "fit") and hasattr(kind, "transform")):
        raise InvalidInputError(
            f"a feature map needs the methods fit and transform, got {kind!r}; "
            "give a name or a transformer instance"
        )
    if params:
        raise InvalidInputError("parameters can be given with a name only; set them on the object")
    return clone(kind, safe=False)


def describe_feature_map(feature_map: Any) -> dict[str, Any]:
    """Describe a map as JSON values, fitted or not, without what ``fit`` learnt.

    Parameters
    ----------
    feature_map : a map or encoder of this package or of scikit-learn
        Of scikit-learn: ``StandardScaler``, ``Normalizer``, ``TfidfTransformer``,
        ``TfidfVectorizer``, ``TruncatedSVD``, ``PCA``, ``Nystroem``, ``FunctionTransformer`` of
        NumPy's own functions; ``Pipeline`` and ``ColumnTransformer`` of all these.

    Returns
    -------
    dict
        The class's name and its parameters, for `feature_map_from_description`. A ``Generator``
        given as `random_state` is left out.

    Raises
    ------
    InvalidInputError
        The map is of another class, or a parameter is not a JSON value, such as a function.

    Examples
    --------
    >>> from acqh.features import SignedRoot, describe_feature_map
    >>> describe_feature_map(SignedRoot())
    {'class': 'SignedRoot', 'params': {}}
    """
    if type(feature_map) is Pipeline:
        steps = [[name, _describe_part(step)] for name, step in feature_map.steps]
        return {"class": _PIPELINE, "steps": steps}
    if type(feature_map) in PLAIN.values():
        return {"class": feature_map.estimator_name, "params": feature_map.params()}
    name = type(feature_map).__name__
    if _STORABLE.get(name) is not type(feature_map):
        raise InvalidInputError(
            f"a {name} cannot be stored; only these and pipelines of them can: "
            f"{', '.join(sorted(_STORABLE))}; register a class of your own with register_encoder"
        )
    params = feature_map.get_params(deep=False)
    if name != _COLUMNS:
        return {"class": name, "params": params_to_json(name, params)}
    parts = [
        [part, _describe_part(inner), columns_to_json(columns)]
        for part, inner, columns in params.pop("transformers")
    ]
    return {"class": name, "params": params_to_json(name, params), "transformers": parts}


def feature_map_from_description(description: dict[str, Any]) -> Any:
    """Make the unfitted map that `describe_feature_map` described.

    Raises
    ------
    InvalidInputError
        An unknown class or parameter.

    Examples
    --------
    >>> from acqh.features import feature_map_from_description
    >>> feature_map_from_description({"class": "SignedRoot", "params": {}})
    SignedRoot()
    """
    with readable():
        return _make(description)


def feature_map_state(feature_map: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Describe a fitted map so that it can be stored without pickling.

    Parameters
    ----------
    feature_map : a map or encoder that `describe_feature_map` takes
        Fitted.

    Returns
    -------
    description : dict
        JSON values only: the class's name and its parameters. A ``Generator`` given as
        `random_state` is left out, since a fitted map draws nothing more.
    arrays : dict of str to ndarray
        What ``fit`` learnt; in a pipeline, names start with the step's position.

    Raises
    ------
    InvalidInputError
        The map is of another class.
    NotFittedError
        The map is not fitted.

    Examples
    --------
    >>> from acqh.features import Bias, feature_map_state
    >>> feature_map_state(Bias().fit([[1.0], [3.0]]))
    ({'class': 'Bias', 'params': {}}, {'n_features_in': array([1])})
    """
    description = describe_feature_map(feature_map)
    if isinstance(feature_map, Pipeline):
        return description, _part_arrays(step for _, step in feature_map.steps)
    if isinstance(feature_map, ColumnTransformer):
        arrays = column_arrays(feature_map)
        fitted = {name: part for name, part, _ in feature_map.transformers_}
        parts = (fitted.get(name, "drop") for name, _, _ in feature_map.transformers)
        return description, {**arrays, **_part_arrays(parts)}
    if description["class"] in SCIKIT_CLASSES:
        return description, scikit_arrays(feature_map)
    return description, feature_map.get_state()


def feature_map_from_state(description: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Make the fitted map that `feature_map_state` described.

    Parameters
    ----------
    description : dict
    arrays : dict of str to ndarray

    Returns
    -------
    fitted map

    Raises
    ------
    InvalidInputError
        An unknown class, parameter or array, or arrays that do not fit one another.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from acqh.features import feature_map_from_state, feature_map_state
    >>> scaler = StandardScaler(with_std=False).fit([[1.0], [3.0]])
    >>> restored = feature_map_from_state(*feature_map_state(scaler))
    >>> restored.transform([[2.5]])
    array([[0.5]])
    """
    with readable():
        if is_former(description["class"]):
            return feature_map_from_state(*from_former(description, arrays))
        feature_map = _make(description)
        if isinstance(feature_map, Pipeline):
            parts = _fitted_parts([step for _, step in description["steps"]], arrays)
            steps = zip(description["steps"], parts, strict=True)
            return Pipeline([(name, part) for (name, _), part in steps])
        if isinstance(feature_map, ColumnTransformer):
            own = {name: value for name, value in arrays.items() if "/" not in name}
            inner = {name: value for name, value in arrays.items() if "/" in name}
            parts = _fitted_parts([part for _, part, _ in description["transformers"]], inner)
            return fitted_columns(feature_map, parts, own)
        if description["class"] in SCIKIT_CLASSES:
            return take_scikit_arrays(feature_map, arrays)
        return feature_map.set_state(arrays)


def _make(description: dict[str, Any]) -> Any:
    name = description["class"]
    if name == _PIPELINE:
        return Pipeline([(key, _make_part(step)) for key, step in description["steps"]])
    if is_former(name):
        return _make(from_former(description, None)[0])
    if name not in _STORABLE:
        raise InvalidInputError(f"stored feature map is of the unknown class {name!r}")
    params = params_from_json(name, description["params"])
    if name != _COLUMNS:
        return _STORABLE[name](**params)
    parts = [
        (part, _make_part(inner), columns_from_json(columns))
        for part, inner, columns in description["transformers"]
    ]
    return ColumnTransformer(parts, **params)


def _describe_part(part: Any) -> Any:
    return part if part in _WORDS else describe_feature_map(part)


def _make_part(part: Any) -> Any:
    return part if part in _WORDS else _make(part)


def _part_arrays(parts: Iterable[Any]) -> dict[str, Array]:
    return {
        f"{position}/{key}": value
        for position, part in enumerate(parts)
        if part not in _WORDS
        for key, value in feature_map_state(part)[1].items()
    }


def _fitted_parts(described: list[Any], arrays: dict[str, Array]) -> list[Any]:
    parts: list[dict[str, Array]] = [{} for _ in described]
    for key, value in arrays.items():
        position, _, rest = key.partition("/")
        if not position.isdecimal() or int(position) >= len(parts):
            raise InvalidInputError(f"array {key!r} belongs to no step of the stored pipeline")
        parts[int(position)][rest] = value
    return [
        each if each in _WORDS else feature_map_from_state(each, part)
        for each, part in zip(described, parts, strict=True)
    ]
