"""Bandwidths, weights of kernels and the ridge, by the error on training rows held out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import EigenForm
from acqh.features.kernel_ridge import descend
from acqh.features.kernels import (
    KERNELS,
    Columns,
    PreparedRows,
    gaussian,
    kernel_block,
    mean_squared_distance,
    prepare,
    products,
    self_products,
)

# Rows that kernels are tried on, and as many that they are judged by.
TRIAL_ROWS = 1000
# Strengths tried; every kernel has about one of a row with itself.
RIDGES = np.logspace(-3, 2, 21)
# Where nothing can be tried.
_PLAIN_RIDGE = 0.1
# Bandwidths are tried by factors of two around the mean squared distance, no further than this.
_MAX_STEPS = 5
# Shares of the kernel that is added to those chosen before.
_SHARES = (0.25, 0.5, 0.75)
# One kernel more has to lower the error by this share of it, or of what is explained.
_LEAST_GAIN = 1e-3
# Shares of kernels, each a name and a width.
Mixture: TypeAlias = Mapping[tuple[str, float], float]
Prepared: TypeAlias = Mapping[str, PreparedRows]  # by kernel


@dataclass(frozen=True)
class Choice:
    """A sum of kernels and a ridge."""

    # (n_kernels,): in the order of `KERNELS`; the width of an inner product is infinite.
    weights: Floats
    widths: Floats
    ridge: float
    # Squared error on rows held out, as a share of that of their mean; NaN where none was tried.
    error: float = float("nan")

    def block(self, left: Prepared, right: Prepared) -> Any:
        """Return the weighted sum of the kernels of two sets of prepared rows."""
        total: Any = None
        for name, weight, width in zip(KERNELS, self.weights, self.widths, strict=True):
            if weight:
                block = kernel_block(left[name], right[name], width)
                if weight != 1.0:
                    block *= weight
                if total is None:
                    total = block
                else:
                    total += block
        return total

    def sides(self, X: Matrix, columns: Columns) -> dict[str, PreparedRows]:
        """Prepare rows for the kernels that are used."""
        sides = {}
        for name, weight, width in zip(KERNELS, self.weights, self.widths, strict=True):
            # Inner products, unlike distances, depend on the origin.
            kernel_columns = columns if np.isfinite(width) else columns._replace(origin=None)
            if weight:
                sides[name] = prepare(name, X, kernel_columns)
        return sides

    def between(self, left: Prepared, right: Prepared) -> Callable[[slice, slice], Any]:
        """Return what gives the kernel of two slices of prepared rows."""

        def block(rows: slice, columns: slice) -> Any:
            return self.block(
                {name: side[rows] for name, side in left.items()},
                {name: side[columns] for name, side in right.items()},
            )

        return block


@dataclass
class _Trial:
    """Kernels between some rows, and between these and others that are held out."""

    train: Prepared
    held: Prepared
    targets: Floats
    expected: Floats
    ridges: Sequence[float]
    _products: dict[str, tuple[Floats, ...]] = field(default_factory=dict, kw_only=True)

    def blocks(self, name: str, width: float) -> tuple[Floats, Floats]:
        """Return kernels between the rows, and between these and those held out, in float64."""
        train, held = self.train[name], self.held[name]
        if name not in self._products:
            pair = products(train, train), products(train, held)
            self._products[name] = (*pair, self_products(train), self_products(held))
        inner, outer, left, right = self._products[name]
        blocks = gaussian(1.0 * inner, left, left, width), gaussian(1.0 * outer, left, right, width)
        return blocks[0].astype(np.float64), blocks[1].astype(np.float64)

    def errors(self, weights: Mixture) -> Floats:
        """Return the error of a sum of kernels for every ridge, as a share of the mean's."""
        pairs = [(share, self.blocks(*key)) for key, share in weights.items()]
        inner, outer = (
            np.sum([share * blocks[side] for share, blocks in pairs], axis=0) for side in (0, 1)
        )
        form = EigenForm.of(inner)
        across = (form.vectors.T @ outer).T
        mean = self.targets.mean(axis=0)
        rotated = form.vectors.T @ (self.targets - mean)
        left = self.expected - mean
        errors = []
        for ridge in self.ridges:
            if form.values[0] + ridge > 0:
                errors.append(np.sum((across @ form.solve(ridge, rotated) - left) ** 2))
            else:  # the ridge is within rounding of zero, and some rows repeat others
                errors.append(np.inf)
        return np.asarray(np.asarray(errors) / max(np.sum(left**2), np.finfo(float).tiny))


def _least_error(trials: Sequence[_Trial], weights: Mixture) -> tuple[float, float]:
    """Return the least mean error of a sum of kernels over all ridges, and its ridge."""
    errors = np.mean([trial.errors(weights) for trial in trials], axis=0)
    best = int(np.argmin(errors))
    return float(errors[best]), trials[0].ridges[best]


def choose(
    sides: Mapping[str, PreparedRows],
    targets: Floats | None,
    *,
    bandwidth: float | None,
    ridge: float | None,
    is_small: bool = False,
) -> Choice:
    """Choose widths, weights and a ridge on training rows, with half of them held out.

    `sides`: some rows in random order, prepared for each kernel that may be used. `targets`:
    (n_rows, n_targets); None: nothing is chosen but widths, the mean squared distances, with equal
    weights. `bandwidth`: widths over these. `is_small`: whether there is time to hold out one half
    after the other.
    """
    names = [name for name in KERNELS if name in sides]
    means = {name: mean_squared_distance(sides[name][:TRIAL_ROWS]) for name in names}
    n_rows = len(sides[names[0]])
    if targets is None or n_rows < 4:
        factor = 1.0 if bandwidth is None else bandwidth
        parts = {(name, factor * means[name] if name in _ROUND else np.inf): 1.0 for name in names}
        return _as_choice(parts, ridge or _PLAIN_RIDGE, float("nan"))
    half = min(n_rows // 2, TRIAL_ROWS)
    first, second = slice(half), slice(half, 2 * half)
    trials = [
        _Trial(
            {name: side[train] for name, side in sides.items()},
            {name: side[held] for name, side in sides.items()},
            targets[train],
            targets[held],
            RIDGES.tolist() if ridge is None else [ridge],
        )
        for train, held in [(first, second), (second, first)][: 1 + is_small]
    ]
    return _mix(trials, {name: _best_width(trials, name, means[name], bandwidth) for name in names})


# Kernels that are Gaussians where nothing is chosen; the others are inner products.
_ROUND = ("rbf", "hellinger")


def _best_width(
    trials: Sequence[_Trial], name: str, mean: float, bandwidth: float | None
) -> tuple[float, float, float]:
    """Return the least error of one kernel, the width and the ridge that have it."""
    if bandwidth is not None:
        width = bandwidth * mean
        error, ridge = _least_error(trials, {(name, width): 1.0})
        return error, width, ridge
    tried: dict[float, tuple[float, float]] = {}

    def attempt(width: float) -> float:
        tried[width] = _least_error(trials, {(name, width): 1.0})
        return tried[width][0]

    if name != "rbf":
        attempt(np.inf)
    descend(attempt, mean, (0.5, 2.0), _MAX_STEPS)
    best = min(tried, key=lambda width: tried[width][0])
    return tried[best][0], best, tried[best][1]


def _mix(trials: Sequence[_Trial], choices: Mapping[str, tuple[float, float, float]]) -> Choice:
    """Add kernels to the best one while that lowers the error."""
    first, *others = sorted(choices, key=lambda name: choices[name][0])
    error, width, ridge = choices[first]
    parts = {(first, width): 1.0}
    for name in others:
        mixtures = [
            {key: (1.0 - share) * weight for key, weight in parts.items()}
            | {(name, choices[name][1]): share}
            for share in _SHARES
        ]
        tried = [(*_least_error(trials, mixed), mixed) for mixed in mixtures]
        least, strength, mixed = min(tried, key=lambda attempt: attempt[0])
        if error - least > _LEAST_GAIN * min(error, 1.0 - error):
            error, ridge, parts = least, strength, mixed
    return _as_choice(parts, ridge, error)


def _as_choice(parts: Mixture, ridge: float, error: float) -> Choice:
    weights, widths = np.zeros(len(KERNELS)), np.full(len(KERNELS), np.inf)
    for (name, width), share in parts.items():
        weights[KERNELS.index(name)] = share
        widths[KERNELS.index(name)] = width
    return Choice(weights / weights.sum(), widths, float(ridge), error)
