"""The quantizer as a scikit-learn transformer."""

import sys
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import exceptions
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from acqh._core.arrays import (
    Array,
    Floats,
    Ints,
    as_numbers,
    as_rows,
    first_bad_row,
    to_numpy,
    validated_rows,
)
from acqh._core.device import check_device, to_tensor
from acqh._core.runtime import (
    Interval,
    Progress,
    RandomState,
    check_parameters,
    check_rng,
    default_threads,
    loops,
    suggest_keywords,
)
from acqh._core.store import pack, unpack
from acqh.errors import CorruptBundleError, InvalidInputError, NotFittedError
from acqh.quantize.code_search import GROUP_SIZE, search_codes
from acqh.quantize.codebooks import check_codes, decode
from acqh.quantize.drift import MIN_LEARNT
from acqh.quantize.query_metric import choose_shrinkage, metric_root, second_moment
from acqh.quantize.train import QuantizerFit, count_steps, fit_codebooks

# Up to this many distinct rows per codeword, sweeps after every codebook give lower errors: see
# docs/explanation/quantizer.md. With more, training on beams also lowers the error of new rows.
_FEW_ROWS_PER_WORD = 4
# Maximal rows for the held-out error; one in eight of them is held out; and sweeps over codebooks
# of the rest: more take longer with nearly the same result.
_MAX_TRIED, _HELD_OUT, _TRIAL_SWEEPS = 16_384, 8, 1
# Rows whose codes are searched to estimate the time of training, and how many times as many there
# must be. Time of growth and of a sweep, in searches of all codes (43,441 rows, 214 components).
_TIMED_ROWS, _MIN_TIMED = 512, 16
_GROWTH_SEARCHES, _SWEEP_SEARCHES = 5, 1.4
# Default beam width; with more codebooks it is twice as wide.
_BEAM_WIDTH, _FEW_CODEBOOKS = 8, 4


class UnfittedQuantizerError(NotFittedError, exceptions.NotFittedError):
    """A quantizer was used before ``fit``; also a scikit-learn NotFittedError."""


@dataclass(eq=False, repr=False)
class AdditiveQuantizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Additive quantizer: a vector is the sum of one codeword per codebook, a byte each.

    Minimizes ``sum_i w_i ||z_i - sum_s C_s[a_is]||^2`` over codebooks and codes, see
    `fit_codebooks`. Equal rows are merged before training: the result does not depend on the order
    of rows, and a repeated row is the same as a row of twice the weight.

    With `queries` in ``fit`` the quantizer is query-aware. It minimizes the error of their scores,
    ``E_q (q . (z_i - b_i))^2``: the squared error in the metric of the queries' second moment.

    Parameters
    ----------
    n_codebooks : int, default 4
        From 1 to 64: the bytes of a code. More than 16 are trained and searched in groups of 16,
        each for the residuals of those before.
    codebook_size : int, default 256
        From 2 to 256 codewords.
    beam_width : int, optional
        Wider is slower and better; None is 8 for up to four codebooks and 16 for more.
    ridge : float, optional
        Weight, in items, that pulls every codeword towards its initial value during sweeps. 0 fits
        the training rows best; use it if there are no other rows to encode. A larger ridge
        generalizes better from few rows. None chooses it on held-out rows if there are few, in two
        to three times the time.
    max_iter : int, default 10
        Sweeps over all codebooks at most; the first gain most. With 3, training takes half as long.
    n_train : int, default 65,536
        Distinct rows to train on, at most: 256 per codeword of a full codebook, as in Faiss. Of
        more rows, as many are drawn at random. Training on 200,000 takes 2.4 times as long and
        lowers the error of new rows by 0.6 % (4 codebooks, 32 dimensions).
    random_state : int, Generator or None
        Draws rows to train on and the seeds of k-means.

    Attributes
    ----------
    codebooks_ : (n_codebooks, codebook_size, n_components)
        float32 if trained on float32, else float64, which is also the precision of `encode`.
        Training itself is done in float64.
    training_codes_ : (n_items, n_codebooks) uint8
        Codes of the training rows, at least as good as those of `encode`. Use
        ``encode(X, start=quantizer.training_codes_)`` to improve them. Rows of weight 0 and rows
        not drawn for training have the codes of `encode`.
    history_ : (n_steps,) float64
        Weighted error after each added codebook and each sweep, of the best state so far; never
        rises. In the metric of the queries, if any.
    n_iter_ : int
    n_features_in_ : int
        n_components.
    metric_ : (n_components, n_components) float64, or None
        Metric of the code search; None: Euclidean.
    ridge_ : float
    shrinkage_ : float
        Shrinkage of the queries' metric towards the Euclidean metric, from 0 to 1, chosen on
        held-out queries; 1 (Euclidean) without queries.

    Examples
    --------
    >>> import numpy as np
    >>> from acqh.quantize import AdditiveQuantizer
    >>> vectors = np.random.default_rng(0).normal(size=(500, 4))
    >>> quantizer = AdditiveQuantizer(2, 16, random_state=0).fit(vectors)
    >>> codes = quantizer.encode(vectors)
    >>> codes.shape, codes.dtype
    ((500, 2), dtype('uint8'))
    >>> errors = np.square(vectors - quantizer.decode(codes)).sum(axis=1)
    >>> bool(errors.mean() < 0.2 * np.square(vectors).sum(axis=1).mean())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_codebooks": [Interval(Integral, 1, 64, closed="both")],
        "codebook_size": [Interval(Integral, 2, 256, closed="both")],
        "beam_width": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [Interval(Real, 0, None, closed="left"), None],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_train": [Interval(Integral, 1, None, closed="left")],
    }

    _state_axes: ClassVar[dict[str, Any]] = {
        "n_features_in_": int,
        "codebooks_": ("n_codebooks", "codebook_size", "n_features"),
        "history_": ("n_steps",),
        "_forward?": ("n_features", "rank"),
        "ridge_": float,
        "shrinkage_": float,
    }

    n_codebooks: int = 4
    codebook_size: int = 256
    _: KW_ONLY
    beam_width: int | None = None
    ridge: float | None = None
    max_iter: int = 10
    n_train: int = 65_536
    random_state: RandomState = None
    codebooks_: Floats = field(init=False)
    training_codes_: Ints = field(init=False)
    history_: Floats = field(init=False)
    n_iter_: int = field(init=False)
    n_features_in_: int = field(init=False)
    metric_: Floats | None = field(init=False)
    _forward: Floats | None = field(init=False)  # root of the metric
    ridge_: float = field(init=False)
    shrinkage_: float = field(init=False)

    @suggest_keywords
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
        *,
        queries: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train the codebooks.

        Parameters
        ----------
        X : (n_items, n_components)
        y : ignored
        sample_weight : (n_items,), optional
            Not negative, some positive; ones if not given.
        queries : (n_queries, n_components), optional
            What items will be searched for. A few hundred are plenty to choose the metric; of a
            single one none can be held out, and the plain one is taken.
        progress : callable, optional
            Called with the number of steps done, their largest number, and a text.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A constructor argument is out of range, X is not a matrix of finite numbers, or the
            weights or queries do not fit.
        """
        check_parameters(self, self._parameter_constraints)
        X = self._check_rows(X, reset=True)
        weights = _check_weights(sample_weight, len(X))
        queries = None if queries is None else _check_queries(queries, X.shape[1])
        rng = check_rng(self.random_state)
        # Adding zero makes one zero of the two there are.
        used = weights > 0
        rows, places = np.unique(X[used] + 0.0, axis=0, return_inverse=True)
        weights = np.bincount(places, weights[used]).astype(np.float64)
        is_drawn = np.ones(len(rows), bool)
        if len(rows) > self.n_train:
            is_drawn[rng.permutation(len(rows))[self.n_train :]] = False
        others, rows, weights = rows[~is_drawn], rows[is_drawn], weights[is_drawn]
        root, shrinkage = None, 1.0
        if queries is not None:
            n_bits = self.n_codebooks * np.log2(self.codebook_size)
            shrinkage = choose_shrinkage(rows, weights, queries, n_bits)
            if shrinkage < 1:
                root = metric_root(second_moment(queries), shrinkage)
        points = rows if root is None else rows @ root.forward
        fitted = self._fit_codebooks(points, weights, rng, self.max_iter, progress)
        codebooks = fitted.codebooks
        if root is not None:
            codebooks = root.codewords(codebooks, np.average(rows, axis=0, weights=weights))
        self.codebooks_ = codebooks.astype(X.dtype)
        self.history_ = fitted.history
        self.n_iter_ = len(fitted.history)
        self.metric_ = None if root is None else root.forward @ root.forward.T
        self._forward = None if root is None else root.forward
        self.ridge_ = fitted.ridge
        self.shrinkage_ = shrinkage
        distinct = np.empty((len(is_drawn), self.n_codebooks), dtype=np.uint8)
        distinct[is_drawn] = fitted.codes
        if len(others):
            distinct[~is_drawn] = self.encode(others)
        codes = np.empty((len(X), self.n_codebooks), dtype=np.uint8)
        codes[used] = distinct[places]
        if not used.all():
            codes[~used] = self.encode(X[~used])
        self.training_codes_ = codes
        return self

    def _fit_codebooks(
        self,
        points: Floats,
        weights: Floats,
        rng: np.random.Generator,
        max_iter: int,
        progress: Progress | None = None,
    ) -> QuantizerFit:
        # Tiny inputs get one codeword per row; ridge=0 allows overfitting.
        few = 1 if self.ridge is None else 0 if self.ridge else _FEW_ROWS_PER_WORD
        shape = self.n_codebooks, self.codebook_size
        n_steps, numbers = count_steps(len(points), *shape, self.ridge, max_iter), count(1)

        def report(*_: Any) -> None:
            if progress is not None:
                progress(min(next(numbers), n_steps), n_steps, "training steps")

        return fit_codebooks(
            points,
            weights,
            *shape,
            beam_width=self._beam_width,
            max_iter=max_iter,
            train_on_beams=len(points) > few * self.codebook_size,
            ridge=self.ridge,
            rng=rng,
            callback=report,
        )

    def expected_seconds(self, X: Floats, n_items: int | None = None) -> float:
        """Return about how long `fit` takes on all cores: the codes of a few rows are searched.

        Parameters
        ----------
        X : (n, n_components)
        n_items : int, optional
            Number of training items like X. Default: n.

        Returns
        -------
        float
            0 for few rows. Without the time to compile loops, and to choose a ridge.
        """
        n_rows = min(n_items or len(X), self.n_train)
        n_codebooks = min(self.n_codebooks, GROUP_SIZE)
        if n_rows < _MIN_TIMED * _TIMED_ROWS:
            return 0.0
        rows = np.asarray(X[:_TIMED_ROWS], dtype=np.float32)
        codebooks = np.resize(rows, (n_codebooks, self.codebook_size, rows.shape[1])) / n_codebooks
        loops("acqh.quantize", n_steps=sys.maxsize)  # `fit` would compile them, too
        durations = []
        for _ in range(3):  # the first may compile; the others may be interrupted
            started = time.perf_counter()
            search_codes(rows, codebooks, beam_width=self._beam_width)
            durations.append(time.perf_counter() - started)
        seconds = min(durations) * n_rows / len(rows) / default_threads()
        n_searches = _GROWTH_SEARCHES + _SWEEP_SEARCHES * self.max_iter
        return seconds * n_searches * self.n_codebooks / n_codebooks

    @property
    def _beam_width(self) -> int:
        if self.beam_width is not None:
            return self.beam_width
        return _BEAM_WIDTH if self.n_codebooks <= _FEW_CODEBOOKS else 2 * _BEAM_WIDTH

    def encode(self, X: Any, *, start: Ints | None = None, device: str | None = None) -> Ints:
        """Return the code of each row.

        Parameters
        ----------
        X : (n_items, n_components)
        start : (n_items, n_codebooks) uint8, optional
            Codes to improve on: a row keeps its code unless a better one is found.
        device : str, optional
            Of torch, such as ``"cuda"``, to search on.

        Returns
        -------
        (n_items, n_codebooks) uint8
            Of the kind of X: an array, a tensor of torch, an array of JAX.

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        InvalidInputError
            X is not a matrix of finite numbers as wide as the one fitted.
        DeviceError
            The device is not available.
        """
        self._check_fitted()
        X, from_numpy = to_numpy(X)
        X = self._check_rows(X, reset=False)
        codebooks = self.codebooks_
        if self._forward is not None:
            # In the coordinates of the root the metric is Euclidean.
            forward = self._forward.astype(codebooks.dtype)
            X, codebooks = X @ forward, codebooks @ forward
        if start is not None:
            start = check_codes(start, self.codebooks_, len(X))
        arrays = {"targets": X, "codebooks": codebooks, "start": start}
        if device is not None:
            where = check_device(device)
            arrays = {name: to_tensor(a, where) for name, a in arrays.items() if a is not None}
        result: Any = search_codes(**arrays, beam_width=self._beam_width)
        codes: Ints = result if device is None else result.cpu().numpy()
        return codes if from_numpy is None else from_numpy(codes)

    def decode(self, codes: Any) -> Floats:
        """Return the reconstructions of codes.

        Parameters
        ----------
        codes : (n_items, n_codebooks)

        Returns
        -------
        (n_items, n_components) of the dtype of `codebooks_`, and of the kind of `codes`

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        InvalidInputError
            Codes of another width, or a codeword number out of range.
        """
        self._check_fitted()
        codes, from_numpy = to_numpy(codes)
        vectors = decode(check_codes(codes, self.codebooks_), self.codebooks_)
        return vectors if from_numpy is None else from_numpy(vectors)

    def held_out_error(self, X: Any) -> float | None:
        """Return the relative error of held-out rows, with codebooks trained on the others.

        The error of training rows is lower than that of new rows, so it cannot be compared with
        theirs.

        Parameters
        ----------
        X : (n_items, n_components)
            The rows fitted, or some of them.

        Returns
        -------
        float or None
            Squared errors over squared lengths, under the metric of the queries if there are any;
            None for so few rows that those held out say nothing.
        """
        self._check_fitted()
        rows = self.to_metric(self._check_rows(X, reset=False))
        rng = np.random.default_rng(0)
        order = rng.permutation(len(rows))[:_MAX_TRIED]
        held, rest = np.split(order, [len(order) // _HELD_OUT])
        if len(order) < MIN_LEARNT:
            return None
        fitted = self._fit_codebooks(rows[rest], np.ones(len(rest)), rng, _TRIAL_SWEEPS)
        codes = search_codes(
            rows[held], fitted.codebooks, beam_width=self._beam_width, dtype=np.float32
        )
        return _relative_error(rows[held], decode(codes, fitted.codebooks))

    def relative_error(self, X: Any) -> float:
        """Return the squared errors of the codes of rows over the squared lengths of the rows.

        Parameters
        ----------
        X : (n_items, n_components)

        Returns
        -------
        float
            Under the metric of the queries if there are any.
        """
        rows = self._check_rows(X, reset=False)
        decoded = self.decode(self.encode(rows))
        return _relative_error(self.to_metric(rows), self.to_metric(decoded))

    def to_metric(self, vectors: Floats) -> Floats:
        """Return vectors in coordinates in which the metric of the queries is Euclidean."""
        return vectors if self._forward is None else vectors @ self._forward

    def transform(self, X: Any) -> Ints:
        """Return the code of each row; the same as `encode`."""
        return self.encode(X)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the reconstructions of codes; the same as `decode`."""
        return self.decode(X)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return all that `encode` and `decode` need: values for JSON, and named arrays.

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        """
        self._check_fitted()
        return pack(self, {"AdditiveQuantizer": AdditiveQuantizer})

    @classmethod
    def from_state(cls, info: Any, arrays: Mapping[str, Array]) -> Self:
        """Make a quantizer of what `to_state` gave; it has no `training_codes_`.

        Raises
        ------
        CorruptBundleError
            The values are not those of a quantizer.

        Examples
        --------
        >>> rows = np.random.default_rng(0).normal(size=(100, 4))
        >>> quantizer = AdditiveQuantizer(2, 16, random_state=0).fit(rows)
        >>> again = AdditiveQuantizer.from_state(*quantizer.to_state())
        >>> bool((again.encode(rows) == quantizer.encode(rows)).all())
        True
        """
        try:
            quantizer = unpack(info, dict(arrays), {"AdditiveQuantizer": cls})
        except (InvalidInputError, NotFittedError) as error:
            raise CorruptBundleError(f"the stored object is not a quantizer: {error}") from error
        if not isinstance(quantizer, cls) or not hasattr(quantizer, "codebooks_"):
            raise CorruptBundleError("the stored object is not a fitted quantizer")
        return quantizer

    def _restored(self) -> None:
        check_parameters(self, self._parameter_constraints)
        if self.codebooks_.shape[:2] != (self.n_codebooks, self.codebook_size):
            raise InvalidInputError(
                f"stored codebooks have shape {self.codebooks_.shape}, expected "
                f"{(self.n_codebooks, self.codebook_size)}"
            )
        floats = [self.codebooks_, self.history_]
        floats += [] if self._forward is None else [self._forward]
        if not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in floats):
            raise InvalidInputError("a stored array has values that are not finite")
        self.n_iter_ = len(self.history_)
        self.metric_ = None if self._forward is None else self._forward @ self._forward.T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.codebooks_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "codebooks_"):
            raise UnfittedQuantizerError("this AdditiveQuantizer is not fitted; call fit first")

    def _check_rows(self, X: Any, *, reset: bool) -> Floats:
        return np.asarray(validated_rows(self, X, reset=reset, error=InvalidInputError))


def _relative_error(rows: Floats, decoded: Floats) -> float:
    errors, energy = rows - decoded, float(np.vdot(rows, rows))
    return float(np.vdot(errors, errors)) / energy if energy else 0.0


def _check_queries(queries: Any, n_components: int) -> Floats:
    """Return queries as float64, or raise InvalidInputError."""
    checked = as_numbers(queries, "queries", "(n_queries, n_components)")
    if len(checked) == 0 or checked.shape[1] != n_components:
        raise InvalidInputError(
            f"queries have shape {checked.shape}; give some of {n_components} components, from the "
            "same space as the items"
        )
    row = first_bad_row(checked)
    if row is not None:
        raise InvalidInputError(f"queries have a NaN or infinite value in row {row}; remove it")
    return checked.astype(np.float64)


def _check_weights(weights: Any, n_items: int) -> Floats:
    """Return weights as float64, ones if there are none, or raise InvalidInputError."""
    if weights is None:
        return np.ones(n_items)
    checked: Floats = as_rows(weights, "sample_weight", InvalidInputError).astype(np.float64)
    if checked.shape != (n_items,):
        raise InvalidInputError(
            f"sample_weight has shape {checked.shape}; give one weight for each of {n_items} rows"
        )
    if not np.isfinite(checked).all() or checked.min() < 0:
        raise InvalidInputError("sample_weight has a negative, NaN or infinite value")
    if not checked.any():
        raise InvalidInputError("sample_weight is zero for every row; some must be positive")
    return checked
