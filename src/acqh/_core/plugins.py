"""What other installed packages add: objects that they name in an entry-point group."""

import warnings
from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def load_plugins(group: str) -> dict[str, Any]:
    """Return what installed packages offer under a group, by name.

    One that cannot be loaded is passed over with a warning: a package that has nothing to do
    with the task at hand must not be able to stop it.

    A group is such as ``"acqh.methods"``; what it has is the same on every call.

    Examples
    --------
    >>> load_plugins("acqh.nothing")
    {}
    """
    found: dict[str, Any] = {}
    for entry in entry_points(group=group):
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # a plug-in may fail in any way
            warnings.warn(
                f"the plug-in {entry.name!r} ({entry.value}) of {group} cannot be loaded: "
                f"{error!r}",
                stacklevel=2,
            )
    return found
