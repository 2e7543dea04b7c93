"""Every method by name, with what a table needs to know of it."""

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, TypeVar

from acqh._core.imports import load_plugins
from acqh.errors import InvalidInputError
from acqh.methods._inherited import inherit_docs

CodeKind = Literal["additive", "binary", "real"]
DatabaseMode = Literal["learnt", "hashed", "unified"]

Method = TypeVar("Method", bound=type)


@dataclass(frozen=True)
class MethodInfo:
    """What there is to know of a method without running it.

    Attributes
    ----------
    name : str
    title : str
        Its name in words.
    reference : str
        Authors, title, venue.
    year : int
    supervised : bool
        Whether ``fit`` learns from labels.
    label_free : bool
        Whether ``fit`` can do without labels; by default, where it does not learn from them.
    code : {"additive", "binary", "real"}
        How a database item is stored: one byte per codebook, bits, or real numbers.
    modes : tuple of {"learnt", "hashed", "unified"}
        How a database can be coded; the paper's own way first. ``"learnt"`` uses the items'
        labels or training codes, ``"hashed"`` one view, ``"unified"`` all views together.
    reconstruction : str
        What of it is our reconstruction, for want of a public source; empty if nothing.
    """

    name: str
    title: str
    reference: str
    year: int
    supervised: bool
    code: CodeKind
    modes: tuple[DatabaseMode, ...]
    reconstruction: str = ""
    label_free: bool | None = None

    def __post_init__(self) -> None:
        if self.label_free is None:
            object.__setattr__(self, "label_free", not self.supervised)


_METHODS: dict[str, type[Any]] = {}


def register(**facts: Any) -> Callable[[Method], Method]:
    """Return a class decorator that enters a method under its name; takes MethodInfo's fields."""
    info = MethodInfo(**facts)

    def enter(cls: Method) -> Method:
        known = _METHODS.get(info.name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise InvalidInputError(f"two methods are called {info.name!r}: {known} and {cls}")
        cls.info = info  # type: ignore[attr-defined]
        inherit_docs(cls, getattr(cls, "_example", "").format(name=info.name))
        _METHODS[info.name] = cls
        return cls

    return enter


def _load_all() -> None:
    """Import every file of the room, and every plug-in, so that its method registers itself."""
    package = import_module("acqh.methods")
    for module in iter_modules(package.__path__):
        if not module.name.startswith("_"):
            import_module(f"acqh.methods.{module.name}")
    load_plugins("acqh.methods")


def list() -> builtins.list[str]:  # noqa: A001
    """Return the names of all methods, in alphabetical order.

    Examples
    --------
    >>> import acqh
    >>> "label-ridge" in acqh.methods.list()
    True
    """
    _load_all()
    return sorted(_METHODS)


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
    _load_all()
    if name not in _METHODS:
        raise InvalidInputError(f"no method is called {name!r}; there are: {', '.join(list())}")
    return _METHODS[name]
