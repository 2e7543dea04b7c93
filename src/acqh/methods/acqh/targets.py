"""What scores should be: targets, how much each counts, and how far what is known is trusted."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from acqh._core.arrays import Floats, Ints, check_positive_int
from acqh.errors import InvalidInputError, LabelError, ViewError

if TYPE_CHECKING:
    from acqh.methods.acqh.blocks import Block
    from acqh.methods.acqh.space import Space
    from acqh.stats.sample import RowSample

Kind = Literal["content", "inner", "cosine"]
AUTO = "auto"
# The target that is not a view.
LABELS = "labels"
# From rows of views to their mapped features.
MapRows = Callable[[Mapping[str, Any]], Mapping[str, Any]]


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
        raise ViewError(
            "a view cannot be called 'labels', which names the labels among the targets; give the "
            "view another name"
        )
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
        if name == LABELS and target.trust == AUTO:
            raise InvalidInputError(
                "the trust of labels cannot be chosen by 'auto', which asks for items by their own "
                "features; give a number from 0 to 1"
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


# Rows that have both views; fewer say too little.
LEAST_ROWS = 16
# Powers of the agreement that a content has alone, which are weights: from all alike to all but
# one next to nothing.
_POWERS = np.arange(0.0, 32.5, 0.5)
# No content counts less than this, relative to all, so that items can be found by any.
_LEAST_WEIGHT = 0.01
# Agreement that more even weights may cost: this share of the best, or what it differs by from one
# draw of rows to the next.
_SHARE, _NOISE = 0.05, 0.02


@dataclass(frozen=True)
class PairScores:
    """Scores of all pairs of different rows, asked for by either of two views, as sums.

    Of scores in the content of one view and in that of the other, so (2, 2) each.
    """

    by_first: Floats  # products of scores asked for by the first view
    by_second: Floats
    by_both: Floats  # asked for by the first, times asked for by the second

    @classmethod
    def of(
        cls, first: Floats, second: Floats, first_guess: Floats, second_guess: Floats
    ) -> "PairScores":
        """Sum up the scores of rows, asked for by what each view alone says of both contents.

        `first`, `second`: (n_rows, rank); the contents as they are. `first_guess`, `second_guess`:
        the same, predicted by the other view.
        """
        items = first, second
        moments = [[one.T @ other for other in items] for one in items]

        def sums(asked: tuple[Floats, Floats], again: tuple[Floats, Floats]) -> Floats:
            # All scores in one content are a product of two matrices, so their products summed
            # over rows are those of moments; scores of rows with themselves are taken out.
            own = [
                np.array([np.einsum("ij,ij->i", q, x) for q, x in zip(by, items, strict=True)])
                for by in (asked, again)
            ]
            whole = [
                [np.vdot(asked[k].T @ again[m], moments[k][m]) for m in (0, 1)] for k in (0, 1)
            ]
            return np.asarray(np.array(whole) - own[0] @ own[1].T)

        one, other = (first, second_guess), (first_guess, second)
        return cls(sums(one, one), sums(other, other), sums(one, other))

    def agreement(self, first: float, second: float) -> float:
        """Return the correlation of scores asked for by either view, given weights of contents.

        Contents have mean zero, and so have scores.
        """
        weights = np.array([first, second])
        power = (weights @ self.by_first @ weights) * (weights @ self.by_second @ weights)
        return float(weights @ self.by_both @ weights / np.sqrt(power)) if power > 0 else 0.0


def weigh_by_agreement(
    blocks: Mapping[str, "Block"], pairs: Mapping[tuple[str, str], PairScores]
) -> dict[str, "Block"]:
    """Return blocks with weights under which views agree on what is similar.

    An item asked for by its image or by its text should find the same, and what only one of them
    knows cannot make it so. Of weights under which views agree nearly as well as under any, the
    most even are taken: so that items can be found by all that they show or say.

    Parameters
    ----------
    blocks : mapping of str to Block
        Of the contents of views.
    pairs : mapping of (str, str) to PairScores
        Of two views each that enough rows have both of.

    Returns
    -------
    dict of str to Block
        Weights add up to one.
    """
    names = [*blocks]
    alone = np.array([_agreement(pairs, names, row) for row in np.eye(len(names))])
    strengths = np.maximum(alone / max(alone.max(), np.finfo(float).tiny), _LEAST_WEIGHT)
    tried = strengths ** _POWERS[:, None]
    tried = tried / tried.sum(axis=1, keepdims=True) + _LEAST_WEIGHT
    tried /= tried.sum(axis=1, keepdims=True)
    found = np.array([_agreement(pairs, names, weights) for weights in tried])
    best = float(found.max())
    chosen = tried[int(np.argmax(found >= best - max(_SHARE * best, _NOISE)))]
    return {
        name: replace(block, target=replace(block.target, weight=float(weight)))
        for (name, block), weight in zip(blocks.items(), chosen, strict=True)
    }


def _agreement(
    pairs: Mapping[tuple[str, str], PairScores], names: list[str], weights: Floats
) -> float:
    """Return how far each view agrees with the other that it agrees with best, by weight."""
    given = dict(zip(names, weights.tolist(), strict=True))
    best = dict.fromkeys(names, -np.inf)
    for (first, second), scores in pairs.items():
        found = scores.agreement(given[first], given[second])
        best[first], best[second] = max(best[first], found), max(best[second], found)
    return float(sum(given[name] * it for name, it in best.items() if np.isfinite(it)))


# How many times their share of the hits rows may take that have what is trusted.
_MAX_EXCESS = 1.1
# Among fewer rows than this, the first ten say little of the share.
_MIN_ROWS = 100
TRUSTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Of the rows that their own features find with full trust, how many must still be found.
_KEPT = 0.95
_N_FIRST = 10
# Where no row has both, so that none can be asked for; rows that could came to 0.1 or 0.2.
_UNSEEN = 0.2
# Rows of the sample that are looked for, and among which.
_MAX_ASKED, _MAX_ROWS = 512, 2_048


def settle_trust(space: "Space", map_rows: MapRows, sample: "RowSample") -> "Space":
    """Choose the trust of every target that leaves it open.

    Two items of which one has a caption and one has not are compared with a typed text by numbers
    of different kinds, a similarity of texts and an expectation of it. Where images say most of
    what captions do, the two are alike, and captions count as much as they can. Otherwise the
    second is far nearer to zero, and the first kind leads every list. Then captions count as little
    as they may without losing what they are there for: an item is to be found by its own.

    The space comes before its maps, and goes with numbers for all trusts; `sample` are rows of the
    collection, which alone decide.
    """
    names = [name for name, block in space.blocks.items() if block.target.trust == AUTO]
    for name in names:
        space = _settled(space, name, 1.0)
    for name in names:
        space = _settled(space, name, _choose_trust(space, name, map_rows, sample))
    return space


def _settled(space: "Space", name: str, trust: float) -> "Space":
    block = space.blocks[name]
    block = replace(block, target=replace(block.target, trust=trust))
    return replace(space, blocks={**space.blocks, name: block})


def _choose_trust(space: "Space", name: str, map_rows: MapRows, sample: "RowSample") -> float:
    rows, source = sample.first(_MAX_ROWS), space.blocks[name].source
    others = [view for view in rows.views if name in space.predictors[view]]
    has_both = np.any([rows.present[view] for view in others], axis=0) if others else False
    asked = np.flatnonzero(has_both & rows.present[source])
    # Rows that stand in for others count less, and come last.
    asked = asked[np.argsort(-rows.counts[asked], kind="stable")][:_MAX_ASKED]
    if not asked.size:
        return _UNSEEN
    trials = {
        trust: _try(_settled(space, name, trust), source, map_rows, rows, asked) for trust in TRUSTS
    }
    fair = [trust for trust, (_, excess) in trials.items() if excess <= _MAX_EXCESS]
    if fair:
        return max(fair)
    enough = _KEPT * trials[1.0][0]
    return next(trust for trust, (found, _) in trials.items() if found >= enough)


def _try(
    space: "Space", source: str, map_rows: MapRows, rows: "RowSample", asked: Ints
) -> tuple[float, float]:
    """Look for some rows by their features of one view, among all.

    Returns the weight of those that are among their own first ten, and how many times their share
    rows that have the view take of the other hits.
    """
    queries = space.fold([source]).apply(map_rows({source: rows.views[source][asked]}))
    vectors = np.empty((len(rows), queries.shape[1]))
    for chosen, described in space.describe_rows(rows, map_rows):
        vectors[chosen] = space.scale(described)
    scores = queries @ vectors.T
    places = np.arange(len(asked)), asked
    is_found = (scores > scores[places][:, np.newaxis]).sum(axis=1) < _N_FIRST
    scores[places] = -np.inf
    # Rows that stand in for others are not there to be found.
    is_real, has_view = rows.counts >= 1, rows.present[source]
    scores[:, ~is_real] = -np.inf
    excess = np.inf
    if is_real[asked].any() and is_real.sum() >= _MIN_ROWS:
        hits = np.argpartition(-scores[is_real[asked]], _N_FIRST, axis=1)[:, :_N_FIRST]
        excess = float(has_view[hits].mean() / has_view[is_real].mean())
    return float(rows.counts[asked] @ is_found), excess
