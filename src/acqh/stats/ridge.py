"""Ridge regression of a view to any targets, from the sums alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Bools, Floats, Matrix, is_sparse
from acqh._core.linalg import EigenForm, factor_spd, mean_diagonal
from acqh.errors import ViewError
from acqh.stats.moments import ViewStatistics, cross_product, mirror, upper_gram

# Rows that are left out in turn, where rows are at hand: twice as many change a ridge by a step or
# two of the grid, and MAP by less than 0.005.
HELD_ROWS = 1024
# Strengths tried by "auto", relative to the mean diagonal of the Gram matrix.
AUTO_RIDGES = np.logspace(-8, 2, 41)
# Fits with more degrees of freedom than this share of the items all but repeat the targets: what
# is left of the error, over what is left of the freedom, is rounding over rounding.
_MAX_FREEDOM = 0.9
# Random directions in which errors of rows left out are looked at, where there are more.
_DIRECTIONS = 32
# Steps of ten from the best ridge so far, each with a larger error, after which no more are tried.
_RISES = 3
# Less than this is left of an error only by rounding.
_LEAST_LEFT = 1e-10
# Narrower matrices are decomposed on the host: the transfer to a device would take longer.
_MIN_DEVICE_WIDTH = 256


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
    rows : (n_rows, n_features), dense or CSR, optional
        Some of the rows. A ridge is then chosen by the error that each of them has when it alone
        is left out, instead of by sums.
    device : torch device, optional
        Where eigenvalues are computed.

    Raises
    ------
    ViewError
        The sums are not finite.

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
        sums: Floats,
        n_items: float,
        *,
        fit_intercept: bool = True,
        rows: Matrix | None = None,
        device: Any = None,
    ) -> None:
        if not np.isfinite(np.trace(gram)):
            raise ViewError(
                "sums of squares of features are beyond float64; scale the features, or remove "
                "rows with numbers far larger than the others"
            )
        self.n_items = n_items
        self.fit_intercept = fit_intercept
        self.rows = rows
        self._lefts: dict[float, Floats] = {}
        self.device = device
        self.mean = sums / n_items if fit_intercept else np.zeros(len(sums))
        self.gram = gram - n_items * np.outer(self.mean, self.mean)

    @cached_property
    def form(self) -> EigenForm:
        """Eigendecomposition of the centred Gram matrix."""
        is_wide = len(self.gram) >= _MIN_DEVICE_WIDTH
        return EigenForm.of(self.gram, self.device if is_wide else None)

    @cached_property
    def values(self) -> Floats:
        """Eigenvalues of the centred Gram matrix, rising."""
        return np.maximum(self.form.values, 0.0)

    @cached_property
    def rotated_rows(self) -> Floats:
        """The rows, centred and in the basis of eigenvectors: (n_features, n_rows)."""
        return self._rotate(self.rows)

    def _rotate(self, rows: Any) -> Floats:
        rows = rows.toarray() if is_sparse(rows) else rows
        rotated = self.form.rotate((np.asarray(rows, dtype=np.float64) - self.mean).T)
        return np.ascontiguousarray(rotated)

    def left(self, penalty: float) -> Floats:
        """Return the share of each row's error that is left because it was learnt from."""
        if penalty not in self._lefts:
            self._lefts[penalty] = self._left_of(self.rotated_rows, penalty)
        return self._lefts[penalty]

    def left_of(self, rows: Matrix, ridge: float) -> Floats:
        """Return what `left` does for any rows learnt from, (n_rows,), with a relative ridge."""
        if rows is self.rows:
            return self.left(ridge * self.scale)
        return self._left_of(self._rotate(rows), ridge * self.scale)

    @property
    def scale(self) -> float:
        """What relative ridges refer to."""
        # Features that are all constant have nothing to scale, and nothing to predict with.
        return max(mean_diagonal(self.gram), 0.0) or 1.0

    def _left_of(self, rotated: Floats, penalty: float) -> Floats:
        # Each row's squared length in the inverse of the ridged Gram matrix is its leverage.
        leverages = 1.0 / (self.values + penalty) @ np.square(rotated)
        left = 1.0 - leverages - self.fit_intercept / self.n_items
        return np.asarray(np.maximum(left, _LEAST_LEFT))

    def solve(self, cross: Floats, ridge: float) -> tuple[float, Floats, float]:
        """Return the ridge, the coefficients for it, and their degrees of freedom."""
        ridged = self.gram + ridge * mean_diagonal(self.gram) * np.eye(len(self.gram))
        solved = factor_spd(ridged)
        return ridge, solved(cross), float(np.trace(solved(self.gram)))

    def cross_validate(
        self, cross: Floats, power: float, seen: Floats | None = None
    ) -> tuple[float, Floats, float]:
        """Return the ridge of least error on rows left out, its fit, and the share of error left.

        Parameters
        ----------
        cross : (n_features, n_dimensions)
            Of centred features and targets.
        power : float
            Sum of squares of the centred targets.
        seen : (n_rows, n_directions), optional
            Centred targets of the rows that the solver has, in `error_directions`; without them by
            generalised cross-validation.
        """
        rotated = self.form.rotate(cross)
        penalties = AUTO_RIDGES * self.scale
        freedoms = np.sum(self.values / (self.values + penalties[:, None]), axis=1)
        if seen is None:
            best = self._generalised(rotated, power, penalties, freedoms)
            left = self.left_on_average(float(freedoms[best]))
        else:
            allowed = freedoms + 1.0 <= _MAX_FREEDOM * self.n_items
            allowed[-1] = True
            some = error_directions(rotated.shape[1])
            best, left = self._leave_one_out(rotated @ some, seen.T, penalties, allowed)
        coefficients = self.form.rotate_back(self.form.solve(penalties[best], rotated))
        return float(AUTO_RIDGES[best]), coefficients, left

    def left_on_average(self, freedom: float) -> float:
        """Return the share of a row's error that is left because it was learnt from."""
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
        self, rotated: Floats, seen: Floats, penalties: Floats, allowed: Bools
    ) -> tuple[int, float]:
        """Return the number of the best penalty, and the share of error left under it."""
        found: dict[int, tuple[float, float]] = {}

        def error(i: int) -> float:
            if i not in found:
                fitted = self.form.solve(penalties[i], rotated).T @ self.rotated_rows
                own = np.square(seen - fitted).sum(axis=0)
                found[i] = float(np.mean(own / self.left(penalties[i]) ** 2)), float(np.mean(own))
            return found[i][0]

        # The error falls and then rises, but for small ripples: look where it is least ever closer,
        # from the strongest ridge on, until it has been rising over three powers of ten.
        coarse = np.flatnonzero(allowed)[::-1][::4].tolist()
        best = coarse[0]
        for number, i in enumerate(coarse):
            best = min(best, i, key=error)
            if number - coarse.index(best) >= _RISES:
                break
        for step in (2, 1):
            near = [i for i in (best - step, best, best + step) if 0 <= i < len(penalties)]
            best = min((i for i in near if allowed[i]), key=error)
        unseen, own = found[best]
        return best, float(np.sqrt(own / unseen)) if unseen > 0 else 1.0


def error_directions(n_dimensions: int) -> Floats:
    """Return directions in which errors are as long on average as in all: always the same.

    (n_dimensions, n_directions); all where there are few.
    """
    if n_dimensions <= _DIRECTIONS:
        return np.eye(n_dimensions)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_dimensions, _DIRECTIONS))
    return np.asarray(signs / np.sqrt(_DIRECTIONS))


@dataclass(frozen=True)
class Regression:
    """The best linear prediction of some vectors from one view.

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
    >>> stats = Statistics.of({"image": np.array([[0.0], [1.0]])}, np.eye(2, dtype=np.uint8))
    >>> found = regress(stats.views["image"], np.array([[3.0], [5.0]]), 0.0)
    >>> found.intercept, found.ridge
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

    Minimises ``sum_i ||f_i - b - P^T x_i||^2 + rho * ||P||^2`` over P and, if wanted, b; the
    intercept is not penalised. ``"auto"`` takes the rho that minimises generalised
    cross-validation, the rotation-invariant form of leave-one-out, which needs only sums.

    Parameters
    ----------
    view : ViewStatistics
    targets : (n_sets, n_dimensions)
        The vector of each label set.
    ridge : float or "auto"
        rho over the mean diagonal of the (centred) Gram matrix.
    fit_intercept : bool
    device : torch device, optional
        Where eigenvalues are computed.

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
    n_items, sums = max(view.counts.sum(), 1.0), view.sums.sum(axis=0)
    solver = RidgeSolver(view.gram, sums, n_items, fit_intercept=fit_intercept, device=device)
    power = (targets.T * view.counts) @ targets
    return regress_moments(solver, view.sums.T @ targets, view.counts @ targets, power, ridge)


def regress_moments(
    solver: RidgeSolver,
    cross: Floats,
    sums: Floats,
    power: Floats,
    ridge: float | Literal["auto"],
    held: Floats | None = None,
    towards: Floats | None = None,
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
    held : (n_rows, n_directions), optional
        Targets of the rows that the solver has in `error_directions`, to choose a ridge by.
    towards : (n_features, n_dimensions), optional
        Coefficients that the ridge pulls towards instead of zero.

    Returns
    -------
    Regression
    """
    n_items, mean_x = solver.n_items, solver.mean
    mean_f = sums / n_items if solver.fit_intercept else np.zeros(len(sums))
    cross = cross - n_items * np.outer(mean_x, mean_f)
    power = power - n_items * np.outer(mean_f, mean_f)
    directions = error_directions(len(mean_f))
    centred = None if held is None else held - mean_f @ directions
    if towards is not None:
        # What is left of the targets is regressed, and the same coefficients are added again.
        power = power - cross.T @ towards - towards.T @ cross + towards.T @ solver.gram @ towards
        cross = cross - solver.gram @ towards
        if centred is not None and solver.rows is not None:
            centred = centred - (solver.rows - mean_x) @ towards @ directions
    if ridge == "auto":
        strength, coefficients, left = solver.cross_validate(cross, np.trace(power), centred)
    else:
        strength, coefficients, freedom = solver.solve(cross, float(ridge))
        left = solver.left_on_average(freedom)
    # What is left is power - A - A^T + P^T G P, and P solves (G + rho I) P = cross.
    penalty = strength * mean_diagonal(solver.gram)
    error = power - cross.T @ coefficients - penalty * (coefficients.T @ coefficients)
    if towards is not None:
        coefficients = coefficients + towards
    return Regression(
        coefficients,
        mean_f - mean_x @ coefficients,
        strength,
        # An item's own error is smaller than that of a stranger by this factor, on average.
        (error + error.T) / (2.0 * n_items * left**2),
    )


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
    held = targets[some] @ error_directions(targets.shape[1])
    return regress_moments(solver, cross, targets.sum(axis=0), power, ridge, held)
