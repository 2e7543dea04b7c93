"""Feature maps by name, and fitted maps as JSON and named arrays."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from acqh._core.arrays import Array
from acqh.errors import InvalidInputError
from acqh.features._base import StateMixin
from acqh.features._condition import Condition
from acqh.features._counts import TagSVD, Tfidf
from acqh.features._hog import HogColour
from acqh.features._linear import Bias, Center, SignedRoot, Standardize, UnitNorm
from acqh.features._networks import ClipImages, ClipTexts, EfficientNetLite0
from acqh.features._rbf import RBF_VARIANTS, RBFAnchors
from acqh.features._text import TfidfText

_NAMED: dict[str, Callable[..., Any]] = {
    "bias": Bias,
    "center": Center,
    "signed_root": SignedRoot,
    "standardize": Standardize,
    "svd": TagSVD,
    "tfidf": Tfidf,
    "unit_norm": UnitNorm,
}
# The only classes that stored state can name; a file never says what to import.
_STORABLE: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Bias,
        Center,
        ClipImages,
        ClipTexts,
        Condition,
        EfficientNetLite0,
        HogColour,
        RBFAnchors,
        SignedRoot,
        Standardize,
        TagSVD,
        Tfidf,
        TfidfText,
        UnitNorm,
    )
}
_PIPELINE = "Pipeline"
_ENCODER_METHODS = ("fit", "transform", "get_params", "get_state", "set_state")
T = TypeVar("T")


def register_encoder(kind: type[T]) -> type[T]:
    """Let an encoder, or feature map, of one's own be stored; to be used as a decorator.

    What is stored names the class, not where it is defined: whoever opens it registers the class
    first. See `acqh.features.Encoder` for what the class needs.

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
    >>> from sklearn.base import BaseEstimator
    >>> from acqh.features import register_encoder
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
        The name is unknown, or the object is no transformer.

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
    feature_map : a map of this package, or a scikit-learn ``Pipeline`` of such maps

    Returns
    -------
    dict
        The class's name and its parameters, for `feature_map_from_description`. A ``Generator``
        given as `random_state` is left out.

    Raises
    ------
    InvalidInputError
        The map is of another class.

    Examples
    --------
    >>> from acqh.features import Center, describe_feature_map
    >>> describe_feature_map(Center())
    {'class': 'Center', 'params': {}}
    """
    if type(feature_map) is Pipeline:
        steps = [[name, describe_feature_map(step)] for name, step in feature_map.steps]
        return {"class": _PIPELINE, "steps": steps}
    name = type(feature_map).__name__
    if _STORABLE.get(name) is not type(feature_map):
        raise InvalidInputError(
            f"a {name} cannot be stored; only these and pipelines of them can: "
            f"{', '.join(sorted(_STORABLE))}; register a class of your own with register_encoder"
        )
    params = {key: _as_json(value, key) for key, value in feature_map.get_params().items()}
    return {"class": name, "params": params}


def feature_map_from_description(description: dict[str, Any]) -> Any:
    """Make the unfitted map that `describe_feature_map` described.

    Raises
    ------
    InvalidInputError
        An unknown class or parameter.

    Examples
    --------
    >>> from acqh.features import feature_map_from_description
    >>> feature_map_from_description({"class": "Center", "params": {}})
    Center()
    """
    try:
        name = description["class"]
        if name == _PIPELINE:
            steps = [
                (key, feature_map_from_description(step)) for key, step in description["steps"]
            ]
            return Pipeline(steps)
        if name not in _STORABLE:
            raise InvalidInputError(f"stored feature map is of the unknown class {name!r}")
        return _STORABLE[name](**description["params"])
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"stored feature map is not readable: {error!r}") from error


def feature_map_state(feature_map: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Describe a fitted map so that it can be stored without pickling.

    Parameters
    ----------
    feature_map : a map or encoder of this package, or a scikit-learn ``Pipeline`` of such

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
    >>> from acqh.features import Center, feature_map_state
    >>> feature_map_state(Center().fit([[1.0], [3.0]]))
    ({'class': 'Center', 'params': {}}, {'n_features_in': array([1]), 'mean': array([2.])})
    """
    if type(feature_map) is Pipeline:
        arrays = {
            f"{position}/{key}": value
            for position, (_, step) in enumerate(feature_map.steps)
            for key, value in feature_map_state(step)[1].items()
        }
        return describe_feature_map(feature_map), arrays
    return describe_feature_map(feature_map), feature_map.get_state()


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
    >>> from acqh.features import Center, feature_map_from_state, feature_map_state
    >>> restored = feature_map_from_state(*feature_map_state(Center().fit([[1.0], [3.0]])))
    >>> restored.transform([[2.5]])
    array([[0.5]])
    """
    feature_map = feature_map_from_description(description)
    if type(feature_map) is not Pipeline:
        restored: StateMixin = feature_map.set_state(arrays)
        return restored
    parts: list[dict[str, Array]] = [{} for _ in feature_map.steps]
    for key, value in arrays.items():
        position, _, rest = key.partition("/")
        if not position.isdecimal() or int(position) >= len(parts):
            raise InvalidInputError(f"array {key!r} belongs to no step of the stored pipeline")
        parts[int(position)][rest] = value
    described = zip(description["steps"], parts, strict=True)
    return Pipeline(
        [(name, feature_map_from_state(step, part)) for (name, step), part in described]
    )


def _as_json(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if name == "random_state" and not isinstance(value, int):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_as_json(entry, name) for entry in value]
    raise InvalidInputError(f"parameter {name} cannot be stored: {value!r} is no JSON value")
