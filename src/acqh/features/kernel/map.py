"""Kernel ridge regression as a feature map."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from acqh._core.arrays import (
    Floats,
    Ints,
    Matrix,
    check_positive,
    check_positive_int,
    is_sparse,
)
from acqh._core.device import check_rows, is_tensor
from acqh._core.device import row_blocks as device_blocks
from acqh._core.linalg import fix_signs
from acqh._core.runtime import RandomState, check_rng
from acqh.errors import InvalidInputError
from acqh.features.base import FeatureMap, row_blocks
from acqh.features.kernel.anchors import central_rows, leverage_rows
from acqh.features.kernel.arithmetic import Numbers, arithmetic_of
from acqh.features.kernel.choice import TRIAL_ROWS, Choice, choose
from acqh.features.kernel.kernels import KERNELS, default_kernels, inverse_frequencies, prepare
from acqh.features.kernel.nystrom import solve_some
from acqh.features.kernel.rows import (
    between,
    check_targets,
    halved,
    prepare_sides,
    widened,
)
from acqh.features.kernel.solve import SMALL, DualSystem, leave_one_out, refine_ridge

# Anchors of a map that knows no targets: what follows squares their number.
_PLAIN_ANCHORS = 2048
# The name of what is made ready for arrays, beside those of devices.
_HOST = "arrays"


@dataclass(eq=False, repr=False)
class KernelMap(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Kernels with anchor rows, times coefficients: every method above becomes a kernel method.

    ``fit`` learns coordinates in which the inner products of two rows are their kernel (whitened
    Nyström features), so that a linear method on them is that method with the kernel.
    `fit_to` learns the kernel ridge regression of the rows onto targets, with every row an anchor
    while memory allows; the features are then the predictions. `acqh.ACQH` uses the latter where
    it learns from labels alone. Rows that are a tensor of torch are computed with on their device,
    and what comes back is one too; what is learnt are arrays.

    Parameters
    ----------
    kernels : "auto", str or sequence of str
        ``"rbf"``, ``exp(-||x - z||^2 / width)``; ``"hellinger"``, the same of the signed roots of
        rows, scaled to unit length; ``"cosine"``; and for counts ``"tfidf"``, the cosine of counts
        times their inverse document frequencies, and ``"intersection"``, the sum of the smaller
        counts, scaled to one of a row with itself. Several are added up, with weights. ``"auto"``
        tries rbf, hellinger and cosine on dense rows, and intersection on those of at most 256
        numbers that are none below zero; cosine, tfidf and intersection on sparse counts; rbf and
        cosine on other sparse rows.
    n_anchors : int, optional
        By default all rows that `max_memory` allows (`fit`: 2,048). Fewer than there are rows are
        solved for by normal equations, above 4,096 by conjugate gradients.
    anchors : {"leverage", "kmeans"}
        How fewer anchors than rows are chosen: drawn by leverage, so that rows like none of the
        others are among them, or the rows nearest to the centres of k-means, which takes longer.
        Not the centres themselves: a mean of counts is dense, and like no row. Neither looks at
        targets, so that rows left out are predicted with the anchors as they are. Tensors are
        clustered on the host.
    bandwidth : float, optional
        Width over the mean squared distance of training rows, for all kernels, which become
        Gaussians of their distance then. By default chosen for each kernel, an infinite one (the
        inner product itself) included; `fit` takes 1 for rbf and hellinger.
    ridge : float, optional
        Positive; the noise of targets where a row's kernel with itself is one. By default chosen.
    weights : sequence of float, optional
        One per kernel named; by default chosen, `fit` takes equal ones.
    max_memory : int
        Bytes that kernel matrices may take, on a device too.
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
        Of rbf, hellinger, cosine, tfidf and intersection; an infinite width is not a Gaussian.
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
        "ridge_": float,
        "error_": float,
    }

    kernels: Literal["auto"] | str | Sequence[str] = "auto"
    _: KW_ONLY
    n_anchors: int | None = None
    anchors: Literal["leverage", "kmeans"] = "leverage"
    bandwidth: float | None = None
    ridge: float | None = None
    weights: Sequence[float] | None = None
    max_memory: int = 1 << 30
    random_state: RandomState = None
    # Anchors as queries need them, for arrays and for devices.
    _ready: dict[str, tuple[Any, ...]] = field(init=False)

    def _learn(self, X: Matrix) -> None:
        """Learn coordinates in which inner products are kernels."""
        names = self._names(X)
        rng, arithmetic = check_rng(self.random_state), arithmetic_of(X)
        idf = arithmetic.here(inverse_frequencies(X))
        choice = self._choose(X, None, names, idf, rng)
        n_anchors = min(self.n_anchors or _PLAIN_ANCHORS, X.shape[0])
        rows = self._anchor_rows(X, choice, idf, n_anchors, rng)
        anchors = arithmetic.widen(arithmetic.rows(X, rows))
        sides = prepare_sides(anchors, choice, idf)
        coefficients = fix_signs(arithmetic.whiten(choice.block(sides, sides)))
        if not coefficients.shape[1]:  # rows without any kernel still get one column
            coefficients = np.zeros((n_anchors, 1))
        self._keep(anchors, coefficients, np.zeros(coefficients.shape[1]), choice, idf)

    def fit_to(self, X: Matrix, targets: Numbers) -> Numbers:
        """Learn the kernel ridge regression onto targets; features are its predictions.

        Parameters
        ----------
        X : (n_items, n_features), array, CSR or tensor
        targets : (n_items, n_targets)
            A tensor or an array.

        Returns
        -------
        (n_items, n_targets)
            What each row is predicted as when it is left out: what a method above can learn from
            as it would from rows never seen. Exact where all rows are anchors; otherwise
            generalised, with the mean leverage for that of every row. A tensor where `X` is one.

        Raises
        ------
        InvalidInputError
            A parameter is out of its range, targets do not fit the rows, a kernel of counts gets
            negative numbers, or the ridge is too small.
        """
        self._check_params()
        X = self._check_fit(X)
        names, arithmetic = self._names(X), arithmetic_of(X)
        targets = check_targets(targets, X.shape[0], arithmetic)
        rng = check_rng(self.random_state)
        idf = arithmetic.here(inverse_frequencies(X))
        choice = self._choose(X, targets, names, idf, rng)
        offset = targets.mean(0)
        if self.ridge is None:
            choice = self._refined(X, targets - offset, choice, idf, rng)
        n_rows = X.shape[0]
        n_anchors = min(self.n_anchors or self._room(n_rows), n_rows)
        rows = self._anchor_rows(X, choice, idf, n_anchors, rng)
        anchors = halved(arithmetic.rows(X, rows), choice, idf)
        others = prepare_sides(widened(anchors), choice, idf)
        inner = between(choice, others, others)
        if n_anchors < n_rows:  # normal equations need all digits
            exact = prepare_sides(arithmetic.widen(anchors), choice, idf)
            inner = between(choice, exact, exact)
        if n_anchors == n_rows:
            system = DualSystem.of(inner, n_rows, choice.ridge, arithmetic)
            coefficients = system.solve(targets - offset)
            left_out = leave_one_out(targets, coefficients, system.take_inverse_diagonal())
        else:
            across = between(choice, prepare_sides(X, choice, idf), others)
            wanted = n_anchors, targets - offset, choice.ridge
            found = solve_some(inner, across, *wanted, self.max_memory, rng, arithmetic)
            coefficients, left_out = found[0], found[1] + offset
        coefficients = arithmetic.on_host(coefficients).astype(np.float32)
        self._keep(anchors, coefficients, arithmetic.on_host(offset), choice, idf)
        return arithmetic.result(left_out, X)

    def _map(self, X: Matrix) -> Numbers:
        """Return kernels with the anchors, times the coefficients."""
        arithmetic, choice = arithmetic_of(X), self._choice
        anchors, dtype, coefficients, offset, idf = self._prepared(X)
        found = arithmetic.empty((X.shape[0], len(offset)), True)
        for block in self._blocks(X):
            # To widen all anchors for a few rows would take longer than their kernels.
            rows = X[block] if is_tensor(X) else X[block].astype(dtype, copy=False)
            kernel = choice.block(prepare_sides(rows, choice, idf), anchors)
            found[block] = kernel @ coefficients + offset
        return arithmetic.result(found, X)

    def _blocks(self, X: Matrix) -> Iterator[slice]:
        n_anchors, (n_rows, width) = len(self.coefficients_), X.shape
        if not is_tensor(X):
            return row_blocks(n_rows, max(n_anchors, 0 if is_sparse(X) else width))
        # Two kernels of a row with all anchors, and its numbers as they are prepared.
        return device_blocks(n_rows, 8 * (2 * n_anchors + 3 * width), self.max_memory)

    def _prepared(self, X: Matrix) -> tuple[Any, ...]:
        """Return what rows like these need; made once, as that takes longer than a query."""
        key = str(X.device) if is_tensor(X) else _HOST
        if key not in self._ready:
            arithmetic, anchors = arithmetic_of(X), self.anchors_
            learnt: list[Any] = [self.coefficients_, self.offset_, self.idf_]
            if is_tensor(X):
                dense = anchors.toarray() if is_sparse(anchors) else anchors
                anchors = arithmetic.here(dense)
                learnt = [arithmetic.widen(arithmetic.here(it)) for it in learnt]
            anchors = widened(anchors)
            sides = prepare_sides(anchors, self._choice, learnt[-1], by_column=True)
            self._ready[key] = (sides, anchors.dtype, *learnt)
        return self._ready[key]

    @property
    def _choice(self) -> Choice:
        return Choice(self.weights_, self.widths_, self.ridge_)

    def __getstate__(self) -> dict[str, Any]:
        # What is ready for queries, maybe on a device, is made again where it is needed.
        return {**super().__getstate__(), "_ready": {}}

    def _restored(self) -> None:
        if len(self.weights_) != len(KERNELS):
            raise InvalidInputError(
                f"'weights_' of KernelMap has {len(self.weights_)} entries, not {len(KERNELS)}"
            )
        self._ready = {}

    def _keep(
        self, anchors: Any, coefficients: Floats, offset: Floats, choice: Choice, idf: Any
    ) -> None:
        arithmetic = arithmetic_of(anchors)
        self.weights_, self.widths_ = choice.weights, choice.widths
        self.ridge_, self.error_ = choice.ridge, choice.error
        self.anchors_, self.idf_ = arithmetic.on_host(anchors), arithmetic.on_host(idf)
        self.coefficients_, self.offset_ = coefficients, offset
        self._ready = {}

    def _check_fit(self, X: Any) -> Any:
        if not is_tensor(X):
            return super()._check_fit(X)
        check_rows(X, "input")
        self.n_features_in_ = int(X.shape[1])
        return X

    def _check_transform(self, X: Any) -> Any:
        if not is_tensor(X):
            return super()._check_transform(X)
        self._require_fitted()
        check_rows(X, "input", self.n_features_in_)
        return X

    def _check_params(self) -> None:
        for name in ("bandwidth", "ridge"):
            check_positive(getattr(self, name), name)
        if self.anchors not in ("leverage", "kmeans"):
            raise InvalidInputError(f"anchors must be 'leverage' or 'kmeans', got {self.anchors!r}")
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
        arithmetic = arithmetic_of(X)
        some = arithmetic.rows(X, rows)
        return choose(
            {name: prepare(name, some, idf) for name in names},
            None if targets is None else arithmetic.rows(targets, rows),
            bandwidth=self.bandwidth,
            weights=weights,
            ridge=self.ridge,
            is_small=X.shape[0] <= SMALL,
            max_memory=self.max_memory,
        )

    def _refined(
        self, X: Matrix, targets: Floats, choice: Choice, idf: Floats, rng: np.random.Generator
    ) -> Choice:
        """Return a choice with a ridge for as many rows as can be left out one by one quickly."""
        rows, arithmetic = np.sort(rng.permutation(X.shape[0])[:SMALL]), arithmetic_of(X)
        sides = prepare_sides(arithmetic.rows(X, rows), choice, idf)
        kernel = choice.block(sides, sides)
        ridge = refine_ridge(kernel, arithmetic.rows(targets, rows), choice.ridge)
        return replace(choice, ridge=ridge)

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

        arithmetic = arithmetic_of(X)
        if self.anchors == "kmeans":
            rows = arithmetic.on_host(X)
            return central_rows(rows, choice, arithmetic.on_host(idf), n_anchors, rng)

        def block(*sides: Ints) -> Any:
            found = (prepare_sides(arithmetic.rows(X, it), choice, idf) for it in sides)
            return choice.block(*found)

        return leverage_rows(block, X.shape[0], n_anchors, rng, arithmetic)

    @property
    def _n_features_out(self) -> int:
        return int(self.coefficients_.shape[1])
