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
    is_tensor,
    take_in,
)
from acqh._core.device import row_blocks as device_blocks
from acqh._core.device import tensor_dtype, to_tensor
from acqh._core.imports import require
from acqh._core.linalg import fix_signs, whiten
from acqh._core.runtime import RandomState, check_rng
from acqh.errors import InvalidInputError
from acqh.features.base import FeatureMap, row_blocks
from acqh.features.kernel_choice import TRIAL_ROWS, Choice, choose
from acqh.features.kernel_ridge import SMALL, leverage_rows, refine_ridge, solve_all, solve_some
from acqh.features.kernels import (
    KERNELS,
    Columns,
    default_kernels,
    measure_columns,
    prepare,
    row_origin,
)

# Anchors of a map that knows no targets: what follows squares their number.
_PLAIN_ANCHORS = 2048
# Bytes that a kernel matrix may take: that of 16,384 rows.
_MAX_MEMORY = 1 << 30


@dataclass(eq=False, repr=False)
class KernelMap(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Kernels with anchor rows, times coefficients: every method above becomes a kernel method.

    ``fit`` learns coordinates in which the inner products of two rows are their kernel (whitened
    Nyström features), so that a linear method on them is that method with the kernel.
    `fit_to` learns the kernel ridge regression of the rows onto targets, with every row an anchor
    while memory allows; the features are then the predictions. `acqh.ACQH` uses the latter where
    it learns from labels alone. A map is fitted on the CPU; rows that are a tensor of torch are
    mapped on their device, and so are their features.

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
        By default all rows, up to 16,384, and 4,096 of more (`fit`: 2,048). Fewer anchors than rows
        are drawn by leverage, so that rows like none of the others are among them, without a look
        at targets: rows left out are predicted with the anchors as they are. 4,096 at most.
    bandwidth : float, optional
        Width over the mean squared distance of training rows, for all kernels, which become
        Gaussians of their distance then. By default chosen for each kernel, an infinite one (the
        inner product itself) included; `fit` takes 1 for rbf and hellinger.
    ridge : float, optional
        Positive; the noise of targets where a row's kernel with itself is one. By default chosen.
    random_state : int, Generator or None
        Draws the rows that choices are made on, and anchors.

    Attributes
    ----------
    anchors_ : (n_anchors, n_features)
        Dense or CSR, as the rows were; of `fit`, which divides by small eigenvalues, in double
        precision.
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
    bandwidth: float | None = None
    ridge: float | None = None
    random_state: RandomState = None
    # Anchors, columns, coefficients and offset as queries need them, by device; "" for arrays.
    _ready: dict[str, tuple[Any, ...]] = field(init=False)
    # Bytes that a kernel matrix may take: no parameter, but methods allow less on a device.
    max_memory = _MAX_MEMORY
    takes_tensors = True

    def _learn(self, X: Matrix) -> None:
        """Learn coordinates in which inner products are kernels."""
        names, rng = self._names(X), check_rng(self.random_state)
        columns = measure_columns(X)
        choice = self._choose(X, None, names, columns, rng)
        n_anchors = min(self.n_anchors or _PLAIN_ANCHORS, X.shape[0])
        anchors = _float64(self._anchors(X, choice, columns, n_anchors, rng))
        sides = choice.sides(anchors, columns)
        coefficients = fix_signs(whiten(choice.block(sides, sides)))
        if not coefficients.shape[1]:  # rows without any kernel still get one column
            coefficients = np.zeros((n_anchors, 1))
        self._keep(anchors, coefficients, np.zeros(coefficients.shape[1]), choice, columns.idf)

    def fit_to(self, X: Matrix, targets: Any) -> Any:
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
            as it would from rows never seen. Exact; where not all rows are anchors, with the
            anchors as they are. A tensor on the device of `X` if that is one.

        Raises
        ------
        InvalidInputError
            A parameter is out of its range, targets do not fit the rows, a kernel of counts gets
            negative numbers, or the ridge is too small.
        """
        self._check_params()
        source, X = X, self._check_fit(X)
        names, n_rows = self._names(X), X.shape[0]
        targets = _check_targets(targets, X)
        rng = check_rng(self.random_state)
        columns = measure_columns(X)
        choice = self._choose(X, targets, names, columns, rng)
        offset = targets.mean(0)
        if self.ridge is None:
            choice = self._refined(X, targets - offset, choice, columns, rng)
        n_anchors = self._count_anchors(X)
        anchors = self._anchors(X, choice, columns, n_anchors, rng)
        others = choice.sides(anchors, columns)
        if n_anchors == n_rows:
            inner = choice.between(others, others)
            coefficients, left_out = solve_all(inner, targets, offset, choice.ridge)
        else:
            exact = choice.sides(_float64(anchors), columns)  # normal equations need all digits
            inner = choice.block(exact, exact)
            across = choice.between(choice.sides(X, columns), others)
            coefficients, left_out = solve_some(
                inner,
                lambda part: across(part, slice(0, n_anchors)),
                targets,
                offset,
                choice.ridge,
                self.max_memory,
            )
        self._keep(anchors, coefficients.astype(np.float32), offset, choice, columns.idf)
        left_out = left_out.astype(X.dtype, copy=False)
        return to_tensor(left_out, source.device) if is_tensor(source) else left_out

    def _check_fit(self, X: Any) -> Matrix:
        X = super()._check_fit(X)
        return super()._check_fit(take_in(X)[0]) if is_tensor(X) else X

    def _map(self, X: Matrix) -> Any:
        """Return kernels with the anchors, times the coefficients."""
        anchors, columns, coefficients, offset, dtype = self._prepared(X)
        blocks = []
        for block in self._blocks(X):
            # To widen all anchors for a few rows would take longer than their kernels.
            rows = X[block].to(dtype) if is_tensor(X) else X[block].astype(dtype, copy=False)
            kernel = self._choice.block(self._choice.sides(rows, columns), anchors)
            blocks.append(kernel @ coefficients + offset)
        if is_tensor(X):
            is_single = X.dtype.is_floating_point and X.itemsize < 8
            features = require("torch").cat(blocks)
            return features.float() if is_single else features.double()
        return np.concatenate(blocks).astype(X.dtype, copy=False)

    def _blocks(self, X: Matrix) -> Iterator[slice]:
        n_anchors, (n_rows, width) = len(self.coefficients_), X.shape
        if not n_rows:
            return iter([slice(0, 0)])
        if not is_tensor(X):
            return row_blocks(n_rows, max(n_anchors, 0 if is_sparse(X) else width))
        # Two kernels of a row with all anchors, and its numbers as they are prepared.
        return device_blocks(n_rows, 8 * (2 * n_anchors + 3 * width), self.max_memory)

    def _prepared(self, X: Matrix) -> tuple[Any, ...]:
        """Return what rows like these need; made once, as that takes longer than a query."""
        key = str(X.device) if is_tensor(X) else ""
        if key not in self._ready:
            columns, dtype = Columns(self.idf_, row_origin(self.anchors_)), self.anchors_.dtype
            sides, coefficients = self._choice.sides(self.anchors_, columns), self.coefficients_
            offset: Any = self.offset_
            if is_tensor(X):
                sides = {name: side.to(X.device) for name, side in sides.items()}
                dtype = tensor_dtype(dtype)
                columns = Columns(
                    *(None if it is None else to_tensor(it, X.device, dtype) for it in columns)
                )
                coefficients = to_tensor(coefficients, X.device, dtype)
                offset = to_tensor(offset, X.device, dtype)
            self._ready[key] = (sides, columns, coefficients, offset, dtype)
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
        self.weights_, self.widths_ = choice.weights, choice.widths
        self.ridge_, self.error_ = choice.ridge, choice.error
        self.anchors_, self.idf_ = anchors, idf
        self.coefficients_, self.offset_ = coefficients, offset
        self._ready = {}

    def _check_params(self) -> None:
        for name in ("bandwidth", "ridge"):
            check_positive(getattr(self, name), name)
        if self.n_anchors is not None:
            check_positive_int(self.n_anchors, "n_anchors")

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
        return names

    def _choose(
        self,
        X: Matrix,
        targets: Floats | None,
        names: tuple[str, ...],
        columns: Columns,
        rng: np.random.Generator,
    ) -> Choice:
        rows = rng.permutation(X.shape[0])[: 2 * TRIAL_ROWS]
        some = X[rows]
        # Inner products, of infinite widths, are tried too: no origin, but all digits.
        columns = columns._replace(origin=None)
        exact = _float64(some)
        return choose(
            {name: prepare(name, exact if name == "rbf" else some, columns) for name in names},
            None if targets is None else targets[rows],
            bandwidth=self.bandwidth,
            ridge=self.ridge,
            is_small=X.shape[0] <= SMALL,
        )

    def _refined(
        self, X: Matrix, targets: Floats, choice: Choice, columns: Columns, rng: np.random.Generator
    ) -> Choice:
        """Return a choice with a ridge for as many rows as can be left out one by one quickly."""
        rows = np.sort(rng.permutation(X.shape[0])[:SMALL])
        sides = choice.sides(X[rows], columns)
        kernel = choice.block(sides, sides)
        return replace(choice, ridge=refine_ridge(kernel, targets[rows], choice.ridge))

    def _count_anchors(self, X: Matrix) -> int:
        """Return how many anchors there are: all rows, or as many as normal equations can take."""
        n_rows = int(X.shape[0])
        itemsize = 8 if n_rows <= SMALL else 4
        is_room = itemsize * n_rows**2 <= self.max_memory
        # Kernels of the anchors, normal equations, their factor, its inverse.
        most = min(SMALL, max(1, int(np.sqrt(self.max_memory / 32))))
        n_anchors = self.n_anchors or (n_rows if is_room else most)
        return n_rows if n_anchors >= n_rows and is_room else min(n_anchors, n_rows, SMALL)

    def _anchors(
        self, X: Matrix, choice: Choice, columns: Columns, n_anchors: int, rng: np.random.Generator
    ) -> Matrix:
        if n_anchors == X.shape[0]:
            return X.copy()

        def block(*sides: Ints) -> Any:
            return choice.block(*(choice.sides(X[rows], columns) for rows in sides))

        return X[leverage_rows(block, X.shape[0], n_anchors, rng)]

    @property
    def _n_features_out(self) -> int:
        return int(self.coefficients_.shape[1])


def _check_targets(targets: Any, X: Matrix) -> Floats:
    """Return targets in double precision.

    Raises InvalidInputError: they do not fit the rows, or are not finite.
    """
    values: Floats = np.asarray(take_in(targets)[0], dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != X.shape[0] or not values.shape[1]:
        raise InvalidInputError(
            f"targets must be a matrix of {X.shape[0]} rows, one per row of X, got shape "
            f"{values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidInputError("targets have a NaN or infinite value; leave such rows out")
    return values


def _float64(rows: Matrix) -> Matrix:
    return rows.astype(np.float64, copy=False)
