"""Bandwidths, weights of kernels and the ridge, by the error on training rows held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.linalg import LinAlgError

from acqh._core.arrays import Floats
from acqh._core.linalg import Tridiagonal
from acqh.features._kernel_functions import (
    KERNELS,
    Side,
    kernel_block,
    mean_squared_distance,
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
# One kernel more has to lower the error by this share of it.
_LEAST_GAIN = 1e-3


@dataclass(frozen=True)
class Choice:
    """A sum of kernels and a ridge.

    Attributes
    ----------
    weights, widths : (n_kernels,)
        In the order of `KERNELS`; the width of an inner product is infinite.
    ridge : float
    error : float
        Squared error on rows held out, as a share of that of their mean; NaN where none was tried.
    """

    weights: Floats
    widths: Floats
    ridge: float
    error: float = float("nan")

    def block(self, left: Mapping[str, Side], right: Mapping[str, Side]) -> Floats:
        """Return the weighted sum of the kernels of two sets of prepared rows."""
        total = None
        for name, weight, width in zip(KERNELS, self.weights, self.widths, strict=True):
            if weight:
                block = kernel_block(left[name], right[name], width)
                if weight != 1.0:
                    block *= weight
                total = block if total is None else np.add(total, block, out=total)
        return np.asarray(total)


@dataclass
class _Trial:
    """Kernels between some rows, and between these and others that are held out."""

    train: Mapping[str, Side]
    held: Mapping[str, Side]
    targets: Floats
    expected: Floats
    ridges: Sequence[float]
    _blocks: dict[tuple[str, float], tuple[Floats, Floats]] = field(default_factory=dict)

    def blocks(self, name: str, width: float) -> tuple[Floats, Floats]:
        if (name, width) not in self._blocks:
            here = self.train[name]
            self._blocks[name, width] = (
                kernel_block(here, here, width).astype(np.float64),
                kernel_block(here, self.held[name], width).astype(np.float64),
            )
        return self._blocks[name, width]

    def errors(self, weights: Mapping[tuple[str, float], float]) -> Floats:
        """Return the error of a sum of kernels for every ridge, as a share of the mean's."""
        pairs = [(share, self.blocks(*key)) for key, share in weights.items()]
        inner, outer = (
            np.sum([share * blocks[side] for share, blocks in pairs], axis=0) for side in (0, 1)
        )
        form = Tridiagonal.of(inner)
        across = form.rotate(outer).T
        mean = self.targets.mean(axis=0)
        rotated = form.rotate(self.targets - mean)
        left = self.expected - mean
        errors = []
        for ridge in self.ridges:
            try:
                errors.append(np.sum((across @ form.solve(ridge, rotated) - left) ** 2))
            except LinAlgError:  # a ridge so small that rows which repeat others are in the way
                errors.append(np.inf)
        return np.asarray(np.asarray(errors) / max(np.sum(left**2), np.finfo(float).tiny))


@dataclass(frozen=True)
class _Trials:
    """One trial, or two that change places of the rows."""

    parts: Sequence[_Trial]

    def error(self, weights: Mapping[tuple[str, float], float]) -> tuple[float, float]:
        """Return the least error of a sum of kernels, and the ridge that has it."""
        errors = np.mean([part.errors(weights) for part in self.parts], axis=0)
        best = int(np.argmin(errors))
        return float(errors[best]), self.parts[0].ridges[best]


def choose(
    sides: Mapping[str, Side],
    targets: Floats | None,
    *,
    bandwidth: float | None,
    weights: Floats | None,
    ridge: float | None,
    is_small: bool = False,
) -> Choice:
    """Choose widths, weights and a ridge on training rows, half of which are held out.

    Parameters
    ----------
    sides : mapping of str to Side
        Some rows in random order, prepared for each kernel that may be used.
    targets : (n_rows, n_targets) or None
        None: nothing is chosen but widths, the mean squared distances.
    bandwidth : float, optional
        Widths over mean squared distances; chosen by default.
    weights : (n_kernels,), optional
    ridge : float, optional
    is_small : bool
        Whether there is time to hold out one half after the other.
    """
    names = [name for name in KERNELS if name in sides]
    means = {name: mean_squared_distance(sides[name][:TRIAL_ROWS]) for name in names}
    n_rows = len(sides[names[0]])
    if targets is None or n_rows < 4:
        factor = 1.0 if bandwidth is None else bandwidth
        parts = {(name, factor * means[name] if name in _ROUND else np.inf): 1.0 for name in names}
        return _as_choice(parts, weights, ridge or _PLAIN_RIDGE, float("nan"))
    half = min(n_rows // 2, TRIAL_ROWS)
    first, second = slice(half), slice(half, 2 * half)
    trial = _Trials(
        [
            _Trial(
                {name: side[here] for name, side in sides.items()},
                {name: side[held] for name, side in sides.items()},
                targets[here],
                targets[held],
                [float(it) for it in RIDGES] if ridge is None else [ridge],
            )
            for here, held in [(first, second), (second, first)][: 1 + is_small]
        ]
    )
    found = {name: _best_width(trial, name, means[name], bandwidth) for name in names}
    if weights is not None:
        parts = {(name, found[name][1]): weights[KERNELS.index(name)] for name in names}
        error, strength = trial.error(parts)
        return _as_choice(parts, None, strength, error)
    return _mix(trial, found)


# Kernels that are Gaussians where nothing is chosen; the others are inner products.
_ROUND = ("rbf", "hellinger")


def _best_width(
    trial: _Trials, name: str, mean: float, bandwidth: float | None
) -> tuple[float, float, float]:
    """Return the least error of one kernel, the width and the ridge that have it."""
    if bandwidth is not None:
        width = bandwidth * mean
        error, ridge = trial.error({(name, width): 1.0})
        return error, width, ridge
    tried: dict[float, tuple[float, float]] = {}

    def attempt(width: float) -> float:
        tried[width] = trial.error({(name, width): 1.0})
        return tried[width][0]

    if name != "rbf":
        attempt(np.inf)
    error = attempt(mean)
    for factor in (0.5, 2.0):
        width, last = mean * factor, error
        for _ in range(_MAX_STEPS):
            found = attempt(width)
            if found >= last:
                break
            width, last = width * factor, found
        if last < error:
            break
    best = min(tried, key=lambda width: tried[width][0])
    return tried[best][0], best, tried[best][1]


def _mix(trial: _Trials, found: Mapping[str, tuple[float, float, float]]) -> Choice:
    """Add kernels to the best one while that lowers the error."""
    first, *others = sorted(found, key=lambda name: found[name][0])
    error, width, ridge = found[first]
    parts = {(first, width): 1.0}
    for name in others:
        for share in _SHARES:
            mixed = {key: (1.0 - share) * weight for key, weight in parts.items()}
            mixed[name, found[name][1]] = share
            tried, strength = trial.error(mixed)
            if tried < (1.0 - _LEAST_GAIN) * error:
                error, ridge, best = tried, strength, mixed
            elif share == _SHARES[0]:
                best = parts
                break
        parts = best
    return _as_choice(parts, None, ridge, error)


def _as_choice(
    parts: Mapping[tuple[str, float], float], weights: Floats | None, ridge: float, error: float
) -> Choice:
    found, widths = np.zeros(len(KERNELS)), np.full(len(KERNELS), np.inf)
    for (name, width), share in parts.items():
        found[KERNELS.index(name)] = share
        widths[KERNELS.index(name)] = width
    found = found if weights is None else np.where(found > 0, weights, 0.0)
    return Choice(found / found.sum(), widths, float(ridge), error)
