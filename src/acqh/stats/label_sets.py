"""The distinct label sets seen so far, each with a number."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Array, Ints, Matrix, is_sparse
from acqh._core.device import is_tensor

# A row whose labels are not known belongs to no set.
UNLABELLED = -1
# Rows are packed to bits in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 26


class LabelSets:
    """Numbers for label sets, in the order in which they were first seen.

    A set is kept as its packed bits, so 1,000 labels cost 125 bytes per distinct set.

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
        """Return sets with the same numbers that can grow apart from these."""
        new = LabelSets(self.n_labels)
        new._number_of = dict(self._number_of)
        return new

    def number(self, labels: Matrix, *, add: bool = True) -> Ints:
        """Return the set number of every row, -1 for a row without labels.

        Parameters
        ----------
        labels : 0/1 (n_items, n_labels), dense, CSR or tensor
        add : bool
            Whether sets not seen before get a number; otherwise their rows are -1 too.

        Returns
        -------
        (n_items,) int64
        """
        if is_tensor(labels):
            from acqh.stats.on_device import number_tensor

            return np.asarray(number_tensor(self, labels, labels.device).cpu().numpy())
        matrix = labels if is_sparse(labels) else np.asarray(labels)
        numbers = np.empty(matrix.shape[0], dtype=np.int64)
        block = max(1, _BLOCK_BYTES // max(1, self.n_labels))
        for start in range(0, matrix.shape[0], block):
            packed = pack_rows(matrix[start : start + block])
            keys, inverse = distinct_rows(packed)
            found = [self._lookup(key.tobytes(), add) for key in keys]
            numbers[start : start + block] = np.asarray(found, dtype=np.int64)[inverse]
        return numbers

    def _lookup(self, key: bytes, add: bool) -> int:
        if not any(key):
            return UNLABELLED
        if add:
            return self._number_of.setdefault(key, len(self._number_of))
        return self._number_of.get(key, UNLABELLED)

    def number_of_sets(self, other: "LabelSets") -> Ints:
        """Return the numbers here of all sets of another, adding those not seen before."""
        return self._number_keys(other._number_of)

    def _number_keys(self, keys: Iterable[bytes]) -> Ints:
        return np.array([self._lookup(key, True) for key in keys], dtype=np.int64)

    def matrix(self) -> Array:
        """Return the sets as rows, uint8 (n_sets, n_labels), by rising number."""
        return unpack_rows(self.packed(), self.n_labels)

    def packed(self) -> Array:
        """Return the sets as packed bits, uint8 (n_sets, ceil(n_labels / 8))."""
        width = -(-self.n_labels // 8)
        bits = np.frombuffer(b"".join(self._number_of), dtype=np.uint8)
        return bits.reshape(len(self), width)

    @property
    def bits(self) -> Array:
        """What `packed` gives."""
        return self.packed()

    @bits.setter
    def bits(self, bits: Array) -> None:
        self._number_of = {row.tobytes(): number for number, row in enumerate(bits)}

    @classmethod
    def from_packed(cls, packed: Iterable[Array], n_labels: int) -> "LabelSets":
        """Return the sets of which `packed` gave the bits."""
        sets = cls(n_labels)
        sets._number_keys(row.tobytes() for row in packed)
        return sets


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
    """Return 0/1 rows, uint8 (n_items, n_labels), of packed bits."""
    if len(packed) == 0:
        return np.zeros((0, n_labels), dtype=np.uint8)
    return np.unpackbits(packed, axis=1, count=n_labels)


def distinct_rows(packed: Array) -> tuple[Array, Ints]:
    """Return the distinct rows, in the order of their first use, and which one each row is."""
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
