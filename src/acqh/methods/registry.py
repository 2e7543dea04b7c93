"""Every method by name, with what a table needs to know of it; fitted ones as bundles."""

import builtins
import hashlib
import json
import re
import tomllib
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from os import PathLike
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import load_plugins
from acqh._core.runtime import check_parameters
from acqh._core.store import fits, pack, unpack
from acqh.encoders.named import STORED as _ENCODERS
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.features.named import STORED as _MAPS
from acqh.io import Bundle, read_bundle, write_bundle

CodeKind = Literal["additive", "binary", "real"]
Status = Literal["authors' code", "paper", "reconstructed", "plug-in"]
DatabaseMode = Literal["training", "single", "fused"]

Method = TypeVar("Method", bound=type)


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """Facts about a method, available without running it.

    Attributes
    ----------
    name : str
    title : str
        Its name in words.
    reference : str
        Authors, title, venue and year.
    year : int
        By default the number that the reference ends with.
    supervised : bool
        Whether ``fit`` learns from labels.
    label_free : bool
        Whether ``fit`` can do without labels; by default, where it does not learn from them.
    code : {"additive", "binary", "real"}
        How a database item is stored: one byte per codebook, bits, or real numbers. A class that
        derives from one of binary or additive methods need not say it again.
    modes : tuple of {"training", "single", "fused"}
        Kinds of database codes; that of the paper first. ``"training"``: training codes, from the
        items' labels. ``"single"``: out-of-sample codes from one view. ``"fused"``: out-of-sample
        codes from all views.
    status : {"authors' code", "paper", "reconstructed", "plug-in"}
        What the implementation follows: the authors' program, with results that were measured to
        agree; the formulas of the paper; or, if neither gives the whole method, its description.
        Methods from elsewhere are plug-ins.
    reconstruction : str
        Where it differs from its source or had to be completed; empty if nowhere.

    Examples
    --------
    >>> from acqh.methods import get
    >>> info = get("dch").info
    >>> info.year, info.code, info.modes[0]
    (2017, 'binary', 'training')
    """

    name: str
    title: str
    reference: str
    year: int = 0
    supervised: bool
    code: CodeKind
    modes: tuple[DatabaseMode, ...]
    status: Status = "plug-in"
    reconstruction: str = ""
    label_free: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "modes", tuple(self.modes))
        if self.label_free is None:
            object.__setattr__(self, "label_free", not self.supervised)
        if not self.year and (year := re.search(r"\d{4}$", self.reference)):
            object.__setattr__(self, "year", int(year[0]))


# Of each method of the package: its facts, and where its class is, below `acqh.methods`; that is
# imported when it is asked for.
_FACTS = tomllib.loads((files("acqh.methods") / "methods.toml").read_text("utf-8"))
CLASSES: dict[str, str] = {name: facts.pop("class") for name, facts in _FACTS.items()}
KIND = "method"
MEMBER = "fitted"
# Modules of the classes that files can name, in addition to those of scikit-learn: encoders
# (including those of users), feature maps, and parts of methods.
HOMES: ChainMap[str, Any] = ChainMap(
    _ENCODERS,
    _MAPS,
    {
        **dict.fromkeys(("LabelSets", "Moments", "StatisticsConfig"), "acqh.stats.moments"),
        "Regression": "acqh.stats.ridge",
        "RowSample": "acqh.stats.sample",
        "Statistics": "acqh.stats.statistics",
        "Block": "acqh.methods.acqh.space",
        "LabelEmbedding": "acqh.methods.acqh.space",
        "Space": "acqh.methods.acqh.space",
        "Target": "acqh.methods.acqh.targets",
    },
)
# Attributes that only a fitted method has, whichever it is.
_REQUIRED = frozenset({"feature_maps_", "label_names_", "n_features_in_"})
_METHODS: dict[str, type[Any]] = {}  # those imported so far, and those of plug-ins


def register(**facts: Any) -> Callable[[Method], Method]:
    """Return a class decorator that enters a method under its name; takes MethodInfo's fields.

    Examples
    --------
    >>> from acqh.methods import BaseMethod, get, register
    >>> facts = {"name": "mine", "title": "Mine", "reference": "Me, My method, 2026"}
    >>> facts |= {"supervised": True, "code": "real", "modes": ("single",)}
    >>> @register(**facts)  # doctest: +SKIP
    ... class Mine(BaseMethod): ...
    >>> get("mine").info.year  # doctest: +SKIP
    2026
    """

    def enter(cls: Method) -> Method:
        of_class: dict[str, Any] = {"code": getattr(cls, "_stored_as", "real")}
        info = MethodInfo(**(of_class | _FACTS.get(str(facts.get("name")), {}) | facts))
        registered = _METHODS.get(info.name, CLASSES.get(info.name, cls.__qualname__))
        named = (
            registered.rpartition(":")[2]
            if isinstance(registered, str)
            else registered.__qualname__
        )
        if named != cls.__qualname__:
            raise InvalidInputError(f"two methods are called {info.name!r}: {registered} and {cls}")
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise InvalidInputError(f"class {cls.__name__} must also define {', '.join(missing)}")
        cls.info = info  # type: ignore[attr-defined]
        _METHODS[info.name] = cls
        return cls

    return enter


def list(status: Status | None = None) -> builtins.list[str]:  # noqa: A001
    """Return the names of all methods, in alphabetical order.

    Parameters
    ----------
    status : {"authors' code", "paper", "reconstructed", "plug-in"} or None
        Only methods that follow this source; see `MethodInfo`.

    Examples
    --------
    >>> import acqh
    >>> "label-ridge" in acqh.methods.list()
    True
    >>> "ddcmh" in acqh.methods.list("reconstructed")
    True
    """
    load_plugins("acqh.methods")
    if status is not None and status not in get_args(Status):
        allowed = ", ".join(map(repr, get_args(Status)))
        raise InvalidInputError(f"`status` must be one of {allowed}, got {status!r}")
    statuses = {name: facts["status"] for name, facts in _FACTS.items()}
    statuses |= {name: cls.info.status for name, cls in _METHODS.items()}
    return sorted(name for name in statuses if status in (None, statuses[name]))


def get(name: str) -> type[Any]:
    """Return the class of a method.

    Parameters
    ----------
    name : str
        One of `list`.

    Returns
    -------
    type
        A subclass of BaseMethod; its attribute ``info`` is a MethodInfo.

    Raises
    ------
    InvalidInputError
        The name is unknown; the message lists those known.

    Examples
    --------
    >>> import acqh
    >>> acqh.methods.get("label-ridge").info.year
    1970
    """
    if name in CLASSES:
        module, _, method = CLASSES[name].partition(":")
        return getattr(import_module(f"acqh.methods.{module}"), method)  # type: ignore[no-any-return]
    load_plugins("acqh.methods")
    if name not in _METHODS:
        raise InvalidInputError(f"no method is called {name!r}; there are: {', '.join(list())}")
    return _METHODS[name]


def save_method(method: Any, path: str | PathLike[str]) -> None:
    """Write a fitted method to a bundle, in place of what the path held before.

    Stored are the method's name in the registry, its parameters and every attribute that ends
    in an underscore. A ``Generator`` given as `random_state` is omitted.

    `method`: fitted. `path`: a directory; created if it does not exist. Raises InvalidInputError: a
    parameter or attribute that cannot be stored, such as a function. Raises NotFittedError: the
    method is not fitted.
    """
    info, arrays = _stored(method)
    write_bundle(path, kind=KIND, name=method.info.title, info=info, arrays={MEMBER: arrays})


def fingerprint(method: Any) -> str:
    """Return a text that two fitted methods share only if all that is saved of them is the same.

    A method that was saved and loaded keeps its fingerprint. One that was fitted again may get
    another, if additions were rounded in another order.

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
            attributes[name], packed = _packed(name, value)
            arrays |= packed
    return {"method": method.info.name, "params": params, "attributes": attributes}, arrays


def _packed(name: str, value: Any, *, fitted: bool = True) -> tuple[Any, dict[str, Array]]:
    try:
        return pack(value, HOMES, fitted=fitted, path=name)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name} cannot be stored: {error}") from error


def read_method(path: str | PathLike[str]) -> Bundle:
    """Read the bundle of a fitted method, every byte of it checked."""
    return read_bundle(path, kind=KIND, mmap=False, verify=True)


def load_method(path: str | PathLike[str]) -> Any:
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
            raise CorruptBundleError(f"{path} is not a saved method")
    if name not in list():
        raise CorruptBundleError(
            f"{path} holds the method {name!r}, which this version of acqh does not have"
        )
    arrays = bundle.arrays(MEMBER)
    try:
        read = {key: unpack(value, arrays, HOMES, use_all=False) for key, value in params.items()}
        method = get(name)(**read)
        check_parameters(method, method._parameter_constraints)
        fitted = {
            key: unpack(value, arrays, HOMES, use_all=False) for key, value in attributes.items()
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
    """Reject names that are not fitted attributes, and values of another type than declared."""
    hints = get_type_hints(kind)
    for name, value in fitted.items():
        if not name.isidentifier() or name.startswith("_") or not name.endswith("_"):
            raise InvalidInputError(f"{name!r} cannot name a fitted attribute")
        if not fits(value, hints.get(name, Any)):
            raise InvalidInputError(f"{name} is {value!r:.80}, not a {hints[name]}")


def check_sizes(fitted: Mapping[str, Any], n_codebooks: int, n_norms: int = 0) -> None:
    """Reject codebooks and projections whose sizes contradict one another or the parameters.

    Some methods store one more codebook and component, for norms.
    """
    books = fitted["codebooks_"]
    if books.ndim != 3 or len(books) != n_codebooks + n_norms:
        raise InvalidInputError(f"codebooks of shape {books.shape} for {n_codebooks}")
    for view, matrix in fitted.get("projections_", {}).items():
        if matrix.ndim != 2 or matrix.shape[1] != books.shape[2] - n_norms:
            raise InvalidInputError(f"projections of shape {matrix.shape} for view {view!r}")
