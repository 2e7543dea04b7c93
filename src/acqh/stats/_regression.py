"""Ridge regression of a view to label embeddings, from the sums alone."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.linalg import Tridiagonal, mean_diagonal, solve_spd
from acqh.errors import ViewError
from acqh.stats._statistics import ViewStatistics

# Strengths tried by "auto", relative to the mean diagonal of the Gram matrix.
AUTO_RIDGES = np.logspace(-8, 2, 41)
# Fits with more degrees of freedom than this share of the items all but repeat the targets: what
# is left of the error, over what is left of the freedom, is rounding over rounding.
_MAX_FREEDOM = 0.9


@dataclass(frozen=True)
class Regression:
    """The best linear prediction of label embeddings from one view.

    Attributes
    ----------
    coefficients : (n_features, n_dimensions)
    intercept : (n_dimensions,)
    ridge : float
        Strength used, relative to the mean diagonal of the Gram matrix.
    agreement : (n_dimensions, n_dimensions)
        Sum over items of embedding times prediction; symmetric, positive semi-definite.
    residual : (n_dimensions, n_dimensions)
        Covariance of the prediction error on items not seen, estimated from the seen ones.
    """

    coefficients: Floats
    intercept: Floats
    ridge: float
    agreement: Floats
    residual: Floats


def regress(
    view: ViewStatistics,
    targets: Floats,
    ridge: float | Literal["auto"],
    *,
    fit_intercept: bool = True,
) -> Regression:
    """Predict label embeddings from a view by ridge regression.

    Minimises ``sum_i ||f_i - b - P^T x_i||^2 + rho * ||P||^2`` over P and, if wanted, b; the
    intercept is not penalised. ``"auto"`` takes the rho that minimises generalised
    cross-validation, the rotation-invariant form of leave-one-out, which needs only sums.

    Parameters
    ----------
    view : ViewStatistics
    targets : (n_sets, n_dimensions)
        The embedding of each label set.
    ridge : float or "auto"
        rho over the mean diagonal of the (centred) Gram matrix.
    fit_intercept : bool

    Returns
    -------
    Regression

    Raises
    ------
    ViewError
        The sums are not finite.

    Examples
    --------
    >>> from acqh.stats import Statistics
    >>> stats = Statistics.of({"image": np.array([[0.0], [1.0]])}, np.eye(2, dtype=np.uint8))
    >>> found = regress(stats.views["image"], np.array([[3.0], [5.0]]), 0.0)
    >>> found.coefficients, found.intercept
    (array([[2.]]), array([3.]))
    """
    if not np.isfinite(np.trace(view.upper)):
        raise ViewError(
            "sums of squares of features are beyond float64; scale the features, or remove rows "
            "with numbers far larger than the others"
        )
    n_items = max(view.counts.sum(), 1.0)
    mean_x = view.sums.sum(axis=0) / n_items if fit_intercept else np.zeros(view.n_features)
    mean_f = view.counts @ targets / n_items if fit_intercept else np.zeros(targets.shape[1])
    gram = view.gram - n_items * np.outer(mean_x, mean_x)
    cross = view.sums.T @ targets - n_items * np.outer(mean_x, mean_f)
    power = (targets.T * view.counts) @ targets - n_items * np.outer(mean_f, mean_f)
    if ridge == "auto":
        strength, coefficients, freedom = _cross_validate(gram, cross, np.trace(power), n_items)
    else:
        strength = float(ridge)
        penalty = strength * mean_diagonal(gram)
        ridged = gram + penalty * np.eye(len(gram))
        coefficients = solve_spd(ridged, cross)
        freedom = float(np.trace(solve_spd(ridged, gram)))
    agreement = cross.T @ coefficients
    error = power - agreement - agreement.T + coefficients.T @ gram @ coefficients
    # An item's own error is smaller than that of a stranger by this factor, on average.
    optimism = max(1.0 - (freedom + fit_intercept) / n_items, 1.0 / n_items) ** 2
    return Regression(
        coefficients,
        mean_f - mean_x @ coefficients,
        strength,
        _symmetric(agreement) + n_items * np.outer(mean_f, mean_f),
        _symmetric(error) / (n_items * optimism),
    )


def _cross_validate(
    gram: Floats, cross: Floats, power: float, n_items: float
) -> tuple[float, Floats, float]:
    """Return the ridge of least generalised cross-validation error, its fit and its freedom."""
    form = Tridiagonal.of(gram)
    values = np.maximum(form.eigenvalues(), 0.0)
    rotated = form.rotate(cross)
    # Features that are all constant have nothing to scale, and nothing to predict with.
    scale = max(mean_diagonal(gram), 0.0) or 1.0
    penalties = AUTO_RIDGES * scale
    freedoms = np.sum(values / (values + penalties[:, None]), axis=1)
    residuals = np.empty(len(penalties))
    for i, penalty in enumerate(penalties):
        fitted = form.solve(penalty, rotated)
        residuals[i] = power - np.vdot(rotated, fitted) - penalty * np.vdot(fitted, fitted)
    left = np.maximum(1.0 - (freedoms + 1.0) / n_items, 1.0 / n_items)
    errors = np.maximum(residuals, 0.0) / left**2
    errors[:-1][freedoms[:-1] + 1.0 > _MAX_FREEDOM * n_items] = np.inf
    best = int(np.argmin(errors))
    coefficients = form.rotate_back(form.solve(penalties[best], rotated))
    return float(AUTO_RIDGES[best]), coefficients, float(freedoms[best])


def _symmetric(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2.0
