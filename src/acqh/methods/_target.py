"""One target: what a setting says of it, without what learning needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from acqh._core.arrays import Array, check_positive_int
from acqh.errors import InvalidInputError
from acqh.methods._entries import storable

Kind = Literal["content", "inner", "cosine"]


@storable("target")
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

    Raises
    ------
    InvalidInputError
        A weight that is negative or no number, an unknown similarity, or a rank below one.

    Examples
    --------
    >>> Target(0.5, rank=64)
    Target(weight=0.5, similarity='content', rank=64)
    """

    weight: float = 1.0
    similarity: Kind = "content"
    rank: int | None = None

    def __post_init__(self) -> None:
        try:
            weight = float(self.weight)
        except (TypeError, ValueError):
            weight = float("nan")
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

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the target as JSON, for `from_state`."""
        facts = {"weight": float(self.weight), "similarity": self.similarity, "rank": self.rank}
        return facts, {}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> "Target":  # noqa: ARG003
        """Return the target of which `to_state` gave the JSON."""
        return cls(**facts)
