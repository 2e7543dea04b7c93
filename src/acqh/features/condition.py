"""Bring numbers far from zero, or of extreme size, to where their squares can be summed."""

from typing import ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.device import Tensor, to_tensor
from acqh.features.base import FeatureMap, with_data

# Squares and their sums keep their digits between these sizes of the largest number.
_SMALLEST, _LARGEST = 1e-60, 1e60
# Sums of squares about zero lose the square of mean over spread: beyond this, too many digits.
_FARTHEST = 1e3


def _exponent(largest: float) -> int:
    """Return the power of two that brings numbers of this size to one, where they need it."""
    if not largest or _SMALLEST <= largest <= _LARGEST:
        return 0
    return -int(np.frexp(largest)[1])


def _origin(mean: Floats, variance: float) -> Floats:
    """Return what to take from rows of this mean and spread."""
    # Rows that are all the same say nothing of how far apart others will be.
    if variance > 0 and np.max(np.abs(mean)) > _FARTHEST * np.sqrt(variance):
        return mean
    return np.zeros_like(mean)


class Condition(OneToOneFeatureMixin, FeatureMap):
    """Move and scale features that sums of squares could not hold; leave all others alone.

    A dense view whose means lie more than a thousand times its spread from zero is centred; a view
    whose largest number is beyond 1e60 or below 1e-60 is scaled, by a power of two and so without
    rounding; sparse rows stay sparse. Methods put this map behind a view's own where it is needed.

    Attributes
    ----------
    origin_ : (n_features,)
        What is taken from every row, after scaling; zeros where nothing needs it.
    exponent_ : int
        Rows are multiplied by two to this power.

    Examples
    --------
    >>> from acqh.features import Condition
    >>> Condition().fit_transform([[1e8], [1e8 + 2.0]])
    array([[-1.],
           [ 1.]])
    >>> Condition().fit_transform([[1.0], [2.0]])
    array([[1.],
           [2.]])
    """

    _state_axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "origin_": ("n_features",),
        "exponent_": (),
    }
    origin_: Floats
    exponent_: int

    def _learn(self, X: Matrix) -> None:
        values = X.data if is_sparse(X) else X
        largest = float(np.max(np.abs(values), initial=0.0))
        self.exponent_ = _exponent(largest)
        self.origin_ = np.zeros(X.shape[1])
        if not is_sparse(X):
            scaled = np.ldexp(X.astype(np.float64, copy=False), self.exponent_)
            mean = scaled.mean(axis=0)
            self.origin_ = _origin(mean, float(np.square(scaled - mean).mean()))

    def fit_tensor(self, X: Tensor) -> Self:
        """Look at rows that are a tensor, where they lie; the rest is as `fit`."""
        wide = X.double()
        self.n_features_in_ = wide.shape[1]
        self.exponent_ = _exponent(float(wide.abs().max()) if len(wide) else 0.0)
        wide = wide * 2.0**self.exponent_
        mean = wide.mean(dim=0)
        self.origin_ = _origin(mean.cpu().numpy(), float((wide - mean).square_().mean()))
        return self

    def transform_tensor(self, X: Tensor) -> Tensor:
        """Return the moved and scaled rows of a tensor, on its device."""
        moved = X.double() * 2.0**self.exponent_ - to_tensor(self.origin_, X.device)
        return moved.to(X.dtype) if X.dtype.is_floating_point else moved

    @property
    def is_needed(self) -> bool:
        """Whether the map changes anything."""
        return bool(self.exponent_ or self.origin_.any())

    def _map(self, X: Matrix) -> Matrix:
        if is_sparse(X):
            return with_data(X, np.ldexp(X.data, self.exponent_))
        # Widened first: of single precision the origin has digits that the rows do not.
        moved = np.ldexp(X.astype(np.float64), self.exponent_) - self.origin_
        return moved.astype(X.dtype, copy=False)
