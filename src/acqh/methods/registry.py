"""Every method by name, with what a table needs to know of it."""

import builtins
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc, signature
from typing import Any, Literal, TypeVar

from acqh._core.imports import load_plugins
from acqh.errors import InvalidInputError

CodeKind = Literal["additive", "binary", "real"]
DatabaseMode = Literal["learnt", "hashed", "unified"]

Method = TypeVar("Method", bound=type)
_HEADING = re.compile(r"^(\S.*)\n---+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) :.*(?:\n .*)*", re.MULTILINE)


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

    Examples
    --------
    >>> from acqh.methods import get
    >>> info = get("dch").info
    >>> info.year, info.code, info.modes[0]
    (2017, 'binary', 'learnt')
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


# Where each method of the package is, below `acqh.methods`: it is imported when it is asked for.
HOMES = {
    "acqh": "acqh:ACQH",
    "acqh-paper": "acqh:ACQHPaper",
    "adch": "rivals.discrete.adch:ADCH",
    "ccq": "rivals.additive.ccq:CCQ",
    "cmfh": "rivals.factors.cmfh:CMFH",
    "cre": "rivals.factors.cre:CRE",
    "cvh": "rivals.correlation.cvh:CVH",
    "dch": "rivals.discrete.dch:DCH",
    "dcmh-discrete": "rivals.discrete.dcmh_discrete:DiscreteCMH",
    "dcmh-discriminant": "rivals.discrete.dcmh_discriminant:DiscriminantCMH",
    "ddcmh": "rivals.networks.ddcmh:DDCMH",
    "deep-cmh": "rivals.networks.deep_cmh:DeepCMH",
    "fdch": "rivals.discrete.fdch:FDCH",
    "fsh": "rivals.factors.fsh:FSH",
    "gsph": "rivals.logistic.gsph:GSPH",
    "ksh": "rivals.logistic.ksh:KSH",
    "label-ridge": "rivals.label_ridge:LabelRidge",
    "lssh": "rivals.factors.lssh:LSSH",
    "qch": "rivals.correlation.qch:QCH",
    "scm-orth": "rivals.correlation.scm_orth:SCMOrth",
    "scm-seq": "rivals.correlation.scm_seq:SCMSeq",
    "seph": "rivals.logistic.seph:SePH",
    "stacked": "rivals.additive.stacked:Stacked",
}
_METHODS: dict[str, type[Any]] = {}  # those imported so far, and those of plug-ins


def register(**facts: Any) -> Callable[[Method], Method]:
    """Return a class decorator that enters a method under its name; takes MethodInfo's fields.

    Examples
    --------
    >>> from acqh.methods import BaseMethod, get, register
    >>> facts = {"name": "mine", "title": "Mine", "reference": "none", "year": 2026}
    >>> facts |= {"supervised": True, "code": "real", "modes": ("hashed",)}
    >>> @register(**facts)  # doctest: +SKIP
    ... class Mine(BaseMethod): ...
    >>> get("mine").info.year  # doctest: +SKIP
    2026
    """
    info = MethodInfo(**facts)

    def enter(cls: Method) -> Method:
        known = _METHODS.get(info.name, HOMES.get(info.name, cls.__qualname__))
        named = known.rpartition(":")[2] if isinstance(known, str) else known.__qualname__
        if named != cls.__qualname__:
            raise InvalidInputError(f"two methods are called {info.name!r}: {known} and {cls}")
        cls.info = info  # type: ignore[attr-defined]
        inherit_docs(cls, getattr(cls, "_example", "").format(name=info.name))
        _METHODS[info.name] = cls
        return cls

    return enter


def list() -> builtins.list[str]:  # noqa: A001
    """Return the names of all methods, in alphabetical order.

    Examples
    --------
    >>> import acqh
    >>> "label-ridge" in acqh.methods.list()
    True
    """
    load_plugins("acqh.methods")
    return sorted({*HOMES, *_METHODS})


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
    if name in HOMES:
        module, _, method = HOMES[name].partition(":")
        return getattr(import_module(f"acqh.methods.{module}"), method)  # type: ignore[no-any-return]
    load_plugins("acqh.methods")
    if name not in _METHODS:
        raise InvalidInputError(f"no method is called {name!r}; there are: {', '.join(list())}")
    return _METHODS[name]


def inherit_docs(cls: type[Any], example: str = "") -> None:
    """Give a class's docstring the entries of parameters and attributes that its bases have.

    What the class itself says of one goes before what bases say; so does an example of its own.
    """
    parameters: dict[str, str] = {}
    attributes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        sections = _sections(base)
        parameters |= _entries(sections.get("Parameters", ""))
        attributes |= _entries(sections.get("Attributes", ""))
    own = _sections(cls)
    own.setdefault("Examples", example)
    taken = [parameters[name] for name in signature(cls).parameters if name in parameters]
    merged = {"Parameters": taken, "Attributes": [*attributes.values()]}
    sections = {"": own.pop(""), **{name: "\n".join(each) for name, each in merged.items()}}
    cls.__doc__ = "\n\n".join(
        f"{name}\n{'-' * len(name)}\n{text.strip()}" if name else text.strip()
        for name, text in (sections | {k: v for k, v in own.items() if k not in merged}).items()
        if text
    )


def _sections(cls: type[Any]) -> dict[str, str]:
    """Return a docstring's text by heading; what stands before the first by none."""
    first, *rest = _HEADING.split(cleandoc(cls.__doc__ or ""))
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the first name that they are about."""
    return {entry[1].split(",")[0]: entry[0] for entry in _ENTRY.finditer(section)}
