"""Semantic correlation maximisation with all bits at once."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from acqh._core.linalg import whiten
from acqh._core.random import RandomState
from acqh.methods._binary import LinearBinaryMethod, centred_functions
from acqh.methods._centred import CentredRows
from acqh.methods._correlation import limit_bits, paired_directions, semantic_cross
from acqh.methods._training import Training
from acqh.methods.registry import register


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
@dataclass(eq=False, repr=False)
class SCMOrth(LinearBinaryMethod):
    """Semantic correlation maximisation with all bits at once.

    Canonical correlation analysis in which every image meets every text, weighted by the
    cosine of their labels: ``Xᵀ S Y`` in place of ``Xᵀ Y``, with ``S = 2 L Lᵀ - 1 1^T`` and
    unit rows of L. There are no more bits than directions that covary: a warning says so where
    more are asked for, and later bits are worth less than earlier ones.

    Parameters
    ----------
    n_bits : int
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    ridge : float
        Added to the diagonal of each view's Gram matrix.
    random_state : int, Generator or None
        Seeds feature maps that have no seed of their own; nothing else is random.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits)
    intercepts_ : dict of str to (n_bits,)
    covariances_ : (n_bits,)
        Of the two views' projections, weighted by label similarity.
    n_bits_ : int

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> model = acqh.methods.get("scm-orth")(3).fit(data.views, data.labels)
    >>> model.hash(data.views["text"], view="text").shape
    (200, 1)
    """

    view_range: ClassVar = (2, 2)
    n_bits: int = 32
    _: KW_ONLY
    feature_maps: Any = None
    ridge: float = 1e-6
    random_state: RandomState = None

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = {view: CentredRows(matrix) for view, matrix in data.features.items()}
        x, y = rows.values()
        *directions, covariances = paired_directions(
            whiten(x.gram(), self.ridge),
            whiten(y.gram(), self.ridge),
            semantic_cross(x, y, data.labels),
            scale=data.n_items,
        )
        n_bits = limit_bits(self.n_bits, len(covariances), self.info.name)
        kept = {view: found[:, :n_bits] for view, found in zip(rows, directions, strict=True)}
        return {**centred_functions(kept, rows), "covariances_": covariances[:n_bits]}
