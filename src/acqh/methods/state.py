"""Fitted methods as bundles: the registry's name, parameters and arrays; never a pickle."""

import hashlib
import json
import os
from collections import ChainMap
from collections.abc import Mapping
from typing import Any, get_type_hints

import numpy as np

from acqh._core.arrays import Array
from acqh._core.store import fits, pack, unpack
from acqh.encoders.named import STORED as _ENCODERS
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.features.named import STORED as _MAPS
from acqh.io import Bundle, read_bundle, write_bundle
from acqh.methods.registry import get
from acqh.methods.registry import list as list_methods

KIND = "method"
MEMBER = "fitted"
# What files can name beside scikit-learn's classes, and where it is: encoders, those of users
# included, feature maps, and what methods are made of.
HOMES: ChainMap[str, Any] = ChainMap(
    _ENCODERS,
    _MAPS,
    dict.fromkeys(("Keep", "LabelSets", "Moments", "RowSample", "Statistics"), "acqh.stats"),
    {
        "Block": "acqh.methods.acqh.blocks",
        "LabelEmbedding": "acqh.methods.acqh.similarity",
        "Predictor": "acqh.methods.acqh.blocks",
        "Space": "acqh.methods.acqh.space",
        "Target": "acqh.methods.acqh.targets",
    },
)
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
    params = {
        name: _packed(name, value, fitted=False)[0]
        for name, value in method.get_params(deep=False).items()
    }
    arrays: dict[str, Array] = {}
    attributes = {}
    for name, value in sorted(vars(method).items()):
        if name.endswith("_") and not name.startswith("_"):
            attributes[name], own = _packed(name, value)
            arrays |= own
    return {"method": method.info.name, "params": params, "attributes": attributes}, arrays


def _packed(name: str, value: Any, *, fitted: bool = True) -> tuple[Any, dict[str, Array]]:
    try:
        return pack(value, HOMES, fitted=fitted, path=name)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name} cannot be stored: {error}") from error


def read_method(path: str | os.PathLike[str]) -> Bundle:
    """Read the bundle of a fitted method, every byte of it checked."""
    return read_bundle(path, kind=KIND, mmap=False, verify=True)


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
        read = {key: unpack(value, arrays, HOMES, whole=False) for key, value in params.items()}
        method = get(name)(**read)
        method._check_parameters()
        fitted = {
            key: unpack(value, arrays, HOMES, whole=False) for key, value in attributes.items()
        }
        _check_types(type(method), fitted)
        if "codebooks_" in fitted:
            check_sizes(fitted, method.n_codebooks, getattr(method, "_n_norm_codebooks", 0))
    except (AttributeError, InvalidInputError, KeyError, TypeError, ValueError) as error:
        raise CorruptBundleError(f"{path} holds no readable {name!r}: {error}") from error
    if arrays or not fitted.keys() >= _REQUIRED:
        raise CorruptBundleError(
            f"{path} holds no whole {name!r}: arrays left over {sorted(arrays)}, attributes "
            f"missing {sorted(_REQUIRED - fitted.keys())}"
        )
    for key, value in fitted.items():
        setattr(method, key, value)
    return method


def _check_types(kind: type, fitted: Mapping[str, Any]) -> None:
    """Refuse names that are none of fitted attributes, and values of another type than declared."""
    hints = get_type_hints(kind)
    for name, value in fitted.items():
        if not name.isidentifier() or name.startswith("_") or not name.endswith("_"):
            raise InvalidInputError(f"{name!r} cannot name a fitted attribute")
        if not fits(value, hints.get(name, Any)):
            raise InvalidInputError(f"{name} is {value!r:.80}, not a {hints[name]}")


def check_sizes(fitted: Mapping[str, Any], n_codebooks: int, n_norms: int = 0) -> None:
    """Refuse codebooks and projections whose sizes contradict one another or the parameters.

    Some methods store one more codebook and component, for norms.
    """
    books = fitted["codebooks_"]
    if books.ndim != 3 or len(books) != n_codebooks + n_norms:
        raise InvalidInputError(f"codebooks of shape {books.shape} for {n_codebooks}")
    for view, matrix in fitted.get("projections_", {}).items():
        if matrix.ndim != 2 or matrix.shape[1] != books.shape[2] - n_norms:
            raise InvalidInputError(f"projections of shape {matrix.shape} for view {view!r}")
