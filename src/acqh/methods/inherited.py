"""Documentation of parameters and attributes, written once, in the class that brings them."""

import re
from inspect import cleandoc, signature
from typing import Any

_HEADING = re.compile(r"^(\S.*)\n---+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) :.*(?:\n .*)*", re.MULTILINE)


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
