"""How much the contents of views count where nothing is given: so that views agree on scores."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from acqh._core.arrays import Floats
from acqh.methods.acqh.blocks import Block

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
    blocks: Mapping[str, Block], pairs: Mapping[tuple[str, str], PairScores]
) -> dict[str, Block]:
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
