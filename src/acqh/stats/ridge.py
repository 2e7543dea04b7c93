"""Ridge regression of targets on a view, from sufficient statistics."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Bools, Floats, Matrix, is_sparse
from acqh._core.linalg import EigenForm, factor_spd, mean_diagonal
from acqh.errors import ViewError
from acqh.stats.moments import ViewStatistics, cross_product, mirror, upper_gram

# Rows for leave-one-out errors: twice as many change a ridge by one or two steps of the grid, and
# MAP by less than 0.005.
HELD_ROWS = 1024
# Strengths tried by "auto", relative to the mean diagonal of the Gram matrix.
AUTO_RIDGES = np.logspace(-8, 2, 41)
# Fits with more degrees of freedom than this share of the items nearly interpolate the targets, and
# their cross-validation error is a ratio of rounding errors.
_MAX_FREEDOM = 0.9
# Leave-one-out errors are computed in at most this many random directions.
_DIRECTIONS = 32
# The search stops after this many powers of ten with errors above the minimum.
_RISES = 3
# Lower bound of 1 - leverage; smaller values are rounding errors.
_MIN_COMPLEMENT = 1e-10
# Narrower matrices are decomposed on the host: the transfer to a device would take longer.
_MIN_DEVICE_WIDTH = 256


class RidgeSolver:
    """Ridge regressions of any targets on the same rows of one view.

    Caches everything that depends only on the features.

    Parameters
    ----------
    gram : (n_features, n_features)
        ``X^T X``.
    totals : (n_features,)
        Column totals of the rows.
    n_items : float
        Number of rows, at least one.
    fit_intercept : bool
    rows : (n_rows, n_features), dense or CSR, optional
        A subset of the rows. With it, `cross_validate` minimizes their leave-one-out error,
        otherwise generalized cross-validation.
    device : torch device, optional
        Device for the eigendecomposition.

    Raises
    ------
    ViewError
        The Gram matrix is not finite.

    Examples
    --------
    >>> from acqh.stats.ridge import regress_moments
    >>> X = np.array([[0.0], [1.0]])
    >>> solver = RidgeSolver(X.T @ X, X.sum(axis=0), 2.0)
    >>> Y = np.array([[3.0], [5.0]])
    >>> regress_moments(solver, X.T @ Y, Y.sum(axis=0), Y.T @ Y, 0.0).coefficients
    array([[2.]])
    """

    def __init__(
        self,
        gram: Floats,
        totals: Floats,
        n_items: float,
        *,
        fit_intercept: bool = True,
        rows: Matrix | None = None,
        device: Any = None,
    ) -> None:
        if not np.isfinite(np.trace(gram)):
            raise ViewError(
                "squared features overflow float64; scale the features, or remove rows with "
                "extremely large numbers"
            )
        self.n_items = n_items
        self.fit_intercept = fit_intercept
        self.rows = rows
        self._complements: dict[float, Floats] = {}
        self.device = device
        self.mean = totals / n_items if fit_intercept else np.zeros(len(totals))
        self.gram = gram - n_items * np.outer(self.mean, self.mean)

    @cached_property
    def form(self) -> EigenForm:
        """Eigendecomposition of the centred Gram matrix."""
        is_wide = len(self.gram) >= _MIN_DEVICE_WIDTH
        return EigenForm.of(self.gram, self.device if is_wide else None)

    @cached_property
    def values(self) -> Floats:
        """Eigenvalues of the centred Gram matrix, ascending."""
        return np.maximum(self.form.values, 0.0)

    @cached_property
    def rotated_rows(self) -> Floats:
        """The centred rows in the basis of eigenvectors: (n_features, n_rows)."""
        return self._rotate(self.rows)

    def _rotate(self, rows: Any) -> Floats:
        rows = rows.toarray() if is_sparse(rows) else rows
        centred = np.asarray(rows, dtype=np.float64) - self.mean
        return np.ascontiguousarray(self.form.vectors.T @ centred.T)

    def leverage_complement(self, penalty: float) -> Floats:
        """Return 1 - leverage of each row: its training error over its leave-one-out error."""
        if penalty not in self._complements:
            self._complements[penalty] = self._complement(self.rotated_rows, penalty)
        return self._complements[penalty]

    def leverage_complement_of(self, rows: Matrix, ridge: float) -> Floats:
        """Return 1 - leverage of any training rows, (n_rows,), for a relative ridge."""
        if rows is self.rows:
            return self.leverage_complement(ridge * self.scale)
        return self._complement(self._rotate(rows), ridge * self.scale)

    @property
    def scale(self) -> float:
        """Scale of relative ridges: the mean diagonal of the centred Gram matrix."""
        # Constant features have no scale.
        return max(mean_diagonal(self.gram), 0.0) or 1.0

    def _complement(self, rotated: Floats, penalty: float) -> Floats:
        # The leverage of a row is its squared norm in the inverse of the ridged Gram matrix.
        leverages = 1.0 / (self.values + penalty) @ np.square(rotated)
        left = 1.0 - leverages - self.fit_intercept / self.n_items
        return np.asarray(np.maximum(left, _MIN_COMPLEMENT))

    def solve(self, cross: Floats, ridge: float) -> tuple[float, Floats, float]:
        """Return the ridge, the coefficients for it, and their degrees of freedom."""
        ridged = self.gram + ridge * mean_diagonal(self.gram) * np.eye(len(self.gram))
        solved = factor_spd(ridged)
        return ridge, solved(cross), float(np.trace(solved(self.gram)))

    def cross_validate(
        self, cross: Floats, power: float, sampled: Floats | None = None
    ) -> tuple[float, Floats, float]:
        """Return the ridge of least leave-one-out error, its coefficients, and 1 - leverage.

        Parameters
        ----------
        cross : (n_features, n_dimensions)
            Cross product of centred features and targets.
        power : float
            Sum of squares of the centred targets.
        sampled : (n_rows, n_directions), optional
            Centred targets of the solver's rows, in `error_directions`. Without them the method
            uses generalized cross-validation.
        """
        rotated = self.form.vectors.T @ cross
        penalties = AUTO_RIDGES * self.scale
        freedoms = np.sum(self.values / (self.values + penalties[:, None]), axis=1)
        if sampled is None:
            best = self._generalised(rotated, power, penalties, freedoms)
            left = self.mean_leverage_complement(float(freedoms[best]))
        else:
            allowed = freedoms + 1.0 <= _MAX_FREEDOM * self.n_items
            allowed[-1] = True
            some = error_directions(rotated.shape[1])
            best, left = self._leave_one_out(rotated @ some, sampled.T, penalties, allowed)
        coefficients = self.form.vectors @ self.form.solve(penalties[best], rotated)
        return float(AUTO_RIDGES[best]), coefficients, left

    def mean_leverage_complement(self, freedom: float) -> float:
        """Return the mean of 1 - leverage over all rows, for a number of degrees of freedom."""
        return max(1.0 - (freedom + self.fit_intercept) / self.n_items, 1.0 / self.n_items)

    def _generalised(
        self, rotated: Floats, power: float, penalties: Floats, freedoms: Floats
    ) -> int:
        ridged = self.values + penalties[:, None]
        # An eigenvector of value v and energy e explains e (v + 2 p) / (v + p)^2 of the power.
        shares = (ridged + penalties[:, None]) / ridged**2
        residuals = power - shares @ np.square(rotated).sum(axis=1)
        left = np.maximum(1.0 - (freedoms + 1.0) / self.n_items, 1.0 / self.n_items)
        errors = np.maximum(residuals, 0.0) / left**2
        errors[:-1][freedoms[:-1] + 1.0 > _MAX_FREEDOM * self.n_items] = np.inf
        return int(np.argmin(errors))

    def _leave_one_out(
        self, rotated: Floats, sampled: Floats, penalties: Floats, allowed: Bools
    ) -> tuple[int, float]:
        """Return the index of the best penalty, and its training error over leave-one-out error."""
        errors: dict[int, tuple[float, float]] = {}

        def error(i: int) -> float:
            if i not in errors:
                fitted = self.form.solve(penalties[i], rotated).T @ self.rotated_rows
                fitted_errors = np.square(sampled - fitted).sum(axis=0)
                errors[i] = (
                    float(np.mean(fitted_errors / self.leverage_complement(penalties[i]) ** 2)),
                    float(np.mean(fitted_errors)),
                )
            return errors[i][0]

        # The error falls and then rises, except for small ripples. Search coarse to fine, from the
        # strongest ridge on, until the error has risen over three powers of ten.
        coarse = np.flatnonzero(allowed)[::-1][::4].tolist()
        best = coarse[0]
        for number, i in enumerate(coarse):
            best = min(best, i, key=error)
            if number - coarse.index(best) >= _RISES:
                break
        for step in (2, 1):
            near = [i for i in (best - step, best, best + step) if 0 <= i < len(penalties)]
            best = min((i for i in near if allowed[i]), key=error)
        held_out_error, fitted_error = errors[best]
        ratio = fitted_error / held_out_error if held_out_error > 0 else 1.0
        return best, float(np.sqrt(ratio))


def error_directions(n_dimensions: int) -> Floats:
    """Return fixed random directions that preserve the mean norm of errors.

    (n_dimensions, n_directions); the identity for few dimensions.
    """
    if n_dimensions <= _DIRECTIONS:
        return np.eye(n_dimensions)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_dimensions, _DIRECTIONS))
    return np.asarray(signs / np.sqrt(_DIRECTIONS))


@dataclass(frozen=True)
class Regression:
    """Linear prediction of vectors from one view.

    Attributes
    ----------
    coefficients : (n_features, n_dimensions)
    intercept : (n_dimensions,)
    ridge : float
        Strength used, relative to the mean diagonal of the Gram matrix.
    residual : (n_dimensions, n_dimensions)
        Covariance of the prediction error on new items, estimated from the training items.

    Examples
    --------
    >>> from acqh.stats import Statistics
    >>> views, labels = {"image": np.array([[0.0], [1.0]])}, np.eye(2, dtype=np.uint8)
    >>> stats = Statistics.from_views(views, labels)
    >>> regression = regress(stats.views["image"], np.array([[3.0], [5.0]]), 0.0)
    >>> regression.intercept, regression.ridge
    (array([3.]), 0.0)
    """

    coefficients: Floats
    intercept: Floats
    ridge: float
    residual: Floats


def regress(
    view: ViewStatistics,
    targets: Floats,
    ridge: float | Literal["auto"],
    *,
    fit_intercept: bool = True,
    device: Any = None,
) -> Regression:
    """Predict a vector of every label set from a view by ridge regression.

    Minimizes ``sum_i ||f_i - b - P^T x_i||^2 + rho * ||P||^2`` over P and, with `fit_intercept`, b.
    The intercept is not penalized. ``"auto"`` selects the rho that minimizes generalized
    cross-validation, the rotation-invariant form of leave-one-out.

    Parameters
    ----------
    view : ViewStatistics
    targets : (n_sets, n_dimensions)
        The vector of each label set.
    ridge : float or "auto"
        rho over the mean diagonal of the (centred) Gram matrix.
    fit_intercept : bool
    device : torch device, optional
        Device for the eigendecomposition.

    Returns
    -------
    Regression

    Raises
    ------
    ViewError
        The Gram matrix is not finite.

    Examples
    --------
    >>> from acqh.stats import Statistics
    >>> views, labels = {"image": np.array([[0.0], [1.0]])}, np.eye(2, dtype=np.uint8)
    >>> stats = Statistics.from_views(views, labels)
    >>> regression = regress(stats.views["image"], np.array([[3.0], [5.0]]), 0.0)
    >>> regression.coefficients, regression.intercept
    (array([[2.]]), array([3.]))
    """
    n_items, totals = max(view.counts.sum(), 1.0), view.set_totals.sum(axis=0)
    solver = RidgeSolver(view.gram, totals, n_items, fit_intercept=fit_intercept, device=device)
    power = (targets.T * view.counts) @ targets
    return regress_moments(solver, view.set_totals.T @ targets, view.counts @ targets, power, ridge)


def regress_moments(
    solver: RidgeSolver,
    cross: Floats,
    totals: Floats,
    power: Floats,
    ridge: float | Literal["auto"],
    held: Floats | None = None,
    towards: Floats | None = None,
) -> Regression:
    """Predict any targets from a view by ridge regression; see `regress`.

    Parameters
    ----------
    solver : RidgeSolver
        For the rows that have both the view and the targets.
    cross : (n_features, n_dimensions)
        ``X^T F``.
    totals : (n_dimensions,)
        Column totals of the targets.
    power : (n_dimensions, n_dimensions)
        ``F^T F``.
    ridge : float or "auto"
    held : (n_rows, n_directions), optional
        Targets of the solver's rows in `error_directions`, for the choice of the ridge.
    towards : (n_features, n_dimensions), optional
        Prior coefficients: the ridge penalizes the difference from them.

    Returns
    -------
    Regression
    """
    n_items, mean_x = solver.n_items, solver.mean
    mean_f = totals / n_items if solver.fit_intercept else np.zeros(len(totals))
    cross = cross - n_items * np.outer(mean_x, mean_f)
    power = power - n_items * np.outer(mean_f, mean_f)
    directions = error_directions(len(mean_f))
    centred = None if held is None else held - mean_f @ directions
    if towards is not None:
        # Regress the residuals of the prior coefficients, and add these again.
        power = power - cross.T @ towards - towards.T @ cross + towards.T @ solver.gram @ towards
        cross = cross - solver.gram @ towards
        if centred is not None and solver.rows is not None:
            centred = centred - (solver.rows - mean_x) @ towards @ directions
    if ridge == "auto":
        strength, coefficients, left = solver.cross_validate(cross, np.trace(power), centred)
    else:
        strength, coefficients, freedom = solver.solve(cross, float(ridge))
        left = solver.mean_leverage_complement(freedom)
    # The residual is power - A - A^T + P^T G P, and P solves (G + rho I) P = cross.
    penalty = strength * mean_diagonal(solver.gram)
    error = power - cross.T @ coefficients - penalty * (coefficients.T @ coefficients)
    if towards is not None:
        coefficients = coefficients + towards
    return Regression(
        coefficients,
        mean_f - mean_x @ coefficients,
        strength,
        # Training errors are smaller than errors on new items by this factor, on average.
        (error + error.T) / (2.0 * n_items * left**2),
    )


def regress_rows(
    features: Matrix, targets: Floats, ridge: float | Literal["auto"], *, fit_intercept: bool = True
) -> Regression:
    """Predict the rows of one matrix from those of another by ridge regression.

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
    upper, totals = upper_gram(features)
    solver = RidgeSolver(
        mirror(upper), totals, float(len(targets)), fit_intercept=fit_intercept, rows=features[some]
    )
    cross, power = cross_product(features, targets), targets.T @ targets
    held = targets[some] @ error_directions(targets.shape[1])
    return regress_moments(solver, cross, targets.sum(axis=0), power, ridge, held)
