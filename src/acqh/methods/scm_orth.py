"""Semantic correlation maximisation with all bits at once."""

from numbers import Real
from typing import Any, ClassVar, Self

from acqh._core.linalg import whiten
from acqh._core.random import RandomState, check_rng
from acqh._core.validation import Interval
from acqh.methods._binary import LinearBinaryMethod
from acqh.methods._centred import CentredRows
from acqh.methods._correlation import limit_bits, paired_directions, semantic_cross
from acqh.methods._training import read_training
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
    projections_ : dict of str to (n_mapped_features, n_bits_)
    intercepts_ : dict of str to (n_bits_,)
    covariances_ : (n_bits_,)
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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearBinaryMethod._parameter_constraints,
        "ridge": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_bits: int = 32,
        *,
        feature_maps: Any = None,
        ridge: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.n_bits = n_bits
        self.feature_maps = feature_maps
        self.ridge = ridge
        self.random_state = random_state

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
            Two views.
        labels : optional
            With a mapping of views only; of every item.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, LabelError, ViewError
        """
        self._check_parameters()
        training = read_training(self, views, labels, check_rng(self.random_state))
        rows = {view: CentredRows(matrix) for view, matrix in training.features.items()}
        x, y = rows.values()
        *directions, covariances = paired_directions(
            whiten(x.gram(), self.ridge),
            whiten(y.gram(), self.ridge),
            semantic_cross(x, y, training.labels),
            scale=training.n_items,
        )
        n_bits = limit_bits(self.n_bits, len(covariances), self.info.name)
        training.keep_in(self)
        self._keep_functions(
            {view: found[:, :n_bits] for view, found in zip(rows, directions, strict=True)},
            {view: centred.mean for view, centred in rows.items()},
        )
        self.covariances_ = covariances[:n_bits]
        return self
