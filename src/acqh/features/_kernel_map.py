"""Kernel ridge regression as a feature map."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from acqh._core.arrays import Array, Floats, Ints, Matrix, check_positive_int, is_sparse
from acqh._core.linalg import whiten
from acqh._core.random import RandomState, check_rng
from acqh.errors import InvalidInputError
from acqh.features._base import FeatureMap, row_blocks
from acqh.features._kernel_choice import TRIAL_ROWS, Choice, choose
from acqh.features._kernel_functions import (
    KERNELS,
    default_kernels,
    inverse_frequencies,
    prepare,
)
from acqh.features._kernel_nystrom import leverage_rows, solve_nystrom
from acqh.features._kernel_rows import Sides, between, halved, prepare_sides, widened
from acqh.features._kernel_solve import SMALL, DualSystem, leave_one_out, refine_ridge

# Anchors of a map that knows no targets: what follows squares their number.
_PLAIN_ANCHORS = 2048


class KernelMap(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Kernels with anchor rows, times coefficients: every method above becomes a kernel method.

    ``fit`` learns coordinates in which the inner products of two rows are their kernel (whitened
    Nyström features), so that a linear method on them is that method with the kernel.
    `fit_to` learns the kernel ridge regression of the rows onto targets, with every row an anchor
    while memory allows; the features are then the predictions. `acqh.ACQH` uses the latter where
    it learns from labels alone.

    Parameters
    ----------
    kernels : "auto", str or sequence of str
        ``"rbf"``, ``exp(-||x - z||^2 / width)``; ``"hellinger"``, the same of the signed roots of
        rows, scaled to unit length; ``"cosine"``; and for counts ``"tfidf"``, the cosine of counts
        times their inverse document frequencies, and ``"intersection"``, the sum of the smaller
        counts, scaled to one of a row with itself. Several are added up, with weights. ``"auto"``
        tries rbf, hellinger and cosine on dense rows; cosine, tfidf and intersection on sparse
        counts; rbf and cosine on other sparse rows.
    n_anchors : int, optional
        By default all rows that `max_memory` allows (`fit`: 2,048). Fewer than there are rows are
        drawn by leverage, and solved for by conjugate gradients.
    bandwidth : float, optional
        Width over the mean squared distance of training rows, for all kernels, which become
        Gaussians of their distance then. By default chosen for each kernel, an infinite one (the
        inner product itself) included; `fit` takes 1 for rbf and hellinger.
    ridge : float, optional
        Positive; the noise of targets where a row's kernel with itself is one. By default chosen.
    weights : sequence of float, optional
        One per kernel named; by default chosen, `fit` takes equal ones.
    max_memory : int
        Bytes that kernel matrices may take.
    random_state : int, Generator or None
        Draws the rows that choices are made on, and anchors.

    Attributes
    ----------
    anchors_ : (n_anchors, n_features)
        Dense or CSR, as the rows were; of `fit_to` in half precision where that changes no kernel
        by 0.001, of `fit`, which divides by small eigenvalues, in double precision.
    coefficients_ : (n_anchors, n_out)
        float32 of `fit_to`, float64 of `fit`.
    offset_ : (n_out,)
    weights_, widths_ : (5,)
        Of rbf, hellinger, cosine, tfidf and intersection; an infinite width is no Gaussian.
    idf_ : (n_features,)
    ridge_ : float
    error_ : float
        Squared error on training rows held out when choices were made, as a share of that of the
        mean; NaN where nothing was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from acqh.features import KernelMap
    >>> rows = np.linspace(-1, 1, 40)[:, np.newaxis]
    >>> ridge = KernelMap("rbf", bandwidth=0.5, ridge=1e-4)
    >>> left_out = ridge.fit_to(rows, np.cos(3 * rows))
    >>> bool(np.abs(left_out - np.cos(3 * rows)).max() < 0.01)
    True
    >>> ridge.transform([[0.0]]).round(2)
    array([[1.]])
    """

    _state_axes: ClassVar = {
        "anchors_": ("n_anchors", "n_features"),
        "coefficients_": ("n_anchors", "n_out"),
        "offset_": ("n_out",),
        "weights_": ("n_kernels",),
        "widths_": ("n_kernels",),
        "idf_": ("n_features",),
        "ridge_": (),
        "error_": (),
    }
    anchors_: Matrix
    coefficients_: Floats
    offset_: Floats
    weights_: Floats
    widths_: Floats
    idf_: Floats
    ridge_: float
    error_: float

    def __init__(
        self,
        kernels: Literal["auto"] | str | Sequence[str] = "auto",
        *,
        n_anchors: int | None = None,
        bandwidth: float | None = None,
        ridge: float | None = None,
        weights: Sequence[float] | None = None,
        max_memory: int = 1 << 30,
        random_state: RandomState = None,
    ) -> None:
        self.kernels = kernels
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.weights = weights
        self.max_memory = max_memory
        self.random_state = random_state

    def _learn(self, X: Matrix) -> None:
        """Learn coordinates in which inner products are kernels."""
        names = self._names(X)
        rng = check_rng(self.random_state)
        idf = inverse_frequencies(X)
        choice = self._choose(X, None, names, idf, rng)
        n_anchors = min(self.n_anchors or _PLAIN_ANCHORS, X.shape[0])
        anchors = X[self._anchor_rows(X, choice, idf, n_anchors, rng)].astype(np.float64)
        sides = prepare_sides(anchors, choice, idf)
        coefficients = whiten(choice.block(sides, sides))
        if not coefficients.shape[1]:  # rows without any kernel still get one column
            coefficients = np.zeros((n_anchors, 1))
        self._keep(anchors, coefficients, np.zeros(coefficients.shape[1]), choice, idf)

    def fit_to(self, X: Matrix, targets: Floats) -> Floats:
        """Learn the kernel ridge regression onto targets; features are its predictions.

        Parameters
        ----------
        X : (n_items, n_features)
        targets : (n_items, n_targets)

        Returns
        -------
        (n_items, n_targets)
            What each row is predicted as when it is left out: what a method above can learn from
            as it would from rows never seen. Exact where all rows are anchors; otherwise
            generalised, with the mean leverage for that of every row.

        Raises
        ------
        InvalidInputError
            A parameter is out of its range, targets do not fit the rows, a kernel of counts gets
            negative numbers, or the ridge is too small.
        """
        self._check_params()
        X = self._check_fit(X)
        names = self._names(X)
        targets = _check_targets(targets, X.shape[0])
        rng = check_rng(self.random_state)
        idf = inverse_frequencies(X)
        choice = self._choose(X, targets, names, idf, rng)
        offset = targets.mean(axis=0)
        if self.ridge is None:
            choice = self._refined(X, targets - offset, choice, idf, rng)
        n_rows = X.shape[0]
        n_anchors = min(self.n_anchors or self._room(n_rows), n_rows)
        rows = self._anchor_rows(X, choice, idf, n_anchors, rng)
        anchors = halved(X[rows], choice, idf)
        if n_anchors == n_rows:
            sides = prepare_sides(widened(anchors), choice, idf)
            system = DualSystem.of(between(choice, sides, sides), n_rows, choice.ridge)
            coefficients = system.solve(targets - offset)
            diagonal = system.take_inverse_diagonal()
            left_out = leave_one_out(targets, coefficients, diagonal)
        else:
            sides = prepare_sides(X, choice, idf)
            others = prepare_sides(widened(anchors), choice, idf)
            found = self._solve_some(choice, sides, others, targets - offset, rng)
            coefficients, left_out = found[0], found[1] + offset
        self._keep(anchors, coefficients.astype(np.float32), offset, choice, idf)
        return left_out.astype(X.dtype, copy=False)

    def _map(self, X: Matrix) -> Floats:
        """Return kernels with the anchors, times the coefficients."""
        n_anchors, n_out = self.coefficients_.shape
        out = np.empty((X.shape[0], n_out), X.dtype)
        choice = Choice(self.weights_, self.widths_, self.ridge_)
        for block in row_blocks(X.shape[0], max(n_anchors, 0 if is_sparse(X) else X.shape[1])):
            # To widen all anchors for a few rows would take longer than their kernels.
            rows = X[block].astype(self._dtype, copy=False)
            kernel = choice.block(prepare_sides(rows, choice, self.idf_), self._sides)
            out[block] = kernel @ self.coefficients_ + self.offset_
        return out

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Become fitted with what `get_state` gave; raises as every map's does."""
        super().set_state(arrays)
        if len(self.weights_) != len(KERNELS):
            raise InvalidInputError(
                f"'weights' of KernelMap has {len(self.weights_)} entries, not {len(KERNELS)}"
            )
        self._prepare_anchors()
        return self

    def _keep(
        self, anchors: Matrix, coefficients: Floats, offset: Floats, choice: Choice, idf: Floats
    ) -> None:
        self.idf_, self.weights_, self.widths_ = idf, choice.weights, choice.widths
        self.ridge_, self.error_ = choice.ridge, choice.error
        self.anchors_ = anchors
        self.coefficients_ = coefficients
        self.offset_ = offset
        self._prepare_anchors()

    def _prepare_anchors(self) -> None:
        """Prepare the anchors once: to widen them for every query would take longer than it."""
        choice = Choice(self.weights_, self.widths_, self.ridge_)
        anchors = widened(self.anchors_)
        self._dtype = anchors.dtype
        self._sides = prepare_sides(anchors, choice, self.idf_, by_column=True)

    def _check_params(self) -> None:
        for name in ("bandwidth", "ridge"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InvalidInputError(f"{name} must be a positive number, got {value!r}")
        for name in ("n_anchors", "max_memory"):
            if getattr(self, name) is not None:
                check_positive_int(getattr(self, name), name)

    def _names(self, X: Matrix) -> tuple[str, ...]:
        if isinstance(self.kernels, str):
            names = default_kernels(X) if self.kernels == "auto" else (self.kernels,)
        else:
            names = tuple(self.kernels)
        unknown = [name for name in names if name not in KERNELS]
        if unknown or not names or len(set(names)) < len(names):
            raise InvalidInputError(
                f"kernels must be 'auto' or different ones of {', '.join(KERNELS)}, "
                f"got {self.kernels!r}"
            )
        if self.weights is not None:
            values = np.asarray(self.weights, dtype=np.float64)
            if values.shape != (len(names),) or not (np.all(values >= 0) and values.sum() > 0):
                raise InvalidInputError(
                    f"weights must be {len(names)} numbers of at least zero, one per kernel and "
                    f"not all zero, got {self.weights!r}"
                )
        return names

    def _choose(
        self,
        X: Matrix,
        targets: Floats | None,
        names: tuple[str, ...],
        idf: Floats,
        rng: np.random.Generator,
    ) -> Choice:
        rows = rng.permutation(X.shape[0])[: 2 * TRIAL_ROWS]
        weights = None
        if self.weights is not None or targets is None:
            weights = np.zeros(len(KERNELS))
            given = np.ones(len(names)) if self.weights is None else self.weights
            weights[[KERNELS.index(name) for name in names]] = given
        some = X[rows]
        return choose(
            {name: prepare(name, some, idf) for name in names},
            None if targets is None else targets[rows],
            bandwidth=self.bandwidth,
            weights=weights,
            ridge=self.ridge,
            is_small=X.shape[0] <= SMALL,
        )

    def _refined(
        self, X: Matrix, targets: Floats, choice: Choice, idf: Floats, rng: np.random.Generator
    ) -> Choice:
        """Return a choice with a ridge for as many rows as can be left out one by one quickly."""
        rows = np.sort(rng.permutation(X.shape[0])[:SMALL])
        sides = prepare_sides(X[rows], choice, idf)
        kernel = choice.block(sides, sides)
        return replace(choice, ridge=refine_ridge(kernel, targets[rows], choice.ridge))

    def _room(self, n_rows: int) -> int:
        """Return how many anchors `max_memory` allows: all, or with all kernels in memory."""
        itemsize = 8 if n_rows <= SMALL else 4
        if itemsize * n_rows**2 <= self.max_memory:
            return n_rows
        half = n_rows / 2.0
        return max(int(np.sqrt(half**2 + self.max_memory / 8) - half), 1)

    def _anchor_rows(
        self, X: Matrix, choice: Choice, idf: Floats, n_anchors: int, rng: np.random.Generator
    ) -> Ints:
        if n_anchors == X.shape[0]:
            return np.arange(n_anchors)

        def block(rows: Ints, columns: Ints) -> Array:
            return choice.block(
                prepare_sides(X[rows], choice, idf), prepare_sides(X[columns], choice, idf)
            )

        return leverage_rows(block, X.shape[0], n_anchors, rng)

    def _solve_some(
        self,
        choice: Choice,
        sides: Sides,
        anchors: Sides,
        targets: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, Floats]:
        """Solve for anchors that are some of the rows; keep kernels where memory allows."""
        n_rows, n_anchors = len(targets), len(next(iter(anchors.values())))
        share = choice.ridge * n_anchors / n_rows
        system = DualSystem.of(between(choice, anchors, anchors), n_anchors, share)
        across = between(choice, sides, anchors)
        everyone = slice(None)
        is_kept = 4 * n_anchors * (n_rows + n_anchors) <= self.max_memory
        kept: dict[int, Array] = {}

        def kernel_rows(part: slice) -> Array:
            if part.start in kept:
                return kept[part.start]
            found: Array = across(part, everyone).astype(system.matrix.dtype, copy=False)
            if is_kept:
                kept[part.start] = found
            return found

        return solve_nystrom(kernel_rows, system, targets, choice.ridge, rng)

    @property
    def _n_features_out(self) -> int:
        return int(self.coefficients_.shape[1])


def _check_targets(targets: Any, n_rows: int) -> Floats:
    found = np.asarray(targets, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != n_rows or not found.shape[1]:
        raise InvalidInputError(
            f"targets must be a matrix of {n_rows} rows, one per row of X, got shape {found.shape}"
        )
    if not np.all(np.isfinite(found)):
        raise InvalidInputError("targets have a NaN or infinite value; leave such rows out")
    return found
