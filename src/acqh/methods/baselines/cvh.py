"""Cross-view hashing: the directions in which the views agree best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.directions import ZERO_SHARE, joint_directions, limit_bits
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


def couple_pairs(views: Sequence[Rows]) -> list[list[Floats]]:
    """Return the coupling of the identity graph: every item is like its own other views only.

    The off-diagonal blocks are the cross products of the views; the diagonal is zero, so that
    for two views the directions are those of canonical correlation analysis.
    """
    blocks: list[list[Floats]] = [[left.cross(right) for right in views] for left in views]
    for v in range(len(views)):
        blocks[v][v] = np.zeros_like(blocks[v][v])
    return blocks


@register(name="cvh")
@dataclass(eq=False, repr=False, kw_only=True)
class CVH(LinearBinaryMethod):
    """Cross-view hashing: the directions in which the views agree best.

    Minimises the distance between the projections of an item's views, which is one generalised
    eigenproblem; for two views it is canonical correlation analysis. There are no more bits than
    directions that all views span: a warning says so where more are asked for.

    Directions that the training features do not span are dropped; the paper does not mention
    them.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    ridge : float
        Added to the diagonal of each view's Gram matrix.

    Attributes
    ----------
    couplings_ : (n_bits,)
        The eigenvalues; of two views, the canonical correlations.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("cvh")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, None)
    ridge: float = 1e-4

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.centred()
        view_rows = list(rows.values())
        directions, couplings = joint_directions(
            [view.gram() for view in view_rows], couple_pairs(view_rows), self.ridge, self.n_bits
        )
        couplings = couplings[couplings > ZERO_SHARE]
        n_bits = limit_bits(self.n_bits, len(couplings), self.info.name)
        projections = {
            view: matrix[:, :n_bits] for view, matrix in zip(rows, directions, strict=True)
        }
        return {**linear_functions(projections, rows=rows), "couplings_": couplings[:n_bits]}
