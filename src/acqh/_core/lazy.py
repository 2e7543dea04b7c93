"""Names of a package that are imported when they are first asked for."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    otherwise: Callable[[str], Any] | None = None,
    former: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    What a program does not use, it need not wait for: scikit-learn and Numba alone take more than
    a second to import. Type checkers are told the same by imports under ``TYPE_CHECKING``.

    `package`: its ``__name__``. `homes`: modules, and the names that each defines, separated by
    spaces. `former`: names of the release before, which work with a warning, and what to write
    instead. `otherwise` is asked for other names; by default they raise AttributeError.

    Examples
    --------
    >>> find, _ = lazy_names("json", {"json.decoder": "JSONDecoder JSONDecodeError"})
    >>> find("JSONDecoder").__name__
    'JSONDecoder'
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if former is not None and name in former:
            warn_of_former(f"{package}.{name}", former[name])
            room, _, now = former[name].rpartition(".")
            return getattr(import_module(room), now)
        if name not in home_of:
            if otherwise is not None:
                return otherwise(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, names


def warn_of_former(name: str, now: str, *, stacklevel: int = 3) -> None:
    """Say that a public name goes, and what to write instead.

    `stacklevel`: of the user's line, as `warnings.warn` would count it from here.
    """
    message = f"{name} goes with the next release; use {now}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
