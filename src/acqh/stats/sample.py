"""A bounded sample of rows that does not depend on their order."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Floats, Ints, Matrix, is_sparse, slices
from acqh.errors import InvalidInputError
from acqh.stats.moments import pack_rows, unpack_rows

EVERY_KEY = np.uint64(2**64 - 1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Numbers that are hashed at a time: blocks of this size stay in the cache.
_BLOCK_NUMBERS = 1 << 16


@dataclass(frozen=True)
class RowSample:
    """The distinct rows with the smallest hashes, with their multiplicities.

    Hashes depend only on the content of a row. Samples of parts, in any order and number,
    therefore merge to the sample of all rows. Subtraction removes rows. The sample is then
    smaller than its capacity, because rows skipped before are lost.

    Attributes
    ----------
    capacity : int
        Maximum number of rows.
    n_labels : int
        Number of label columns.
    keys : uint64 (n_rows,)
        Hashes, ascending.
    counts : (n_rows,) float64
        Multiplicity of each row.
    views : dict of str to (n_rows, n_features), dense or CSR
        The sampled rows.
    present : dict of str to bool (n_rows,)
    packed : uint8 (n_rows, ceil(n_labels / 8))
        Labels, as bits.
    bound : uint64
        The sample contains every added row with a key up to this one.
    """

    capacity: int
    n_labels: int
    keys: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    views: Mapping[str, Matrix] = field(default_factory=dict)
    present: Mapping[str, Bools] = field(default_factory=dict)
    packed: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint8))
    bound: Any = EVERY_KEY

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def labels(self) -> Array:
        """Labels of the rows, uint8 (n_rows, n_labels)."""
        return unpack_rows(self.packed, self.n_labels)

    def with_rows(
        self,
        views: Mapping[str, Matrix],
        labels: Matrix | None,
        present: Mapping[str, Bools],
        keys: Ints | None = None,
    ) -> "RowSample":
        """Return the sample with rows added.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), dense or CSR
            At least one.
        labels : 0/1 (n_items, n_labels), dense or CSR, or None
        present : mapping of str to bool (n_items,)
            For every view.
        keys : uint64 (n_items,), optional
            Precomputed `row_keys` of these rows.
        """
        n_items = next(iter(views.values())).shape[0]
        width = -(-self.n_labels // 8)
        packed = np.zeros((n_items, width), np.uint8) if labels is None else pack_rows(labels)
        if keys is None:
            keys = row_keys(views, labels, present)
        # Skip most rows of a long stream before copying anything.
        candidates = np.flatnonzero(keys <= self.bound)
        candidates = candidates[np.argsort(keys[candidates], kind="stable")]
        keys, first, counts = np.unique(keys[candidates], return_index=True, return_counts=True)
        rows = candidates[first][: self.capacity]
        more = RowSample(
            self.capacity,
            self.n_labels,
            keys[: self.capacity],
            counts[: self.capacity].astype(np.float64),
            {name: matrix[rows] for name, matrix in views.items()},
            {name: mask[rows] for name, mask in present.items()},
            packed[rows],
            keys[self.capacity - 1] if len(keys) > self.capacity else self.bound,
        )
        return self + more

    def __add__(self, other: "RowSample") -> "RowSample":
        return merge_samples([self, other])

    def __sub__(self, other: "RowSample") -> "RowSample":
        mine = self._cut(min(self.bound, other.bound))
        gone = other.keys <= mine.bound
        places = np.searchsorted(mine.keys, other.keys[gone])
        counts = mine.counts.copy()
        in_sample = places < len(mine)
        in_sample[in_sample] = mine.keys[places[in_sample]] == other.keys[gone][in_sample]
        counts[places[in_sample]] -= other.counts[gone][in_sample]
        if not in_sample.all() or np.any(counts < 0):
            raise InvalidInputError(
                "cannot forget items that were not fitted; pass fitted items with the views and "
                "labels of the fit"
            )
        return mine._take(np.flatnonzero(counts > 0), counts)

    def _cut(self, bound: Any) -> "RowSample":
        """Return the rows with keys up to a bound, at most `capacity`."""
        if np.count_nonzero(self.keys <= bound) > self.capacity:
            bound = self.keys[self.capacity - 1]
        rows = np.flatnonzero(self.keys <= bound)
        sample = self if len(rows) == len(self) else self._take(rows, self.counts)
        return replace(sample, bound=bound)

    def _take(self, rows: Ints, counts: Floats) -> "RowSample":
        return replace(
            self,
            keys=self.keys[rows],
            counts=counts[rows],
            views={name: matrix[rows] for name, matrix in self.views.items()},
            present={name: mask[rows] for name, mask in self.present.items()},
            packed=self.packed[rows],
        )

    def first(
        self, n_rows: int, having: Sequence[str] = (), *, labelled: bool = False
    ) -> "RowSample":
        """Return the rows with the smallest keys: a smaller sample of the same data.

        Parameters
        ----------
        n_rows : int
            Maximum number of rows.
        having : sequence of str
            Only rows that have these views.
        labelled : bool
            Only rows that have labels.
        """
        chosen = self.packed.any(axis=1) if labelled else np.ones(len(self), dtype=bool)
        for view in having:
            chosen = chosen & self.present[view]
        return self._take(np.flatnonzero(chosen)[:n_rows], self.counts)


def merge_samples(samples: Sequence[RowSample]) -> RowSample:
    """Merge samples of parts; copies rows once.

    Needs at least one sample; all must have the same capacity and labels.
    """
    bound = min(sample.bound for sample in samples)
    parts = [sample for sample in samples if len(sample)] or [samples[0]]
    if len(parts) == 1:
        return parts[0]._cut(bound)
    keys, first, inverse = np.unique(
        np.concatenate([part.keys for part in parts]), return_index=True, return_inverse=True
    )
    counts: Any = np.bincount(inverse, np.concatenate([part.counts for part in parts]))
    n_kept = int(np.count_nonzero(keys <= bound))
    capacity = parts[0].capacity
    if n_kept > capacity:
        n_kept, bound = capacity, keys[capacity - 1]
    # By part: the positions of its rows in the merged sample, and their row numbers in the part.
    starts = np.cumsum([0, *map(len, parts)])
    first = first[:n_kept]
    places = [np.flatnonzero((first >= a) & (first < b)) for a, b in pairwise(starts)]
    rows = [first[place] - start for place, start in zip(places, starts[:-1], strict=True)]

    def gather(arrays: list[Any]) -> Any:
        if any(map(is_sparse, arrays)):
            selected = [
                sp.csr_array(array)[own_rows] for array, own_rows in zip(arrays, rows, strict=True)
            ]
            return sp.csr_array(sp.vstack(selected, format="csr"))[
                np.argsort(np.concatenate(places))
            ]
        dtype = np.result_type(*(array.dtype for array in arrays))
        gathered = np.empty((n_kept, *arrays[0].shape[1:]), dtype)
        for array, own_rows, place in zip(arrays, rows, places, strict=True):
            gathered[place] = array[own_rows]
        return gathered

    return RowSample(
        capacity,
        parts[0].n_labels,
        keys[:n_kept],
        counts[:n_kept],
        {name: gather([part.views[name] for part in parts]) for name in parts[0].views},
        {name: gather([part.present[name] for part in parts]) for name in parts[0].views},
        gather([part.packed for part in parts]),
        bound,
    )


def row_keys(
    views: Mapping[str, Matrix], labels: Matrix | None, present: Mapping[str, Bools]
) -> Ints:
    """Return a hash of every row: its views, their presence, and its labels."""
    n_items = next(iter(views.values())).shape[0]
    # No labels and all-zero labels have the same key.
    packed = np.zeros((n_items, 0), np.uint8) if labels is None else pack_rows(labels)
    keys = mix(_hash(packed, "labels"))
    for name in sorted(views):
        keys += np.where(present[name], mix(_hash(views[name], f"view {name}")), np.uint64(0))
    return keys


def _hash(matrix: Matrix, name: str) -> Ints:
    """Return the multilinear hash of every row modulo 2^64: words times odd random numbers.

    Integer addition is independent of order and zeros contribute nothing, so sparse and dense
    rows have equal hashes.
    """
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    start, *factors = mix(
        np.uint64(seed) + _GOLDEN * np.arange(1, matrix.shape[1] + 2, dtype=np.uint64)
    )
    odd = np.array(factors, dtype=np.uint64) | np.uint64(1)
    if is_sparse(matrix):
        words = sp.csr_array((_words(matrix.data), matrix.indices, matrix.indptr), matrix.shape)
        return np.asarray(start + words @ odd)
    hashes = np.full(len(matrix), start)
    for rows in slices(len(matrix), max(1, _BLOCK_NUMBERS // max(1, matrix.shape[1]))):
        hashes[rows] += np.einsum("ij,j->i", _words(matrix[rows]), odd)
    return hashes


def _words(values: Array) -> Ints:
    """Return numbers as words of 64 bits; both signed zeros map to 0."""
    words = np.add(values, 0.0, dtype=np.float64, order="C").view(np.uint64)
    # Numbers with few digits differ only in high bits, which products would shift out.
    words ^= words >> np.uint64(32)
    return words


def mix(words: Ints) -> Ints:
    """Spread the bits of each word over all of it."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
