"""Bandwidths, weights of kernels and the ridge, by the error on training rows held out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_tensor
from acqh._core.device import Tensor, row_blocks
from acqh._core.linalg import EigenForm
from acqh.features.kernel.kernels import (
    KERNELS,
    Columns,
    Numbers,
    bend_products,
    beside,
    kernel_block,
    mean_squared_distance,
    on_host,
    prepare,
    products,
    rows_at,
    self_products,
    widen,
)
from acqh.features.kernel.solve import descend, solve_many

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


@dataclass(frozen=True)
class Choice:
    """A sum of kernels and a ridge."""

    # (n_kernels,): in the order of `KERNELS`; the width of an inner product is infinite.
    weights: Floats
    widths: Floats
    ridge: float
    # Squared error on rows held out, as a share of that of their mean; NaN where none was tried.
    error: float = float("nan")

    def block(self, left: Mapping[str, Any], right: Mapping[str, Any]) -> Any:
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

    def sides(self, X: Matrix, columns: Columns, *, by_column: bool = False) -> dict[str, Any]:
        """Prepare rows for the kernels that are used."""
        sides = {}
        for name, weight, width in zip(KERNELS, self.weights, self.widths, strict=True):
            # Inner products, unlike distances, depend on the origin.
            own = columns if np.isfinite(width) else columns._replace(origin=None)
            if weight:
                sides[name] = prepare(name, X, own, by_column=by_column)
        return sides

    def between(
        self, left: Mapping[str, Any], right: Mapping[str, Any]
    ) -> Callable[[slice, slice], Numbers]:
        """Return what gives the kernel of two slices of prepared rows."""

        def block(rows: slice, columns: slice) -> Numbers:
            return self.block(
                {name: side[rows] for name, side in left.items()},
                {name: side[columns] for name, side in right.items()},
            )

        return block


@dataclass
class _Trial:
    """Kernels between some rows, and between these and others that are held out."""

    train: Mapping[str, Any]
    held: Mapping[str, Any]
    targets: Numbers
    expected: Numbers
    ridges: Sequence[float]
    _products: dict[str, tuple[Numbers, ...]] = field(default_factory=dict, kw_only=True)

    def expect(self, mixtures: Sequence[Mixture]) -> None:
        """Be told which sums of kernels may be asked for next."""

    def blocks(self, name: str, width: float) -> tuple[Numbers, Numbers]:
        """Return kernels between the rows, and between these and those held out, in float64."""
        here, held = self.train[name], self.held[name]
        if name not in self._products:
            found = products(here, here), products(here, held)
            self._products[name] = (*found, self_products(here), self_products(held))
        inner, outer, own, their = self._products[name]
        # What is bent is bent in place.
        return (
            widen(bend_products(1.0 * inner, own, own, width)),
            widen(bend_products(1.0 * outer, own, their, width)),
        )


@dataclass
class _HostTrial(_Trial):
    """A trial of arrays: every sum of kernels is decomposed once, for all ridges."""

    def errors(self, weights: Mixture) -> Floats:
        """Return the error of a sum of kernels for every ridge, as a share of the mean's."""
        pairs = [(share, self.blocks(*key)) for key, share in weights.items()]
        inner, outer = (
            np.sum([share * blocks[side] for share, blocks in pairs], axis=0) for side in (0, 1)
        )
        form = EigenForm.of(inner)
        across = form.rotate(outer).T
        mean = self.targets.mean(axis=0)
        rotated = form.rotate(self.targets - mean)
        left = self.expected - mean
        errors = []
        for ridge in self.ridges:
            if form.values[0] + ridge > 0:
                errors.append(np.sum((across @ form.solve(ridge, rotated) - left) ** 2))
            else:  # the ridge is within rounding of zero, and some rows repeat others
                errors.append(np.inf)
        return np.asarray(np.asarray(errors) / max(np.sum(left**2), np.finfo(float).tiny))


@dataclass
class _TensorTrial(_Trial):
    """A trial of tensors: on a GPU all sums of kernels that may be asked for, at once.

    A GPU is slow at reducing one matrix, and quick at factoring hundreds.
    """

    max_memory: int = 0
    _known: dict[frozenset[Any], Floats] = field(default_factory=dict)

    def expect(self, mixtures: Sequence[Mixture]) -> None:
        """Compute what may be asked for, where many systems take hardly longer than one."""
        if self.targets.device.type != "cpu":
            self.try_all(mixtures)

    def try_all(self, mixtures: Sequence[Mixture]) -> None:
        """Compute the errors of sums of kernels, as many at a time as memory allows."""
        n_rows, n_ridges = len(self.targets), len(self.ridges)
        mean = self.targets.mean(0)
        left = self.expected - mean
        # The matrix, what its factor takes beside it, and its share of the kernels.
        bytes_each = 8 * n_rows * (4 * n_rows + 4 * self.targets.shape[1])
        found = []
        room = max(self.max_memory, bytes_each)
        for pairs in row_blocks(len(mixtures) * n_ridges, bytes_each, room):
            first, last = pairs.start // n_ridges, (pairs.stop - 1) // n_ridges
            own = np.arange(pairs.start, pairs.stop)
            ridges = np.asarray(self.ridges)[own % n_ridges]
            found += self._errors(
                mixtures[first : last + 1], own // n_ridges - first, ridges, mean, left
            )
        errors = np.concatenate([on_host(it) for it in found])
        errors = np.where(np.isnan(errors), np.inf, errors)
        for mixture, own in zip(mixtures, errors.reshape(len(mixtures), n_ridges), strict=True):
            self._known[frozenset(mixture.items())] = own

    def _errors(
        self, mixtures: Sequence[Mixture], places: Any, ridges: Floats, mean: Tensor, left: Tensor
    ) -> list[Tensor]:
        """Return the errors of mixtures, each with its ridge, as a share of the mean's."""
        n_rows = len(self.targets)
        inner = left.new_zeros((len(mixtures), n_rows, n_rows))
        outer = left.new_zeros((len(mixtures), n_rows, len(left)))
        for place, mixture in enumerate(mixtures):
            for (name, width), share in mixture.items():
                for total, found in zip((inner, outer), self.blocks(name, width), strict=True):
                    total[place].add_(found, alpha=share)
        systems = rows_at(inner, places)
        systems.diagonal(dim1=1, dim2=2).add_(beside(ridges[:, np.newaxis], left))
        solution, failed = solve_many(systems, self.targets - mean)
        total = (left**2).sum().clip(np.finfo(float).tiny)
        errors = []
        for place in range(len(mixtures)):
            own = np.flatnonzero(places == place)
            predicted = outer[place].T @ rows_at(solution, own)
            found = ((predicted - left) ** 2).sum((1, 2)) / total
            # A ridge so small that rows which repeat others are in the way has no error.
            errors.append(found.masked_fill(rows_at(failed, own), np.inf))
        return errors

    def errors(self, weights: Mixture) -> Floats:
        key = frozenset(weights.items())
        if key not in self._known:
            self.try_all([weights])
        return self._known[key]


@dataclass(frozen=True)
class _Trials:
    """One trial, or two that change places of the rows."""

    parts: Sequence[Any]

    def expect(self, mixtures: Sequence[Mixture]) -> None:
        """Tell every trial which sums of kernels may be asked for next."""
        for part in self.parts:
            part.expect(mixtures)

    def error(self, weights: Mixture) -> tuple[float, float]:
        """Return the least error of a sum of kernels, and the ridge that has it."""
        errors = np.mean([part.errors(weights) for part in self.parts], axis=0)
        best = int(np.argmin(errors))
        return float(errors[best]), self.parts[0].ridges[best]


def choose(
    sides: Mapping[str, Any],
    targets: Any,
    *,
    bandwidth: float | None,
    ridge: float | None,
    is_small: bool = False,
    max_memory: int = 1 << 30,
) -> Choice:
    """Choose widths, weights and a ridge on training rows, half of which are held out.

    `sides`: some rows in random order, prepared for each kernel that may be used. `targets`:
    (n_rows, n_targets), array or tensor; None: nothing is chosen but widths, the mean squared
    distances, with equal weights. `bandwidth`: widths over these. `is_small`: whether there is
    time to hold out one half after the other. `max_memory`: bytes for kernels that are tried at
    once, of tensors.
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
    parts_of = [
        (
            {name: side[here] for name, side in sides.items()},
            {name: side[held] for name, side in sides.items()},
            targets[here],
            targets[held],
            [float(it) for it in RIDGES] if ridge is None else [ridge],
        )
        for here, held in [(first, second), (second, first)][: 1 + is_small]
    ]
    if is_tensor(targets):
        trial = _Trials([_TensorTrial(*it, max_memory=max_memory) for it in parts_of])
    else:
        trial = _Trials([_HostTrial(*it) for it in parts_of])
    found = {name: _best_width(trial, name, means[name], bandwidth) for name in names}
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

    steps = range(-_MAX_STEPS, _MAX_STEPS + 1)
    plain = [] if name == "rbf" else [np.inf]
    trial.expect([{(name, width): 1.0} for width in [*plain, *(mean * 2.0**it for it in steps)]])
    for width in plain:
        attempt(width)
    descend(attempt, mean, (0.5, 2.0), _MAX_STEPS)
    best = min(tried, key=lambda width: tried[width][0])
    return tried[best][0], best, tried[best][1]


def _mix(trial: _Trials, found: Mapping[str, tuple[float, float, float]]) -> Choice:
    """Add kernels to the best one while that lowers the error."""
    first, *others = sorted(found, key=lambda name: found[name][0])
    error, width, ridge = found[first]
    parts = {(first, width): 1.0}
    for name in others:
        mixtures = [
            {key: (1.0 - share) * weight for key, weight in parts.items()}
            | {(name, found[name][1]): share}
            for share in _SHARES
        ]
        trial.expect(mixtures)
        tried = [(*trial.error(mixed), mixed) for mixed in mixtures]
        least, strength, mixed = min(tried, key=lambda it: it[0])
        if error - least > _LEAST_GAIN * min(error, 1.0 - error):
            error, ridge, parts = least, strength, mixed
    return _as_choice(parts, ridge, error)


def _as_choice(parts: Mixture, ridge: float, error: float) -> Choice:
    weights, widths = np.zeros(len(KERNELS)), np.full(len(KERNELS), np.inf)
    for (name, width), share in parts.items():
        weights[KERNELS.index(name)] = share
        widths[KERNELS.index(name)] = width
    return Choice(weights / weights.sum(), widths, float(ridge), error)
