"""Semantic correlation maximisation with all bits at once."""

from dataclasses import dataclass
from typing import Any, ClassVar

from acqh._core.linalg import whiten
from acqh.methods.registry import register
from acqh.methods.rivals.binary import LinearBinaryMethod, linear_functions
from acqh.methods.rivals.correlation.directions import limit_bits, paired_directions, semantic_cross
from acqh.methods.rivals.training import Training


@register(
    name="scm-orth",
    title="Semantic correlation maximisation, orthogonal",
    reference="Zhang and Li, Large-scale supervised multimodal hashing with semantic correlation "
    "maximization, AAAI 2014",
    year=2014,
    supervised=True,
    code="binary",
    modes=("hashed", "unified"),
)
@dataclass(eq=False, repr=False, kw_only=True)
class SCMOrth(LinearBinaryMethod):
    """Semantic correlation maximisation with all bits at once.

    Canonical correlation analysis in which every image meets every text, weighted by the
    cosine of their labels: ``Xᵀ S Y`` in place of ``Xᵀ Y``, with ``S = 2 L Lᵀ - 1 1^T`` and
    unit rows of L. There are no more bits than directions that covary: a warning says so where
    more are asked for, and later bits are worth less than earlier ones.

    Parameters
    ----------
    ridge : float
        Added to the diagonal of each view's Gram matrix.

    Attributes
    ----------
    covariances_ : (n_bits,)
        Of the two views' projections, weighted by label similarity.
    """

    view_range: ClassVar = (2, 2)
    ridge: float = 1e-6

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.centred()
        x, y = rows.values()
        *directions, covariances = paired_directions(
            whiten(x.gram(), self.ridge),
            whiten(y.gram(), self.ridge),
            semantic_cross(x, y, data.labels),
            scale=data.n_items,
        )
        n_bits = limit_bits(self.n_bits, len(covariances), self.info.name)
        kept = {view: found[:, :n_bits] for view, found in zip(rows, directions, strict=True)}
        return {**linear_functions(kept, rows=rows), "covariances_": covariances[:n_bits]}
