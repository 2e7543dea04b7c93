"""Ridge regression of a view to label embeddings, from the sums alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import RANK_TOLERANCE, Tridiagonal, mean_diagonal, solve_spd
from acqh.errors import ViewError
from acqh.stats._moments import column_sums, cross_product, mirror, upper_gram
from acqh.stats._view_statistics import ViewStatistics

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
    n_items = max(view.counts.sum(), 1.0)
    solver = RidgeSolver(view.gram, view.sums.sum(axis=0), n_items, fit_intercept=fit_intercept)
    return regress_moments(
        solver,
        view.sums.T @ targets,
        view.counts @ targets,
        (targets.T * view.counts) @ targets,
        ridge,
    )


class RidgeSolver:
    """Ridge regressions from the same rows of one view to any targets.

    What depends on the features alone is computed once.

    Parameters
    ----------
    gram : (n_features, n_features)
        ``X^T X``.
    sums : (n_features,)
        Sum of the rows.
    n_items : float
        Number of rows, at least one.
    fit_intercept : bool
    count_distinct : bool
        Whether rows that repeat others count once when a ridge is chosen. Where features outnumber
        rows any fit repeats the targets of the distinct rows, and of rows that are there twice,
        both times: an error of nothing that says nothing.

    Raises
    ------
    ViewError
        The sums are not finite.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0]])
    >>> solver = RidgeSolver(X.T @ X, X.sum(axis=0), 2.0)
    >>> Y = np.array([[3.0], [5.0]])
    >>> regress_moments(solver, X.T @ Y, Y.sum(axis=0), Y.T @ Y, 0.0).coefficients
    array([[2.]])
    """

    def __init__(
        self,
        gram: Floats,
        sums: Floats,
        n_items: float,
        *,
        fit_intercept: bool = True,
        count_distinct: bool = False,
    ) -> None:
        if not np.isfinite(np.trace(gram)):
            raise ViewError(
                "sums of squares of features are beyond float64; scale the features, or remove "
                "rows with numbers far larger than the others"
            )
        self.n_items = n_items
        self.fit_intercept = fit_intercept
        self.count_distinct = count_distinct
        self.mean = sums / n_items if fit_intercept else np.zeros(len(sums))
        self.gram = gram - n_items * np.outer(self.mean, self.mean)

    @cached_property
    def form(self) -> Tridiagonal:
        """The centred Gram matrix, reduced."""
        return Tridiagonal.of(self.gram)

    @cached_property
    def values(self) -> Floats:
        """Eigenvalues of the centred Gram matrix, rising."""
        return np.maximum(self.form.eigenvalues(), 0.0)

    @property
    def n_distinct(self) -> float:
        """Rows that a choice of the ridge can learn from; see `count_distinct`."""
        if not self.count_distinct or len(self.values) < self.n_items:
            return self.n_items
        rank = np.count_nonzero(self.values > RANK_TOLERANCE * self.values[-1])
        return min(float(self.n_items), float(rank + self.fit_intercept))

    def solve(self, cross: Floats, ridge: float) -> tuple[float, Floats, float]:
        """Return the ridge, the coefficients for it, and their degrees of freedom."""
        ridged = self.gram + ridge * mean_diagonal(self.gram) * np.eye(len(self.gram))
        return ridge, solve_spd(ridged, cross), float(np.trace(solve_spd(ridged, self.gram)))

    def cross_validate(self, cross: Floats, power: float) -> tuple[float, Floats, float]:
        """Return the ridge of least generalised cross-validation error, its fit and its freedom."""
        rotated = self.form.rotate(cross)
        # Features that are all constant have nothing to scale, and nothing to predict with.
        scale = max(mean_diagonal(self.gram), 0.0) or 1.0
        penalties = AUTO_RIDGES * scale
        freedoms = np.sum(self.values / (self.values + penalties[:, None]), axis=1)
        residuals = np.empty(len(penalties))
        for i, penalty in enumerate(penalties):
            fitted = self.form.solve(penalty, rotated)
            residuals[i] = power - np.vdot(rotated, fitted) - penalty * np.vdot(fitted, fitted)
        n_items = self.n_distinct
        left = np.maximum(1.0 - (freedoms + 1.0) / n_items, 1.0 / n_items)
        errors = np.maximum(residuals, 0.0) / left**2
        errors[:-1][freedoms[:-1] + 1.0 > _MAX_FREEDOM * n_items] = np.inf
        best = int(np.argmin(errors))
        coefficients = self.form.rotate_back(self.form.solve(penalties[best], rotated))
        return float(AUTO_RIDGES[best]), coefficients, float(freedoms[best])


def regress_moments(
    solver: RidgeSolver,
    cross: Floats,
    sums: Floats,
    power: Floats,
    ridge: float | Literal["auto"],
) -> Regression:
    """Predict any targets from a view by ridge regression, as `regress` does.

    Parameters
    ----------
    solver : RidgeSolver
        Of the rows that have both the view and the targets.
    cross : (n_features, n_dimensions)
        ``X^T F``.
    sums : (n_dimensions,)
        Sum of the targets.
    power : (n_dimensions, n_dimensions)
        ``F^T F``.
    ridge : float or "auto"

    Returns
    -------
    Regression
    """
    n_items, mean_x = solver.n_items, solver.mean
    mean_f = sums / n_items if solver.fit_intercept else np.zeros(len(sums))
    cross = cross - n_items * np.outer(mean_x, mean_f)
    power = power - n_items * np.outer(mean_f, mean_f)
    if ridge == "auto":
        strength, coefficients, freedom = solver.cross_validate(cross, float(np.trace(power)))
    else:
        strength, coefficients, freedom = solver.solve(cross, float(ridge))
    agreement = cross.T @ coefficients
    error = power - agreement - agreement.T + coefficients.T @ solver.gram @ coefficients
    # An item's own error is smaller than that of a stranger by this factor, on average.
    n_distinct = solver.n_distinct if ridge == "auto" else n_items
    optimism = max(1.0 - (freedom + solver.fit_intercept) / n_distinct, 1.0 / n_distinct) ** 2
    return Regression(
        coefficients,
        mean_f - mean_x @ coefficients,
        strength,
        _symmetric(agreement) + n_items * np.outer(mean_f, mean_f),
        _symmetric(error) / (n_items * optimism),
    )


def _symmetric(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2.0


def regress_rows(
    features: Matrix,
    targets: Floats,
    ridge: float | Literal["auto"],
    *,
    fit_intercept: bool = True,
) -> Regression:
    """Predict the rows of one matrix from those of another, as `regress` does.

    Parameters
    ----------
    features : (n_items, n_features), dense or CSR
    targets : (n_items, n_dimensions)
    ridge : float or "auto"
    fit_intercept : bool

    Returns
    -------
    Regression

    Examples
    --------
    >>> regress_rows(np.array([[0.0], [1.0]]), np.array([[3.0], [5.0]]), 0.0).coefficients
    array([[2.]])
    """
    solver = RidgeSolver(
        mirror(upper_gram(features)),
        column_sums(features),
        float(len(targets)),
        fit_intercept=fit_intercept,
        count_distinct=True,
    )
    cross = cross_product(features, targets)
    return regress_moments(solver, cross, targets.sum(axis=0), targets.T @ targets, ridge)
