"""When a search may end before its answer is proven."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh.errors import InvalidInputError
from acqh.index.search.types import NO_LIMIT, Effort, Runs, Target


class Stop(NamedTuple):
    """When a search may end before its answer is proven; by default never."""

    budget: int | None = None  # how many codes each query may look at
    epsilon: float = 0.0  # what is missed scores at most this much more than the k-th best
    recall: float = 1.0  # what share of the k best is to be found, as expected

    def efforts(self, targets: Sequence[Target[Runs]], k: int) -> Sequence[Effort | None]:
        """Return what each target may cost, in proportion to its codes."""
        if self == TO_THE_END:
            return [None] * len(targets)
        ends = np.cumsum([len(target.arrays.tails) for target in targets])
        efforts, before = [], 0
        for end in ends.tolist():
            share = (end - before) / max(int(ends[-1]), 1)
            limit = NO_LIMIT
            if self.budget is not None:
                limit = -(-self.budget * end // max(int(ends[-1]), 1))
            misses = (1 - self.recall) * k * share if self.recall < 1 else -1.0
            efforts.append(Effort(limit, float(np.float32(self.epsilon)), misses))
            before = end
        return efforts


TO_THE_END = Stop()


def as_stop(budget: Any, epsilon: Any, recall: Any) -> Stop:
    """Check when a search may stop; raise InvalidInputError.

    Examples
    --------
    >>> as_stop(budget=100, epsilon=None, recall=0.9)
    Stop(budget=100, epsilon=0.0, recall=0.9)
    """
    epsilon, recall = (0.0 if epsilon is None else epsilon), (1.0 if recall is None else recall)
    if not isinstance(epsilon, int | float | np.number) or not 0 <= epsilon < np.inf:
        raise InvalidInputError(f"epsilon must be a finite score of at least 0, got {epsilon!r}")
    if not isinstance(recall, int | float | np.number) or not 0 < recall <= 1:
        raise InvalidInputError(f"recall must be above 0 and at most 1, got {recall!r}")
    budget = None if budget is None else check_positive_int(budget, "budget")
    return Stop(budget, float(epsilon), float(recall))
