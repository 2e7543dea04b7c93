"""One way to turn ``random_state`` into a generator."""

from typing import TypeAlias

import numpy as np

RandomState: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None


def check_rng(random_state: RandomState) -> np.random.Generator:
    """Return a generator: a given one as it is, otherwise a new one seeded with the argument.

    Examples
    --------
    >>> check_rng(0).integers(10) == check_rng(0).integers(10)
    np.True_
    """
    return np.random.default_rng(random_state)
