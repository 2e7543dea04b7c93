"""The quantizer as a scikit-learn transformer."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import exceptions
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from acqh._core.arrays import Floats, Ints, as_rows, first_bad_row
from acqh._core.random import RandomState, check_rng
from acqh._core.validation import Interval, StrOptions, check_parameters
from acqh.errors import InvalidInputError, NotFittedError
from acqh.quantize._codebooks import decode
from acqh.quantize._search import SEARCHES, Search, search_codes
from acqh.quantize._train import fit_codebooks


class UnfittedQuantizerError(NotFittedError, exceptions.NotFittedError):
    """A quantizer was used before ``fit``; also scikit-learn's own error."""


class AdditiveQuantizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Vectors as sums of words, one from each of a few codebooks; stored in a byte a codebook.

    Minimises ``sum_i w_i ||z_i - sum_s C_s[a_is]||^2`` over codebooks and codes; see
    `fit_codebooks` for how. Equal rows are merged before training, so the result depends neither
    on the order of rows nor on whether a row is given twice or with twice the weight.

    Parameters
    ----------
    n_codebooks : int, default 4
        From 1 to 16: the bytes of a code.
    codebook_size : int, default 256
        From 2 to 256 words.
    search : {"greedy", "beam", "icm", "beam+icm"}, default "beam+icm"
        How codes are searched, in training and in `encode`; see `search_codes`.
    beam_width : int, default 8
        Wider is slower and better.
    max_iter : int, default 10
        Sweeps over all codebooks at most.
    tol : float, default 1e-3
        Stop when a sweep lowers the error by no more than this share of it.
    n_threads : int, optional
        Threads of the code search; None takes every core. The result does not depend on it.
    random_state : int, Generator or None
        Draws the seeds of k-means.

    Attributes
    ----------
    codebooks_ : (n_codebooks, codebook_size, n_components)
        float32 if trained on float32, else float64, which is also the precision of `encode`.
        Training itself is done in float64.
    history_ : (n_steps,) float64
        Weighted error after each codebook that was added and each sweep; never rises.
    n_iter_ : int
    n_features_in_ : int
        n_components.

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
        "n_codebooks": [Interval(Integral, 1, 16, closed="both")],
        "codebook_size": [Interval(Integral, 2, 256, closed="both")],
        "search": [StrOptions(set(SEARCHES))],
        "beam_width": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }

    codebooks_: Floats
    history_: Floats
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        n_codebooks: int = 4,
        codebook_size: int = 256,
        *,
        search: Search = "beam+icm",
        beam_width: int = 8,
        max_iter: int = 10,
        tol: float = 1e-3,
        n_threads: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_codebooks = n_codebooks
        self.codebook_size = codebook_size
        self.search = search
        self.beam_width = beam_width
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Learn the codebooks.

        Parameters
        ----------
        X : (n_items, n_components)
        y : ignored
        sample_weight : (n_items,), optional
            Not negative, some positive; ones if not given.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A constructor argument is out of range, X is no matrix of finite numbers, or the
            weights do not fit.
        """
        check_parameters(self, self._parameter_constraints)
        X = self._check_rows(X, reset=True)
        weights = _check_weights(sample_weight, len(X))
        # Adding zero makes one zero of the two there are.
        rows, places = np.unique(X[weights > 0] + 0.0, axis=0, return_inverse=True)
        fitted = fit_codebooks(
            rows,
            np.bincount(places, weights[weights > 0]).astype(np.float64),
            self.n_codebooks,
            self.codebook_size,
            search=self.search,
            beam_width=self.beam_width,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=check_rng(self.random_state),
            n_threads=self.n_threads,
        )
        self.codebooks_ = fitted.codebooks.astype(X.dtype)
        self.history_ = fitted.history
        self.n_iter_ = len(fitted.history)
        return self

    def encode(self, X: Any, *, start: Ints | None = None) -> Ints:
        """Return the code of each row.

        Parameters
        ----------
        X : (n_items, n_components)
        start : (n_items, n_codebooks) uint8, optional
            Codes to improve on: a row keeps its code unless a better one is found.

        Returns
        -------
        (n_items, n_codebooks) uint8

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        InvalidInputError
            X is no matrix of finite numbers as wide as the one fitted.
        """
        self._check_fitted()
        X = self._check_rows(X, reset=False)
        return search_codes(
            X,
            self.codebooks_,
            search=self.search,
            beam_width=self.beam_width,
            start=None if start is None else self._check_codes(start, len(X)),
            n_threads=self.n_threads,
        )

    def decode(self, codes: Any) -> Floats:
        """Return the vectors that codes stand for.

        Parameters
        ----------
        codes : (n_items, n_codebooks)

        Returns
        -------
        (n_items, n_components) of the dtype of `codebooks_`

        Raises
        ------
        NotFittedError
            ``fit`` has not been called.
        InvalidInputError
            Codes of another width, or a word that there is not.
        """
        self._check_fitted()
        return decode(self._check_codes(codes), self.codebooks_)

    def transform(self, X: Any) -> Ints:
        """Return the code of each row; the same as `encode`."""
        return self.encode(X)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the vectors that codes stand for; the same as `decode`."""
        return self.decode(X)

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
        dtypes = [np.float64, np.float32]
        if np.ma.isMaskedArray(X):
            X = as_rows(X, "X", InvalidInputError)
        try:
            X = validate_data(self, X, reset=reset, dtype=dtypes, ensure_all_finite=False)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        row = first_bad_row(X)
        if row is not None:
            raise InvalidInputError(f"X has a NaN or infinite value in row {row}; remove it")
        return np.asarray(X)

    def _check_codes(self, codes: Any, n_items: int | None = None) -> Ints:
        codes = np.asarray(codes)
        n_codebooks, n_words, _ = self.codebooks_.shape
        expected = (len(codes) if n_items is None else n_items, n_codebooks)
        if codes.shape != expected or codes.dtype.kind not in "iu":
            raise InvalidInputError(
                f"codes must be whole numbers of shape {expected}, "
                f"got {codes.dtype} of shape {codes.shape}"
            )
        if codes.size and not 0 <= codes.min() <= codes.max() < n_words:
            raise InvalidInputError(
                f"codes must lie from 0 to {n_words - 1}, got {codes.min()} to {codes.max()}"
            )
        return np.asarray(codes, dtype=np.uint8)


def _check_weights(weights: Any, n_items: int) -> Floats:
    if weights is None:
        return np.ones(n_items)
    checked: Floats = np.asarray(weights, dtype=np.float64)
    if checked.shape != (n_items,):
        raise InvalidInputError(
            f"sample_weight has shape {checked.shape}; give one weight for each of {n_items} rows"
        )
    if not np.isfinite(checked).all() or checked.min() < 0:
        raise InvalidInputError("sample_weight has a negative, NaN or infinite value")
    if not checked.any():
        raise InvalidInputError("sample_weight is zero for every row; some must be positive")
    return checked
