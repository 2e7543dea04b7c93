"""Cross-view hashing: the directions in which the views agree best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh.methods.registry import register
from acqh.methods.rivals.binary import LinearBinaryMethod, linear_functions
from acqh.methods.rivals.centred import CentredRows
from acqh.methods.rivals.correlation.directions import ZERO_SHARE, joint_directions, limit_bits
from acqh.methods.rivals.training import Training


def couple_pairs(views: Sequence[CentredRows]) -> list[list[Floats]]:
    """Return the coupling of the identity graph: every item is like its own other views only.

    The off-diagonal blocks are the cross products of the views; the diagonal is zero, so that
    for two views the directions are those of canonical correlation analysis.
    """
    blocks: list[list[Floats]] = [[left.cross(right) for right in views] for left in views]
    for v in range(len(views)):
        blocks[v][v] = np.zeros_like(blocks[v][v])
    return blocks


def couple_labels(views: Sequence[CentredRows], labels: Matrix) -> list[list[Floats]]:
    """Return the coupling of the graph that joins items by how many labels they share.

    With ``W = L Lᵀ``, ``D = diag(W 1)`` and V views, the blocks are ``X_uᵀ W X_v`` off the
    diagonal and ``X_vᵀ (2 W - (V + 1) D) X_v`` on it: the negative of
    ``sum_v 2 X_vᵀ (D - W) X_v + sum_{u<v} sum_ij W_ij ||y_ui - y_vj||²``. W is never formed.
    """
    by_label = [view.transpose_times(labels) for view in views]
    degrees = np.asarray(labels @ labels.sum(axis=0))
    blocks: list[list[Floats]] = [[left @ right.T for right in by_label] for left in by_label]
    for v, view in enumerate(views):
        blocks[v][v] = 2.0 * blocks[v][v] - (len(views) + 1) * view.weighted_gram(degrees)
    return blocks


@register(
    name="cvh",
    title="Cross-view hashing",
    reference="Kumar and Udupa, Learning hash functions for cross-view similarity search, "
    "IJCAI 2011",
    year=2011,
    supervised=False,
    code="binary",
    modes=("hashed", "unified"),
    reconstruction="The relaxed problem of the label graph, and leaving out directions that the "
    "features do not span, are ours.",
)
@dataclass(eq=False, repr=False, kw_only=True)
class CVH(LinearBinaryMethod):
    """Cross-view hashing: the directions in which the views agree best.

    Minimises the distance between the projections of items that a graph joins, over all views,
    which is one generalised eigenproblem. With the graph of pairs that is canonical correlation
    analysis. There are no more bits than directions that all views span: a warning says so
    where more are asked for.

    The original's solution of the general problem was not available; the one for graphs of
    labels is derived here. Directions that the training features do not span are left out,
    which the original does not mention.

    Parameters
    ----------
    graph : {"pairs", "labels"}
        Which items are alike: the views of one item, or those that share labels, which then
        are needed to fit.
    ridge : float
        Added to the diagonal of each view's Gram matrix.

    Attributes
    ----------
    couplings_ : (n_bits,)
        The eigenvalues; with pairs of two views, the canonical correlations.
    """

    view_range: ClassVar = (2, None)
    graph: Literal["pairs", "labels"] = "pairs"
    ridge: float = 1e-4

    def _needs_labels(self) -> bool:
        return self.graph == "labels"

    def _learn(self, data: Training) -> dict[str, Any]:
        uses_labels = self._needs_labels()
        rows = data.centred()
        each = list(rows.values())
        coupling = couple_labels(each, data.labels) if uses_labels else couple_pairs(each)
        directions, couplings = joint_directions(
            [view.gram() for view in each], coupling, self.ridge, self.n_bits
        )
        if not uses_labels:
            couplings = couplings[couplings > ZERO_SHARE]
        n_bits = limit_bits(self.n_bits, len(couplings), self.info.name)
        kept = {view: found[:, :n_bits] for view, found in zip(rows, directions, strict=True)}
        return {**linear_functions(kept, rows=rows), "couplings_": couplings[:n_bits]}
