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
    to_numpy,
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

# Default anchors without targets: the cost of the following method is quadratic in their number.
_DEFAULT_ANCHORS = 2048
# Bytes that a kernel matrix may take: that of 16,384 rows.
_MAX_MEMORY = 1 << 30


@dataclass(eq=False, repr=False)
class KernelMap(ClassNamePrefixFeaturesOutMixin, FeatureMap):
    """Kernels with anchor rows, times coefficients: makes a linear method a kernel method.

    ``fit`` computes whitened Nyström features: inner products of features are kernels of rows.
    `fit_to` computes the kernel ridge regression of the rows onto targets, with every row an anchor
    if memory allows; the features are the predictions. `acqh.ACQH` uses `fit_to` if labels are its
    only target. A map is fitted on the CPU; torch tensors are mapped on their device.

    Parameters
    ----------
    kernels : "auto", str or sequence of str
        - ``"rbf"``: ``exp(-||x - z||^2 / width)``.
        - ``"hellinger"``: the same for signed roots of rows, scaled to unit length.
        - ``"cosine"``.
        - ``"tfidf"``, for counts: the cosine of counts times inverse document frequencies.
        - ``"intersection"``, for counts: the sum of the minima of counts, normalized to 1 for a row
          with itself.

        The weighted sum of several is used. ``"auto"`` selects from rbf, hellinger and cosine for
        dense rows, and from intersection if they have at most 256 non-negative features. For sparse
        counts it selects from cosine, tfidf and intersection, for other sparse rows from rbf and
        cosine.
    n_anchors : int, optional
        Default: all rows up to 16,384 rows, else 4,096 (`fit`: 2,048). Fewer anchors than rows are
        drawn by ridge leverage, independently of targets; at most 4,096.
    bandwidth : float, optional
        Width relative to the mean squared distance of training rows. Then every kernel is a
        Gaussian of its distance. Default: chosen per kernel, possibly infinite (the inner product
        itself); `fit` uses 1 for rbf and hellinger.
    ridge : float, optional
        Positive; noise variance of the targets relative to the kernel of a row with itself.
        Default: chosen on held-out rows.
    random_state : int, Generator or None
        Draws the rows for these choices, and anchors.

    Attributes
    ----------
    anchors_ : (n_anchors, n_features)
        Dense or CSR like the rows; in double precision after `fit`, which divides by small
        eigenvalues.
    coefficients_ : (n_anchors, n_out)
        float32 after `fit_to`, float64 after `fit`.
    offset_ : (n_out,)
    weights_, widths_ : (5,)
        Of rbf, hellinger, cosine, tfidf and intersection; an infinite width: the inner product.
    idf_ : (n_features,)
    ridge_ : float
    error_ : float
        Squared error on held-out training rows, relative to that of the mean; NaN if nothing was
        chosen.

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
    # Prepared anchors, columns, coefficients and offset, by device; "" for arrays.
    _ready: dict[str, tuple[Any, ...]] = field(init=False)
    # Maximal bytes of a kernel matrix: not a parameter; methods set less on a device.
    max_memory = _MAX_MEMORY
    takes_tensors = True

    def _learn(self, X: Matrix) -> None:
        """Compute whitened Nyström features: their inner products are kernels."""
        names, rng = self._names(X), check_rng(self.random_state)
        columns = measure_columns(X)
        choice = self._choose(X, None, names, columns, rng)
        n_anchors = min(self.n_anchors or _DEFAULT_ANCHORS, X.shape[0])
        anchors = _float64(self._anchors(X, choice, columns, n_anchors, rng))
        sides = choice.sides(anchors, columns)
        coefficients = fix_signs(whiten(choice.block(sides, sides)))
        if not coefficients.shape[1]:  # if all kernels are zero, one column
            coefficients = np.zeros((n_anchors, 1))
        self._keep(anchors, coefficients, np.zeros(coefficients.shape[1]), choice, columns.idf)

    def fit_to(self, X: Matrix, targets: Any) -> Any:
        """Fit the kernel ridge regression onto targets; features are its predictions.

        Parameters
        ----------
        X : (n_items, n_features), array, CSR or tensor
        targets : (n_items, n_targets)
            A tensor or an array.

        Returns
        -------
        (n_items, n_targets)
            Exact leave-one-out predictions of all rows, so that the following method trains on
            features like those of new rows. If not all rows are anchors, the anchors stay the same.
            A tensor on the device of `X` if `X` is a tensor.

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

    def _map(self, X: Matrix) -> Any:
        """Return kernels with the anchors, times the coefficients."""
        anchors, columns, coefficients, offset, dtype = self._prepared(X)
        blocks = []
        for block in self._blocks(X):
            # Converting all anchors for a few rows would take longer than their kernels.
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
        # Per row: two kernels with all anchors, and its prepared features.
        return device_blocks(n_rows, 8 * (2 * n_anchors + 3 * width), self.max_memory)

    def _prepared(self, X: Matrix) -> tuple[Any, ...]:
        """Return prepared anchors and parameters for these rows; cached: slower than a query."""
        key = str(X.device) if is_tensor(X) else ""
        if key not in self._ready:
            columns, dtype = Columns(self.idf_, row_origin(self.anchors_)), self.anchors_.dtype
            sides, coefficients = self._choice.sides(self.anchors_, columns), self.coefficients_
            offset: Any = self.offset_
            if is_tensor(X):
                sides = {name: side.to(X.device) for name, side in sides.items()}
                dtype = tensor_dtype(dtype)
                columns = Columns(
                    *(None if c is None else to_tensor(c, X.device, dtype) for c in columns)
                )
                coefficients = to_tensor(coefficients, X.device, dtype)
                offset = to_tensor(offset, X.device, dtype)
            self._ready[key] = (sides, columns, coefficients, offset, dtype)
        return self._ready[key]

    @property
    def _choice(self) -> Choice:
        return Choice(self.weights_, self.widths_, self.ridge_)

    def __getstate__(self) -> dict[str, Any]:
        # Prepared tensors, possibly on a device, are computed again when needed.
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
        # Infinite widths need inner products: no origin, but double precision.
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
        """Return the choice with a ridge refined on at most `SMALL` rows by leave-one-out error."""
        rows = np.sort(rng.permutation(X.shape[0])[:SMALL])
        sides = choice.sides(X[rows], columns)
        kernel = choice.block(sides, sides)
        return replace(choice, ridge=refine_ridge(kernel, targets[rows], choice.ridge))

    def _count_anchors(self, X: Matrix) -> int:
        """Return the number of anchors: all rows, or as many as fit the memory."""
        n_rows = int(X.shape[0])
        itemsize = 8 if n_rows <= SMALL else 4
        all_fit = itemsize * n_rows**2 <= self.max_memory
        # Kernels of the anchors, normal equations, their factor, its inverse.
        max_anchors = min(SMALL, max(1, int(np.sqrt(self.max_memory / 32))))
        n_anchors = self.n_anchors or (n_rows if all_fit else max_anchors)
        return n_rows if n_anchors >= n_rows and all_fit else min(n_anchors, n_rows, SMALL)

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
    values: Floats = np.asarray(to_numpy(targets)[0], dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != X.shape[0] or not values.shape[1]:
        raise InvalidInputError(
            f"targets must be a matrix of {X.shape[0]} rows, one per row of X, got shape "
            f"{values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidInputError("targets have a NaN or infinite value; drop such rows")
    return values


def _float64(rows: Matrix) -> Matrix:
    return rows.astype(np.float64, copy=False)
