"""How work that takes a while says how far it is."""

from collections.abc import Callable
from typing import TypeAlias

# Called with how much is done, of how much (None: not known), and what.
Progress: TypeAlias = Callable[[int, int | None, str], None]


def say_nothing(done: int, total: int | None, what: str) -> None:
    """Report no progress."""
