"""Label sets, and moments of items: totals and products of views, and totals by label set."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyrk

from acqh._core.arrays import Array, Floats, Ints, Matrix, is_sparse, slices

# Two views, in alphabetical order.
Pair: TypeAlias = tuple[str, str]
_Key = TypeVar("_Key")
# Name of the labels in patterns of views.
LABELS = "labels"
# Rows of a dense view that are upcast_half to float64 at a time.
BLOCK_ROWS = 2048
# Set number of a row without labels.
UNLABELLED = -1
# Rows are packed to bits in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class StatisticsConfig:
    """Cross products and sample size of `Statistics`.

    Attributes
    ----------
    pairs : frozenset of pairs of str, or "all"
        Views with cross products; each pair in alphabetical order.
    sample_size : int
        Maximum number of sampled rows; 0: no sample.

    Examples
    --------
    >>> StatisticsConfig(pairs=frozenset()).includes(("image", "text"))
    False
    """

    pairs: frozenset[Pair] | Literal["all"] = "all"
    sample_size: int = 16_384

    def includes(self, pair: Pair) -> bool:
        """Whether the statistics include the cross product of two views."""
        return self.pairs == "all" or pair in self.pairs

    def pairs_of(self, views: Iterable[str]) -> list[Pair]:
        """Return the pairs of these views with cross products."""
        return [pair for pair in combinations(sorted(views), 2) if self.includes(pair)]


class LabelSets:
    """Numbers of label sets, in the order of their first occurrence.

    Stores a set as packed bits: 1,000 labels take 125 bytes per distinct set.

    Parameters
    ----------
    n_labels : int
        Number of label columns.

    Examples
    --------
    >>> sets = LabelSets(3)
    >>> sets.number([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    array([ 0,  1,  0, -1])
    >>> sets.matrix()
    array([[1, 0, 0],
           [0, 1, 1]], dtype=uint8)
    """

    _state_axes: ClassVar = {"n_labels": int, "bits": ("n_sets", "n_bytes")}

    def __init__(self, n_labels: int) -> None:
        self.n_labels = n_labels
        self._number_of: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._number_of)

    def copy(self) -> "LabelSets":
        """Return an independent copy."""
        new = LabelSets(self.n_labels)
        new._number_of = dict(self._number_of)
        return new

    def number(self, labels: Matrix, *, add: bool = True) -> Ints:
        """Return the set number of every row, -1 for a row without labels.

        Parameters
        ----------
        labels : 0/1 (n_items, n_labels), dense or CSR
        add : bool
            Whether to add new sets; otherwise their rows get -1 too.

        Returns
        -------
        (n_items,) int64
        """
        matrix = labels if is_sparse(labels) else np.asarray(labels)
        numbers = np.empty(matrix.shape[0], dtype=np.int64)
        block = max(1, _BLOCK_BYTES // max(1, self.n_labels))
        for start in range(0, matrix.shape[0], block):
            packed = pack_rows(matrix[start : start + block])
            keys, inverse = distinct_rows(packed)
            set_numbers = [self._lookup(key.tobytes(), add) for key in keys]
            numbers[start : start + block] = np.asarray(set_numbers, dtype=np.int64)[inverse]
        return numbers

    def _lookup(self, key: bytes, add: bool) -> int:
        if not any(key):
            return UNLABELLED
        if add:
            return self._number_of.setdefault(key, len(self._number_of))
        return self._number_of.get(key, UNLABELLED)

    def number_of_sets(self, other: "LabelSets") -> Ints:
        """Return the numbers of all sets of another object; adds new ones."""
        return np.array([self._lookup(key, True) for key in other._number_of], dtype=np.int64)

    def matrix(self) -> Array:
        """Return the sets as rows, uint8 (n_sets, n_labels), in the order of their numbers."""
        return unpack_rows(self.bits, self.n_labels)

    @property
    def bits(self) -> Array:
        """Return the sets as packed bits, uint8 (n_sets, ceil(n_labels / 8))."""
        width = -(-self.n_labels // 8)
        bits = np.frombuffer(b"".join(self._number_of), dtype=np.uint8)
        return bits.reshape(len(self), width)

    @bits.setter
    def bits(self, bits: Array) -> None:
        self._number_of = {row.tobytes(): number for number, row in enumerate(bits)}


def pack_rows(labels: Matrix) -> Array:
    """Pack 0/1 rows, dense or CSR, to bits: uint8 (n_items, ceil(n_labels / 8))."""
    if not is_sparse(labels):
        return np.packbits(np.asarray(labels, dtype=bool), axis=1)
    packed = np.zeros((labels.shape[0], -(-labels.shape[1] // 8)), dtype=np.uint8)
    stored = labels.data != 0
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))[stored]
    columns = labels.indices[stored]
    np.bitwise_or.at(packed, (rows, columns >> 3), (128 >> (columns & 7)).astype(np.uint8))
    return packed


def unpack_rows(packed: Array, n_labels: int) -> Array:
    """Unpack bits to 0/1 rows, uint8 (n_items, n_labels)."""
    if len(packed) == 0:
        return np.zeros((0, n_labels), dtype=np.uint8)
    return np.unpackbits(packed, axis=1, count=n_labels)


def distinct_rows(packed: Array) -> tuple[Array, Ints]:
    """Return the distinct rows in the order of first occurrence, and their index per row."""
    n_rows, width = packed.shape
    if width <= 8:
        # Eight bytes are one integer, and integers sort an order of magnitude faster.
        padded = np.zeros((n_rows, 8), dtype=np.uint8)
        padded[:, :width] = packed
        keys: Any = padded.view(np.uint64).ravel()
    else:
        keys = np.ascontiguousarray(packed).view(np.dtype((np.void, width))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return packed[first[order]], place[inverse]


@dataclass
class Moments:
    """Moments of the items with the same pattern of views and labels.

    Attributes
    ----------
    n_items : float
    totals : dict of str to (n_features,)
        Column totals of each view.
    uppers : dict of str to (n_features, n_features)
        Upper triangles of the Gram matrices.
    products : dict of pair to (n_features, n_other_features)
        ``X_a^T X_b``.
    counts : (n_sets,)
        Items per label set; empty for a pattern without labels.
    by_set : dict of str to (n_sets, n_features)
        Column totals by label set.
    """

    n_items: float = 0.0
    totals: dict[str, Floats] = field(default_factory=dict)
    uppers: dict[str, Floats] = field(default_factory=dict)
    products: dict[Pair, Floats] = field(default_factory=dict)
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    by_set: dict[str, Floats] = field(default_factory=dict)

    def _restored(self) -> None:
        for name, upper in self.uppers.items():
            self.uppers[name] = np.asfortranarray(upper)  # the order that dsyrk updates in place

    def plus(self, other: "Moments", sign: float = 1.0) -> "Moments":
        """Return the moments of the items of both, or of this without those of the other.

        Both number label sets in the same way, or one has no labels.
        """
        counts = self.counts if len(self.counts) else np.zeros_like(other.counts)
        return Moments(
            self.n_items + sign * other.n_items,
            _plus(self.totals, other.totals, sign),
            _plus(self.uppers, other.uppers, sign),
            _plus(self.products, other.products, sign),
            counts + sign * other.counts if len(other.counts) else counts,
            _plus(self.by_set, other.by_set, sign),
        )

    def renumbered(self, numbers: Ints, n_sets: int) -> "Moments":
        """Return the same moments with label set i renumbered to ``numbers[i]``."""

        def spread(rows: Floats) -> Floats:
            total = np.zeros((n_sets, *rows.shape[1:]))
            total[numbers[: len(rows)]] = rows
            return total

        by_set = {name: spread(rows) for name, rows in self.by_set.items()}
        counts = spread(self.counts) if len(self.counts) else self.counts
        return replace(self, counts=counts, by_set=by_set)

    def of_sets(self, rows: Ints) -> "Moments":
        """Return the same moments with only these label sets; all others must be empty."""
        by_set = {name: rows_by_set[rows] for name, rows_by_set in self.by_set.items()}
        counts = self.counts[rows] if len(self.counts) else self.counts
        return replace(self, counts=counts, by_set=by_set)

    def gram(self, view: str) -> Floats:
        """Return ``X^T X`` of a view."""
        return mirror(self.uppers[view])

    def product(self, first: str, second: str) -> Floats:
        """Return ``X_a^T X_b`` of two views in either order."""
        if (first, second) in self.products:
            return self.products[first, second]
        return self.products[second, first].T


class ViewStatistics(NamedTuple):
    """Moments of the labelled items that have one view."""

    upper: Floats  # (n_features, n_features): upper triangle of the Gram matrix
    set_totals: Floats  # (n_sets, n_features): column totals by label set
    counts: Floats  # (n_sets,): items of each label set with the view

    @property
    def n_features(self) -> int:
        """Width of the view."""
        return int(self.upper.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items with the view."""
        return round(float(self.counts.sum()))

    @property
    def gram(self) -> Floats:
        """The Gram matrix ``X^T X``, (n_features, n_features)."""
        return mirror(self.upper)


def _plus(mine: dict[_Key, Floats], theirs: dict[_Key, Floats], sign: float) -> dict[_Key, Floats]:
    total = dict(mine)
    for key, array in theirs.items():
        total[key] = total[key] + sign * array if key in total else sign * array
    return total


def pair_of(first: str, second: str) -> Pair:
    """Return two views in alphabetical order."""
    return (first, second) if first <= second else (second, first)


def sum_over(patterns: Mapping[tuple[str, ...], Moments], names: Iterable[str]) -> Moments:
    """Return the moments of all items that have at least these views.

    `patterns`: moments by the views of the items and ``"labels"``, which may be one of the
    names. Does not copy a single pattern.
    """
    requested = set(names)
    parts = [
        Moments(
            moments.n_items,
            {name: array for name, array in moments.totals.items() if name in requested},
            {name: array for name, array in moments.uppers.items() if name in requested},
            {pair: array for pair, array in moments.products.items() if set(pair) <= requested},
            moments.counts,
            {name: array for name, array in moments.by_set.items() if name in requested},
        )
        for pattern, moments in sorted(patterns.items())
        if requested <= set(pattern)
    ]
    return reduce(Moments.plus, parts) if parts else Moments()


def upper_gram(matrix: Matrix, upper: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the upper triangle of ``X^T X`` and the column totals of dense or CSR rows.

    `upper`: a triangle to update in place.
    """
    if upper is None:
        upper = np.zeros((matrix.shape[1], matrix.shape[1]), order="F")
    if is_sparse(matrix):
        rows = matrix.astype(np.float64)
        _add_entries(upper, sp.triu(rows.T @ rows, format="coo"))
        return upper, np.asarray(rows.sum(axis=0)).ravel()
    totals = np.zeros(matrix.shape[1])
    for block in slices(len(matrix), BLOCK_ROWS):
        wide = np.asarray(matrix[block], dtype=np.float64, order="C")
        # The transpose of a C-ordered block is column-major, so BLAS needs no copy.
        upper = dsyrk(1.0, wide.T, beta=1.0, c=upper, overwrite_c=True)
        totals += wide.sum(axis=0)
    return upper, totals


def add_by_set(by_set: Floats, sets: Ints, matrix: Matrix) -> None:
    """Add row i of dense or CSR rows to ``by_set[sets[i]]``, in place."""
    for block in slices(len(sets), BLOCK_ROWS):
        numbers, places = np.unique(sets[block], return_inverse=True)
        entries = np.ones(len(places)), (places, np.arange(len(places)))
        one_hot = sp.csr_array(entries, shape=(len(numbers), len(places)))
        totals = one_hot @ matrix[block]
        if is_sparse(totals):
            _add_entries(by_set, sp.coo_array(totals), numbers)
        else:
            by_set[numbers] += totals


def _add_entries(total: Floats, entries: Any, numbers: Ints | None = None) -> None:
    """Add the entries of a sparse product in place; row i goes to row ``numbers[i]``."""
    rows, columns = entries.coords
    total[rows if numbers is None else numbers[rows], columns] += entries.data


def cross_product(first: Matrix, second: Matrix) -> Floats:
    """Return ``X_a^T X_b`` in float64, of dense or CSR rows."""
    if is_sparse(second) and not is_sparse(first):
        return cross_product(second, first).T
    total = np.zeros((first.shape[1], second.shape[1]))
    for block in slices(first.shape[0], BLOCK_ROWS):
        left, right = (matrix[block].astype(np.float64, copy=False) for matrix in (first, second))
        if is_sparse(right):
            _add_entries(total, sp.coo_array(left.T @ right))
        else:
            # A product with CSC rows takes four times as long.
            total += (left.T.tocsr() if is_sparse(left) else left.T) @ right
    return total


def mirror(upper: Floats) -> Floats:
    """Return the symmetric matrix with this upper triangle."""
    gram = np.triu(upper)
    gram += gram.T
    np.fill_diagonal(gram, np.diag(upper))
    return gram
