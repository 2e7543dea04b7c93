"""One target: what a setting says of it, without what learning needs."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh.errors import InvalidInputError

Kind = Literal["content", "inner", "cosine"]
AUTO = "auto"


@dataclass(frozen=True)
class Target:
    """One part of what a score should be.

    Parameters
    ----------
    weight : float
        Its share of the score, relative to the weights of the other targets; every target is
        scaled to a mean squared length of one first. Not negative.
    similarity : {"content", "inner", "cosine"}
        Of a view: ``"content"``, the inner product of centred features; ``"inner"``, of features
        as they are, for a teacher's vectors; ``"cosine"``, of features scaled to unit length. Of
        labels, the argument `similarity` of `ACQH` says what counts.
    rank : int, optional
        Principal directions that are kept; by default as many as there are, 256 at most.
    trust : float or "auto"
        How much an item's own features count for this target, from 0 to 1; the rest is what its
        other views predict of them. Where some items have these features and others do not,
        items that have them are found by them first, whatever else they show. ``"auto"``: as
        much as leaves these items about their share of the hits; where nothing does, as little as
        keeps them findable by their own features.

    Raises
    ------
    InvalidInputError
        A weight that is negative or no number, an unknown similarity, a rank below one, or a trust
        outside 0 to 1.

    Examples
    --------
    >>> Target(0.5, rank=64)
    Target(weight=0.5, similarity='content', rank=64, trust=1.0)
    """

    weight: float = 1.0
    similarity: Kind = "content"
    rank: int | None = None
    trust: float | Literal["auto"] = 1.0

    def __post_init__(self) -> None:
        weight = _number(self.weight)
        if not (np.isfinite(weight) and weight >= 0):
            raise InvalidInputError(
                f"the weight of a target must be a number of at least zero, got {self.weight!r}"
            )
        if self.similarity not in get_args(Kind):
            raise InvalidInputError(
                f"the similarity of a target must be one of {', '.join(get_args(Kind))}, got "
                f"{self.similarity!r}"
            )
        if self.rank is not None:
            check_positive_int(self.rank, "the rank of a target")
        if self.trust != AUTO and not 0 <= _number(self.trust) <= 1:
            raise InvalidInputError(
                f"the trust of a target must be a number from 0 to 1, or 'auto', got {self.trust!r}"
            )


def _number(given: Any) -> float:
    """Return what was given as a number, NaN where it is none."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return float("nan")
