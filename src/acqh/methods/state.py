"""Fitted methods as bundles: the registry's name, parameters and arrays; never a pickle."""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.store import pack
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import Bundle, write_bundle
from acqh.methods.entries import (
    HOMES,
    KIND,
    MEMBER,
    STORABLE,
    check_sizes,
    join,
    read_method,
    restore_numbers,
    take,
    unpack_map,
)
from acqh.methods.registry import get
from acqh.methods.registry import list as list_methods
from acqh.stats import Keep, RowSample, Statistics

# Attributes that only a fitted method has, whichever it is.
_REQUIRED = frozenset({"feature_maps_", "label_names_", "n_features_in_"})


def save_method(method: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted method to a bundle, in place of what the path held before.

    Stored are the method's name in the registry, its parameters and every attribute that ends
    in an underscore. A ``Generator`` given as `random_state` is left out.

    `method`: fitted. `path`: a directory; created if it does not exist. Raises InvalidInputError: a
    parameter or attribute that cannot be stored, such as a function. Raises NotFittedError: the
    method is not fitted.
    """
    info, arrays = _stored(method)
    write_bundle(path, kind=KIND, name=method.info.title, info=info, arrays={MEMBER: arrays})


def fingerprint(method: Any) -> str:
    """Return a text that two fitted methods share only if all that is saved of them is the same.

    A method that was saved and loaded keeps its fingerprint. One that was fitted again may get
    another, where sums were rounded in another order.

    Parameters
    ----------
    method : BaseMethod
        Fitted.

    Returns
    -------
    str
        64 hexadecimal digits, the sha256 of name, parameters and fitted attributes.

    Raises
    ------
    InvalidInputError
        A parameter or attribute that cannot be stored, such as a function.
    NotFittedError
        The method is not fitted.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> method = acqh.methods.get("label-ridge")().fit(data)
    >>> len(acqh.methods.fingerprint(method))
    64
    """
    info, arrays = _stored(method)
    digest = hashlib.sha256(json.dumps(info, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(json.dumps([name, little.dtype.str, little.shape]).encode())
        digest.update(little.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _stored(method: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return all that is saved of a fitted method: values that JSON can hold, and named arrays."""
    method._check_fitted()
    params = method.get_params(deep=False)
    stored_params = {name: _param_to_json(name, value) for name, value in params.items()}
    arrays: dict[str, Array] = {}
    attributes = {}
    for name, value in sorted(vars(method).items()):
        if name.endswith("_") and not name.startswith("_"):
            attributes[name], parts = _describe(name, value)
            arrays.update({join(name, key): array for key, array in parts.items()})
    info = {"method": method.info.name, "params": stored_params, "attributes": attributes}
    return info, arrays


def load_method(path: str | os.PathLike[str]) -> Any:
    """Return the fitted method that was saved to a bundle.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    BaseMethod
        Of the class that the registry has under the stored name.

    Raises
    ------
    FileNotFoundError
        There is no bundle at the path.
    CorruptBundleError
        The bundle is damaged, or of a method that this version does not know.
    InvalidInputError
        The bundle holds something other than a method.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> from pathlib import Path
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> method = acqh.methods.get("label-ridge")().fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     method.save(Path(folder, "control.acqh"))
    ...     acqh.methods.load_method(Path(folder, "control.acqh"))
    LabelRidge()
    """
    return method_of(read_method(path))


def method_of(bundle: Bundle) -> Any:
    """Return the fitted method that a bundle holds; raises what `load_method` does."""
    path = bundle.path
    match bundle.info:
        case {"method": str(name), "params": dict(params), "attributes": dict(attributes)}:
            pass
        case _:
            raise CorruptBundleError(f"{path} does not describe a method")
    if name not in list_methods():
        raise CorruptBundleError(
            f"{path} holds the method {name!r}, which this version of acqh does not have"
        )
    arrays = bundle.arrays(MEMBER)
    try:
        method = get(name)(**{key: _param_from_json(value) for key, value in params.items()})
        method._check_parameters()
        fitted = {key: _restore(key, entry, arrays) for key, entry in attributes.items()}
        if "codebooks_" in fitted:
            check_sizes(fitted, method.n_codebooks, getattr(method, "_n_norm_codebooks", 0))
    except (InvalidInputError, KeyError, TypeError, ValueError) as error:
        raise CorruptBundleError(f"{path} holds no readable {name!r}: {error}") from error
    if arrays or not fitted.keys() >= _REQUIRED:
        raise CorruptBundleError(
            f"{path} holds no whole {name!r}: arrays left over {sorted(arrays)}, attributes "
            f"missing {sorted(_REQUIRED - fitted.keys())}"
        )
    method._set_fitted(fitted)
    return method


def _describe(name: str, value: Any) -> tuple[Any, dict[str, Array]]:
    """Return how an attribute is stored: JSON that names its kind, and its arrays by key."""
    if isinstance(value, Statistics):
        entry = {"kind": "statistics", "n_labels": value.n_labels}
        if value.keep is not None:
            pairs = value.keep.pairs
            entry["pairs"] = pairs if pairs == "all" else sorted(map(list, pairs))
        return entry, value.to_arrays()
    if hasattr(value, "stored_as"):
        facts, parts = value.to_state()
        return {"kind": "object", "class": value.stored_as, "facts": _as_json(name, facts)}, parts
    if isinstance(value, dict) and any(isinstance(each, RowSample) for each in value.values()):
        parts = {
            join(str(position), key): array
            for position, sample in enumerate(value.values())
            for key, array in sample.to_arrays().items()
        }
        return {"kind": "samples", "keys": [*value]}, parts
    if isinstance(value, np.ndarray):
        return {"kind": "array"}, {"": value}
    if name == "feature_maps_":
        states = [pack(feature_map, HOMES) for feature_map in value.values()]
        parts = {
            join(str(position), key): array
            for position, (_, arrays) in enumerate(states)
            for key, array in arrays.items()
        }
        described = [[view, state[0]] for view, state in zip(value, states, strict=True)]
        return {"kind": "maps", "maps": described}, parts
    if isinstance(value, dict) and any(isinstance(each, np.ndarray) for each in value.values()):
        return {"kind": "arrays", "keys": [*value]}, value
    if isinstance(value, tuple):
        return {"kind": "tuple", "value": _as_json(name, list(value))}, {}
    return {"kind": "json", "value": _as_json(name, value)}, {}


def _restore(name: str, entry: Mapping[str, Any], arrays: dict[str, Array]) -> Any:
    """Return an attribute from its description; takes its arrays out of `arrays`."""
    if not name.isidentifier() or name.startswith("_") or not name.endswith("_"):
        raise CorruptBundleError(f"{name!r} cannot name a fitted attribute")
    kind = entry["kind"]
    if kind == "statistics":
        return _restore_statistics(entry, take(name, arrays))
    if kind == "object":
        return STORABLE[entry["class"]].from_state(entry["facts"], take(name, arrays))
    if kind == "samples":
        return {
            key: RowSample.from_arrays(take(join(name, str(position)), arrays))
            for position, key in enumerate(entry["keys"])
        }
    if kind == "maps":
        return {
            view: unpack_map(description, take(join(name, str(position)), arrays))
            for position, (view, description) in enumerate(entry["maps"])
        }
    return restore_numbers(name, entry, arrays)


def _restore_statistics(entry: Mapping[str, Any], arrays: dict[str, Array]) -> Statistics:
    stats = Statistics.from_arrays(arrays, int(entry["n_labels"]))
    pairs = entry.get("pairs", "all")
    if stats.keep is not None and pairs != "all":
        stats.keep = Keep(frozenset((a, b) for a, b in pairs), stats.keep.sample_size)
    return stats


def _param_to_json(name: str, value: Any) -> Any:
    """Return a parameter as JSON; feature maps become ``{"feature_map": description}``."""
    if isinstance(value, np.random.Generator | np.random.SeedSequence):
        return None
    if isinstance(value, Mapping):
        return {"mapping": {str(k): _param_to_json(name, each) for k, each in value.items()}}
    if hasattr(value, "stored_as"):
        return {"object": [value.stored_as, value.to_state()[0]]}
    if hasattr(value, "fit") and hasattr(value, "transform"):
        return {"feature_map": pack(value, HOMES, fitted=False)[0]}
    return _as_json(name, value)


def _param_from_json(value: Any) -> Any:
    match value:
        case {"mapping": dict(entries)}:
            return {key: _param_from_json(each) for key, each in entries.items()}
        case {"object": [str(kind), dict(facts)]}:
            return STORABLE[kind].from_state(facts, {})
        case {"feature_map": dict(description)}:
            return unpack_map(description, {})
    return value


def _as_json(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_as_json(name, each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _as_json(name, each) for key, each in value.items()}
    raise InvalidInputError(
        f"{name} cannot be stored: a {type(value).__name__} is neither numbers nor text"
    )
