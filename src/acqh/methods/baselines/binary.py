"""Shared by methods with binary codes: packing, signs and their descent, database modes."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh._core.runtime import RandomState
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import TrainedMethod
from acqh.methods.registry import DatabaseMode

MAX_SWEEPS = 10
# Rows are independent; a block of them stays in the cache while its bits are swept.
BLOCK_ROWS = 2048


@dataclass(eq=False, repr=False)
class BinaryMethod(TrainedMethod):
    """A method whose queries and items are bits, compared by Hamming distance.

    A subclass says by `_project` which real numbers' signs are the bits of a view; `_unify` may
    combine several views better than by their mean.

    Parameters
    ----------
    n_bits : int
        K in formulas.

    Attributes
    ----------
    n_bits_ : int
        Bits of a code; fewer than asked for where the data do not carry more.
    training_codes_ : uint8 (n_train, ceil(n_bits / 8))
        The codes learnt for the training items, packed; those of a view in a dict where the
        method learns one code per view. Absent if training items are encoded like new ones.
    """

    _stored_as: ClassVar = "binary"

    n_bits: int = 32
    _: KW_ONLY
    feature_maps: Any = None
    random_state: RandomState = None
    n_bits_: int = field(init=False)

    def hash(self, X: Matrix, *, view: str) -> Array:
        """Return the packed bits of queries or items of one view.

        Parameters
        ----------
        X : (n_items, n_features)
        view : str

        Returns
        -------
        uint8 (n_items, ceil(n_bits / 8))
        """
        return pack_signs(self.project(X, view=view))

    def embed_queries(self, X: Matrix, *, view: str) -> Floats:
        """Return the signs of queries: their inner product with an item's is ``K - 2 d``."""
        return self.decode(self.hash(X, view=view))

    def _code(self, views: Mapping[str, Matrix], mode: DatabaseMode) -> Array:
        if mode == "fused":
            return pack_signs(self._unify(views))
        ((view, matrix),) = views.items()
        return pack_signs(self._project(matrix, view))

    def _unify(self, views: Mapping[str, Matrix]) -> Floats:
        """Return real numbers whose signs are the bits of items seen in several views."""
        projected = [self._project(matrix, view) for view, matrix in views.items()]
        return np.asarray(np.mean(projected, axis=0))

    def decode(self, codes: Array) -> Floats:
        """Return the bits as signs.

        Parameters
        ----------
        codes : uint8 (n_items, ceil(n_bits / 8))

        Returns
        -------
        (n_items, n_bits) float32, of -1 and 1
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
    projections_ : dict of str to (n_mapped_features, n_bits)
    intercepts_ : dict of str to (n_bits,)
        Of the views that have one; not set where none has.
    """

    projections_: dict[str, Floats]
    intercepts_: dict[str, Floats]

    def _project(self, matrix: Matrix, view: str) -> Floats:
        intercepts: dict[str, Any] = getattr(self, "intercepts_", {})
        return self._map_linearly(matrix, view, self.projections_[view], intercepts.get(view, 0.0))


def linear_functions(
    projections: Mapping[str, Floats],
    *,
    rows: Mapping[str, Rows] | None = None,
    codes: Floats | Mapping[str, Floats] | None = None,
    history: list[float] | None = None,
) -> dict[str, Any]:
    """Return hash functions as fitted attributes of a `LinearBinaryMethod`.

    `rows`: from whose features the means are subtracted first. `codes`: signs of the training
    items, of all views or of each. `history`: the objective after each sweep.
    """
    n_bits = int(next(iter(projections.values())).shape[1])
    fitted: dict[str, Any] = {"projections_": dict(projections), "n_bits_": n_bits}
    if rows is not None:
        fitted["intercepts_"] = {view: -rows[view].mean @ P for view, P in projections.items()}
    if isinstance(codes, Mapping):
        fitted["training_codes_"] = {view: pack_signs(signs) for view, signs in codes.items()}
    elif codes is not None:
        fitted["training_codes_"] = pack_signs(codes)
    if history is not None:
        fitted["objective_"] = history
    return fitted


def pack_signs(values: Floats) -> Array:
    """Pack signs to bits, zero counting as positive.

    `values`: (n_items, n_bits). Gives uint8 (n_items, ceil(n_bits / 8)).

    Examples
    --------
    >>> pack_signs(np.array([[0.5, -1.0, 0.0]]))
    array([[160]], dtype=uint8)
    """
    return np.packbits(np.asarray(values) >= 0, axis=1)


def descend_bits(signs: Floats, H: Floats, Q: Floats, *, max_sweeps: int = MAX_SWEEPS) -> Floats:
    """Minimise ``tr(B H Bᵀ) - 2 tr(B Qᵀ)`` over signs B, one bit at a time.

    Bit k becomes ``sgn(q_k - Σ_{j≠k} b_j H_jk)``, which is its exact minimiser for the other
    bits as they are, so the objective never rises. Where the argument is exactly zero, both
    signs are as good and the bit stays. Sweeps over all bits go on until no bit changes.

    `signs`: (n_items, n_bits); the start, of -1 and 1. `H`: (n_bits, n_bits); symmetric; its
    diagonal does not matter. `Q`: (n_items, n_bits). Gives (n_items, n_bits) float64, of -1 and 1.

    Notes
    -----
    A sweep takes O(n_items n_bits²). Rows do not depend on each other, so later sweeps visit
    only the rows that changed in the one before.

    Examples
    --------
    >>> descend_bits(np.array([[1.0, 1.0]]), np.eye(2), np.array([[-3.0, 0.0]]))
    array([[-1.,  1.]])
    """
    others = np.array(H, dtype=np.float64)
    np.fill_diagonal(others, 0.0)
    codes = np.array(signs, dtype=np.float64)
    for start in range(0, len(codes), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(codes)))
        for _ in range(max_sweeps):
            swept = _sweep(codes[rows], others, Q[rows])
            changed = np.any(swept != codes[rows], axis=1)
            codes[rows] = swept
            rows = rows[changed]
            if rows.size == 0:
                break
    return codes


def _sweep(signs: Floats, others: Floats, Q: Floats) -> Floats:
    swept = np.array(signs, order="F")
    for k in range(swept.shape[1]):
        swept[:, k] = keep_sign(Q[:, k] - swept @ others[:, k], swept[:, k])
    return swept


def keep_sign(values: Floats, previous: Floats) -> Floats:
    """Return the signs of values, and the previous sign where a value is exactly zero.

    Examples
    --------
    >>> keep_sign(np.array([2.0, 0.0, -0.5]), np.array([-1.0, -1.0, 1.0]))
    array([ 1., -1., -1.])
    """
    return np.where(values == 0, previous, np.where(values > 0, 1.0, -1.0))


def random_signs(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return independent fair signs, float64.

    Examples
    --------
    >>> random_signs(np.random.default_rng(0), (1, 4))
    array([[ 1.,  1.,  1., -1.]])
    """
    return 2.0 * rng.integers(2, size=shape).astype(np.float64) - 1.0
