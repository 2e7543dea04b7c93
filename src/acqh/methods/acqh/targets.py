"""Learning targets, which define the ideal scores, and their weights."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh.errors import InvalidInputError, LabelError, ViewError

Kind = Literal["content", "inner", "cosine"]
AUTO = "auto"
# The target that is not a view.
LABELS = "labels"
# From rows of views to their mapped features.
MapRows = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Target:
    """One target similarity: a weighted part of the score.

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
    caption_weight : float or "auto"
        Weight of an item's own features for this target, from 0 to 1; the rest comes from the
        predictions of its other views. If only some items have these features, such as captions,
        a large weight ranks them above all others. ``"auto"``: the largest weight at which these
        items take about their share of the hits. If there is none, the smallest at which they
        are retrieved by their own features.
    ridge : float, optional
        Ridge of the regressions that predict this target. Default: the `ridge` of `ACQH`.

    Raises
    ------
    InvalidInputError
        A weight or ridge that is negative or not a number, an unknown similarity, a rank below one,
        or a `caption_weight` outside 0 to 1.

    Examples
    --------
    >>> Target(0.5, rank=64)
    Target(weight=0.5, similarity='content', rank=64, caption_weight=1.0, ridge=None)
    """

    weight: float = 1.0
    similarity: Kind = "content"
    rank: int | None = None
    caption_weight: float | Literal["auto"] = 1.0
    ridge: float | None = None

    def __post_init__(self) -> None:
        for name in ("weight", "ridge"):
            value = getattr(self, name)
            if value is not None or name == "weight":
                number = _number(value)
                if not (np.isfinite(number) and number >= 0):
                    raise InvalidInputError(
                        f"the {name} of a target must be a number of at least zero, got {value!r}"
                    )
        if self.similarity not in get_args(Kind):
            raise InvalidInputError(
                f"the similarity of a target must be one of {', '.join(get_args(Kind))}, got "
                f"{self.similarity!r}"
            )
        if self.rank is not None:
            check_positive_int(self.rank, "the rank of a target")
        if self.caption_weight != AUTO and not 0 <= _number(self.caption_weight) <= 1:
            raise InvalidInputError(
                "the caption_weight of a target must be a number from 0 to 1 or 'auto', got "
                f"{self.caption_weight!r}"
            )


def _number(value: Any) -> float:
    """Return a value as float, NaN if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def read_targets(
    targets: Mapping[str, float | Target] | None, views: Collection[str], has_labels: bool
) -> dict[str, Target]:
    """Return the targets by name, without those of weight zero.

    Parameters
    ----------
    targets : mapping of str to float or Target, or None
        None: labels where there are any, otherwise the content of all views, to be weighed.
    views : collection of str
    has_labels : bool
        Whether the data come with labels.

    Raises
    ------
    InvalidInputError
        No mapping, or weights that are negative or all zero.
    LabelError
        Labels are a target, but there are none.
    ViewError
        A target that is not a view, or a view called "labels".
    """
    if LABELS in views:
        raise ViewError("'labels' is the name of the labels among the targets; rename the view")
    if targets is None:
        if has_labels:
            return {LABELS: Target()}
        return {view: Target(1.0 / len(views)) for view in views}
    if not isinstance(targets, Mapping):
        raise InvalidInputError(
            "targets must be a mapping of names to weights, such as {'labels': 0.5, 'text': 0.5}, "
            f"got {type(targets).__name__}"
        )
    read = {
        name: target if isinstance(target, Target) else Target(target)
        for name, target in targets.items()
    }
    for name, target in read.items():
        if name not in views and name != LABELS:
            raise ViewError(
                f"the target {name!r} is not a view; targets may be {sorted(views)} and 'labels'"
            )
        if name == LABELS and target.similarity != "content":
            raise InvalidInputError(
                "the similarity of labels is the argument `similarity` of ACQH, not that of their "
                f"Target, which is {target.similarity!r}"
            )
        if name == LABELS and target.caption_weight == AUTO:
            raise InvalidInputError(
                "caption_weight='auto' is not possible for labels; pass a number from 0 to 1"
            )
    used = {name: target for name, target in read.items() if target.weight > 0}
    if not used:
        raise InvalidInputError(f"a target must have a weight above zero, got {dict(targets)}")
    if LABELS in used and not has_labels:
        raise LabelError(
            "labels are needed: they are a target, but the data have none; give labels with the "
            "views, or take them out of targets"
        )
    return used
