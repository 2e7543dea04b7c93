"""What every method with binary codes shares: packing, signs, database modes."""

from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh._core.validation import Interval
from acqh.errors import InvalidInputError, ViewError
from acqh.methods._base import BaseMethod
from acqh.methods.registry import DatabaseMode


class BinaryMethod(BaseMethod):
    """A method whose queries and items are bits, compared by Hamming distance.

    A subclass sets `training_codes_` and says by `project` which real numbers' signs are the
    bits of a view; `_unify` may combine several views better than by their mean.

    Attributes
    ----------
    n_bits_ : int
        Bits of a code; fewer than asked for where the data do not carry more.
    training_codes_ : uint8 (n_train, ceil(n_bits_ / 8))
        The codes learnt for the training items, packed; those of a view in a dict where the
        method learns one code a view.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [Interval(Integral, 1, None, closed="left")],
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    n_bits_: int
    training_codes_: Array | dict[str, Array]

    @abstractmethod
    def project(self, X: Matrix, *, view: str) -> Floats:
        """Return the real numbers, (n_items, n_bits_), whose signs are the bits."""

    def hash(self, X: Matrix, *, view: str) -> Array:
        """Return the packed bits of queries or items of one view.

        Parameters
        ----------
        X : (n_items, n_features)
        view : str

        Returns
        -------
        uint8 (n_items, ceil(n_bits_ / 8))
        """
        return pack_signs(self.project(X, view=view))

    def embed_queries(self, X: Matrix, *, view: str) -> Floats:
        """Return the signs of queries: their inner product with an item's is ``K - 2 d``."""
        return self.decode(self.hash(X, view=view))

    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Return the codes of a database.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), optional
        labels : optional
            Not used: the codes of labelled items are those learnt in training.
        mode : {"learnt", "hashed", "unified"}, optional
            ``"learnt"``: the codes of the training items, as the optimiser left them (the view
            named in `views`, where each view has its own). ``"hashed"``: the hash function of
            the one view given. ``"unified"``: all views given, combined.

        Returns
        -------
        uint8 (n_items, ceil(n_bits_ / 8))

        Raises
        ------
        InvalidInputError
            The method does not code a database that way, or what it needs is not given.
        """
        mode = self._check_mode(views, labels, mode)
        if mode == "learnt":
            return self._learnt_codes(views)
        if mode == "hashed":
            if len(views) != 1:
                raise InvalidInputError(f"mode 'hashed' takes one view, got {sorted(views)}")
            ((view, X),) = views.items()
            return self.hash(X, view=view)
        return pack_signs(self._unify(self._check_pairs(views)))

    def _check_pairs(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        checked = {view: self._check_view(X, view) for view, X in views.items()}
        rows = {view: matrix.shape[0] for view, matrix in checked.items()}
        if len(set(rows.values())) > 1:
            raise ViewError(f"views are paired by row, but have these numbers of rows: {rows}")
        return checked

    def _learnt_codes(self, views: Any) -> Array:
        codes = self.training_codes_
        if not isinstance(codes, dict):
            return codes
        names = sorted(views) if isinstance(views, Mapping) else []
        if len(names) != 1 or names[0] not in codes:
            raise InvalidInputError(
                f"each view has its own learnt codes: name one of {sorted(codes)} in views"
            )
        return codes[names[0]]

    def _unify(self, views: Mapping[str, Matrix]) -> Floats:
        """Return real numbers whose signs are the bits of items seen in several views."""
        projected = [self.project(X, view=view) for view, X in views.items()]
        return np.asarray(np.mean(projected, axis=0))

    def decode(self, codes: Array) -> Floats:
        """Return the bits as signs.

        Parameters
        ----------
        codes : uint8 (n_items, ceil(n_bits_ / 8))

        Returns
        -------
        (n_items, n_bits_) float32, of -1 and 1
        """
        self._check_fitted()
        bits = np.unpackbits(codes, axis=1, count=self.n_bits_)
        return bits.astype(np.float32) * 2.0 - 1.0

    @property
    def bytes_per_item(self) -> int:
        """An eighth of the bits, rounded up."""
        self._check_fitted()
        return -(-self.n_bits_ // 8)


class LinearBinaryMethod(BinaryMethod):
    """A binary method whose bits are signs of a linear map of the mapped features.

    Attributes
    ----------
    projections_ : dict of str to (n_mapped_features, n_bits_)
    intercepts_ : dict of str to (n_bits_,)
        Of the views that have one; not set where none has.
    """

    projections_: dict[str, Floats]
    intercepts_: dict[str, Floats]

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Return the real numbers whose signs are the bits.

        Parameters
        ----------
        X : (n_items, n_features)
        view : str

        Returns
        -------
        (n_items, n_bits_) float64
        """
        self._check_fitted()
        projected = self._times(X, view, self.projections_)
        intercepts: dict[str, Floats] = getattr(self, "intercepts_", {})
        return projected + intercepts[view] if view in intercepts else projected

    def _times(self, X: Matrix, view: str, coefficients: Mapping[str, Floats]) -> Floats:
        """Return mapped features of a view times its coefficients, block by block."""
        blocks = [
            np.asarray(block @ coefficients[view]) for _, block in self._mapped_blocks(X, view)
        ]
        return np.concatenate([np.empty((0, self.n_bits_)), *blocks])

    def _keep_functions(
        self, projections: Mapping[str, Floats], means: Mapping[str, Floats]
    ) -> None:
        """Set the hash functions of features from which their means are subtracted first."""
        self.projections_ = dict(projections)
        self.intercepts_ = {view: -means[view] @ found for view, found in projections.items()}
        self.n_bits_ = int(next(iter(projections.values())).shape[1])


def pack_signs(values: Floats) -> Array:
    """Pack signs to bits, zero counting as positive.

    Parameters
    ----------
    values : (n_items, n_bits)

    Returns
    -------
    uint8 (n_items, ceil(n_bits / 8))

    Examples
    --------
    >>> pack_signs(np.array([[0.5, -1.0, 0.0]]))
    array([[160]], dtype=uint8)
    """
    return np.packbits(np.asarray(values) >= 0, axis=1)
