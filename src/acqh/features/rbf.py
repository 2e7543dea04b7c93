"""Radial basis functions of anchor rows, in four variants from the literature."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler, normalize

from acqh._core.arrays import Floats, Matrix, check_positive, check_positive_int, is_sparse
from acqh._core.runtime import RandomState, check_rng
from acqh.errors import InvalidInputError
from acqh.features.base import FeatureMap, row_blocks
from acqh.features.kernels import Columns, kernel_block, prepare


@dataclass(frozen=True)
class _Variant:
    """Computation of the features of one variant from squared distances."""

    halved: bool  # exp(-d2 / (2 sigma^2)) rather than exp(-d2 / sigma^2)
    unit: bool = False  # rows scaled to unit norm first
    scaled: bool = False  # sigma^2 multiplied by `scale`
    centred: bool = False  # mean of the training features subtracted
    bias: bool = False  # column of ones appended


_VARIANTS = {
    "rbf_mean2": _Variant(halved=True, centred=True),
    "rbf_mean": _Variant(halved=False),
    "rbf_fixed": _Variant(halved=True, unit=True, bias=True),
    "rbf_scaled": _Variant(halved=True, scaled=True, centred=True),
}
RBF_VARIANTS = tuple(_VARIANTS)
_FIXED_SIGMA = 0.4


@dataclass(eq=False, repr=False)
class RBFAnchors(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Similarity of a row to anchor rows, ``exp(-||x - a||^2 / width)``.

    The variants, with training rows x, anchors a, and the default of sigma:

    - ``rbf_mean2``: width ``2 sigma^2``; ``sigma^2`` is the mean of ``||x - a||^2``; centred.
    - ``rbf_mean``: width ``sigma^2``; ``sigma^2`` is the mean of ``||x - x'||^2`` over all pairs.
    - ``rbf_fixed``: rows of unit norm; width ``2 sigma^2``; ``sigma`` is 0.4; column of ones added.
    - ``rbf_scaled``: width ``2 scale sigma^2``; ``sigma^2`` is the mean of ``||a - a'||^2`` over
      all pairs; centred.

    "All pairs" includes the pairs of a row with itself; "centred": the column means of the training
    features are subtracted. Means of squared distances are computed from column means and
    variances, in time linear in the rows. Distances are computed in float64, block by block; sparse
    rows stay sparse.

    Parameters
    ----------
    n_anchors : int, default 1000
        If there are fewer training rows, all of them are anchors.
    variant : {"rbf_mean2", "rbf_mean", "rbf_fixed", "rbf_scaled"}
    sigma : float, optional
        Positive. Default: by variant, see above.
    scale : float, default 0.5
        Positive; used by ``rbf_scaled`` only. Values from 0.5 to 0.8 are usual.
    anchors : {"random", "kmeans"}, default "random"
        Training rows drawn without replacement, or k-means centres.
    random_state : int, Generator or None
        Draws the anchors or starts k-means.

    Attributes
    ----------
    anchors_ : (n_used, n_features)
        CSR for random anchors of sparse rows.
    sigma_ : float
        1 if all distances are zero.
    offset_ : (n_used,) float64
        Subtracted from the features; zeros for variants that do not centre.

    Examples
    --------
    >>> from acqh.features import RBFAnchors
    >>> rows = [[0.0], [1.0]]
    >>> RBFAnchors(variant="rbf_mean").fit_transform(rows).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    _state_axes: ClassVar = {
        "anchors_": ("n_anchors", "n_features"),
        "sigma_": float,
        "offset_": ("n_anchors",),
    }

    n_anchors: int = 1000
    _: KW_ONLY
    variant: str = "rbf_mean2"
    sigma: float | None = None
    scale: float = 0.5
    anchors: str = "random"
    random_state: RandomState = None

    def _learn(self, X: Matrix) -> None:
        variant = _VARIANTS[self.variant]
        if variant.unit:
            X = normalize(X)
        anchors = self._choose_anchors(X)
        sigma = self._choose_sigma(X, anchors)
        offset = np.zeros(anchors.shape[0])
        if variant.centred:
            width = self._width(sigma)
            for block in _blocks(X, anchors):
                offset += _similarities(X[block], anchors, width).sum(axis=0)
            offset /= X.shape[0]
        self.anchors_, self.sigma_, self.offset_ = anchors, sigma, offset

    def _map(self, X: Matrix) -> Floats:
        variant = _VARIANTS[self.variant]
        if variant.unit and X.shape[0]:
            X = normalize(X)
        n_anchors, width = self.anchors_.shape[0], self._width(self.sigma_)
        features = np.ones((X.shape[0], self._n_features_out), dtype=X.dtype)
        for block in _blocks(X, self.anchors_):
            similarities = _similarities(X[block], self.anchors_, width)
            similarities -= self.offset_
            features[block, :n_anchors] = similarities
        return features

    def _check_params(self) -> None:
        check_positive_int(self.n_anchors, "n_anchors")
        if self.variant not in _VARIANTS:
            raise InvalidInputError(f"variant must be one of {RBF_VARIANTS}, got {self.variant!r}")
        if self.anchors not in ("random", "kmeans"):
            raise InvalidInputError(f"anchors must be 'random' or 'kmeans', got {self.anchors!r}")
        for name in ("sigma", "scale"):
            check_positive(getattr(self, name), name)

    def _choose_anchors(self, X: Matrix) -> Matrix:
        n_rows = X.shape[0]
        if self.n_anchors >= n_rows:
            return X.copy()
        rng = check_rng(self.random_state)
        if self.anchors == "random":
            return X[np.sort(rng.choice(n_rows, self.n_anchors, replace=False))]
        seed = int(rng.integers(2**31))
        return KMeans(self.n_anchors, n_init=1, random_state=seed).fit(X).cluster_centers_

    def _choose_sigma(self, X: Matrix, anchors: Matrix) -> float:
        if self.sigma is not None:
            return float(self.sigma)
        if self.variant == "rbf_fixed":
            return _FIXED_SIGMA
        pair = {"rbf_mean2": (X, anchors), "rbf_mean": (X, X), "rbf_scaled": (anchors, anchors)}
        mean = _mean_squared_distance(*pair[self.variant])
        return float(np.sqrt(mean)) if mean > 0 else 1.0

    def _width(self, sigma: float) -> float:
        variant = _VARIANTS[self.variant]
        factor = (2.0 if variant.halved else 1.0) * (self.scale if variant.scaled else 1.0)
        return factor * sigma**2

    @property
    def _n_features_out(self) -> int:
        return int(self.anchors_.shape[0]) + _VARIANTS[self.variant].bias


def _mean_squared_distance(left: Matrix, right: Matrix) -> float:
    """Mean of the squared distances of every left row to every right row, in linear time.

    It is the sum of both total variances and the squared distance of the means; for two equal
    sides ``2 (mean ||x||^2 - ||mean x||^2)``, without that form's cancellation.
    """
    moments = [StandardScaler(with_mean=False).fit(side) for side in (left, right)]
    between = np.square(moments[0].mean_ - moments[1].mean_).sum()
    return float(sum(side.var_.sum() for side in moments) + between)


def _blocks(X: Matrix, anchors: Matrix) -> Iterator[slice]:
    # A dense block is copied to float64, so its own width counts as well.
    return row_blocks(X.shape[0], max(anchors.shape[0], 0 if is_sparse(X) else X.shape[1]))


def _similarities(X: Matrix, anchors: Matrix, width: float) -> Floats:
    """exp(-||x - a||^2 / width) in float64, (n_rows, n_anchors)."""
    wide = (side.astype(np.float64, copy=False) for side in (X, anchors))
    rows, others = (prepare("rbf", side, Columns()) for side in wide)
    return np.asarray(kernel_block(rows, others, width))
