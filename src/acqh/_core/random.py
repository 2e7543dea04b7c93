"""One way to turn ``random_state`` into a generator."""

from typing import TypeAlias

import numpy as np

from acqh.errors import InvalidInputError

RandomState: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None


def check_rng(random_state: RandomState) -> np.random.Generator:
    """Return a generator: a given one as it is, otherwise a new one seeded with the argument.

    Raises InvalidInputError: the argument seeds nothing.

    Examples
    --------
    >>> check_rng(0).integers(10) == check_rng(0).integers(10)
    np.True_
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "random_state must be a whole number of at least 0, a Generator, a SeedSequence or "
            f"None, got {random_state!r}"
        ) from None
