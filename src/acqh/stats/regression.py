"""Ridge regression of a view to label embeddings, from the sums alone."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import mean_diagonal
from acqh.stats.moments import cross_product, mirror, upper_gram
from acqh.stats.ridge import RidgeSolver, error_directions
from acqh.stats.view_statistics import ViewStatistics

# Rows that are left out in turn, where rows are at hand: twice as many change a ridge by a step or
# two of the grid, and MAP by less than 0.005.
HELD_ROWS = 1024


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
    device: Any = None,
    is_predicted: bool = False,
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
    device : torch device, optional
        Where eigenvalues are computed.
    is_predicted : bool
        Whether the features are predictions of the embeddings, each of a row left out. The ridge
        then also tries to pull P towards the identity instead of zero, and what has the lesser
        error on items not seen is taken.

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
    sums = view.sums.sum(axis=0)
    solver = RidgeSolver(view.gram, sums, n_items, fit_intercept=fit_intercept, device=device)
    cross, wanted = view.sums.T @ targets, view.counts @ targets
    power = (targets.T * view.counts) @ targets
    found = regress_moments(solver, cross, wanted, power, ridge)
    if not is_predicted or cross.shape[0] != cross.shape[1]:
        return found
    gram = view.gram
    rest = regress_moments(
        solver, cross - gram, wanted - sums, power - cross - cross.T + gram, ridge
    )
    coefficients = np.eye(len(cross)) + rest.coefficients
    agreement = _symmetric(cross.T @ coefficients + np.outer(wanted, rest.intercept))
    kept = Regression(coefficients, rest.intercept, rest.ridge, agreement, rest.residual)
    return min((found, kept), key=lambda it: float(np.trace(it.residual)))


def regress_moments(
    solver: RidgeSolver,
    cross: Floats,
    sums: Floats,
    power: Floats,
    ridge: float | Literal["auto"],
    seen: Floats | None = None,
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
    seen : (n_rows, n_directions), optional
        Targets of the rows that the solver has in `error_directions`, to choose a ridge by.

    Returns
    -------
    Regression
    """
    n_items, mean_x = solver.n_items, solver.mean
    mean_f = sums / n_items if solver.fit_intercept else np.zeros(len(sums))
    cross = cross - n_items * np.outer(mean_x, mean_f)
    power = power - n_items * np.outer(mean_f, mean_f)
    if ridge == "auto":
        centred = None if seen is None else seen - mean_f @ error_directions(len(mean_f))
        strength, coefficients, left = solver.cross_validate(cross, np.trace(power), centred)
    else:
        strength, coefficients, freedom = solver.solve(cross, float(ridge))
        left = solver.left_on_average(freedom)
    agreement = cross.T @ coefficients
    # What is left is power - A - A^T + P^T G P, and P solves (G + rho I) P = cross.
    penalty = strength * mean_diagonal(solver.gram)
    error = power - agreement - penalty * (coefficients.T @ coefficients)
    return Regression(
        coefficients,
        mean_f - mean_x @ coefficients,
        strength,
        _symmetric(agreement) + n_items * np.outer(mean_f, mean_f),
        # An item's own error is smaller than that of a stranger by this factor, on average.
        _symmetric(error) / (n_items * left**2),
    )


def _symmetric(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2.0


def regress_rows(
    features: Matrix, targets: Floats, ridge: float | Literal["auto"], *, fit_intercept: bool = True
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
    some = np.unique(np.linspace(0, len(targets) - 1, HELD_ROWS).astype(int))
    upper, sums = upper_gram(features)
    solver = RidgeSolver(
        mirror(upper), sums, float(len(targets)), fit_intercept=fit_intercept, rows=features[some]
    )
    cross, power = cross_product(features, targets), targets.T @ targets
    seen = targets[some] @ error_directions(targets.shape[1])
    return regress_moments(solver, cross, targets.sum(axis=0), power, ridge, seen)
