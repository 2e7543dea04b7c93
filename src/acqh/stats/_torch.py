"""Sums over tensors, on the device they lie on: the same sums as over arrays, in float64.

Rows stay on the device. What comes to the host are the sums, the distinct label sets and, where
one is kept, the bounded sample of rows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh._core.optional import require
from acqh._core.tensors import Tensor, is_tensor, row_blocks, to_tensor
from acqh.errors import LabelError
from acqh.stats._label_sets import LabelSets

# Rows that are summed at once when rows are summed by label set.
_GROUP = 64
# Labels in one key: an integer of 64 bits, without its sign.
_LABELS_PER_WORD = 63


def rows_of(n_rows: int, widths: Mapping[str, int], keeps_rows: bool, max_memory: int) -> Any:
    """Cut rows into blocks so that working copies of them take at most so much memory."""
    # Two copies for the sums, as large as float64 each; hashes of rows take three more.
    copies = 5 if keeps_rows else 2
    return row_blocks(n_rows, max(1, 8 * copies * sum(widths.values())), max_memory)


def number_tensor(sets: LabelSets, labels: Any, device: Any) -> Tensor:
    """Return the set number of every row, int64 (n_items,), -1 for a row without labels.

    Parameters
    ----------
    sets : LabelSets
        Those not seen before get a number.
    labels : 0/1 (n_items, n_labels), tensor, array or CSR
    device : torch device
        Where the numbers go.

    Raises
    ------
    LabelError
        A tensor with other values than 0 and 1.
    """
    torch = require("torch")
    if not is_tensor(labels):
        return to_tensor(sets.number(labels), device)
    if bool(((labels != 0) & (labels != 1)).any()):
        raise LabelError("labels must be 0 or 1, but the tensor has other values")
    n_words = -(-sets.n_labels // _LABELS_PER_WORD)
    keys = torch.zeros((len(labels), n_words), dtype=torch.int64, device=labels.device)
    for column in range(sets.n_labels):
        word, bit = divmod(column, _LABELS_PER_WORD)
        keys[:, word] |= labels[:, column].to(torch.int64) << bit
    if n_words == 1:
        distinct, inverse = torch.unique(keys[:, 0], return_inverse=True)
        distinct = distinct[:, None]
    else:
        distinct, inverse = torch.unique(keys, dim=0, return_inverse=True)
    bits = (distinct.cpu().numpy()[:, :, None] >> np.arange(_LABELS_PER_WORD)) & 1
    rows = bits.reshape(len(distinct), -1)[:, : sets.n_labels]
    return to_tensor(sets.number(rows), device)[inverse.to(device)]


class SortedRows:
    """Rows of a block in the order of their label sets, those without labels last.

    Parameters
    ----------
    sets : tensor int64 (n_items,)
        -1 for a row without labels.
    n_sets : int
    """

    def __init__(self, sets: Tensor, n_sets: int) -> None:
        torch = require("torch")
        groups, self.order = torch.sort(sets.where(sets >= 0, n_sets), stable=True)
        self.counts = torch.bincount(groups, minlength=n_sets + 1)
        self.n_labelled = len(sets) - int(self.counts[-1])

    def widen(self, matrix: Tensor) -> Tensor:
        """Return the rows of a view in this order, in float64."""
        return matrix[self.order].to(require("torch").float64)

    def sum(self, rows: Tensor) -> Floats:
        """Add up sorted rows by label set, (n_sets + 1, n_features); last those without labels.

        A few rows at a time, then what they sum up to: many at once, and the same on every run,
        which sums by atomic additions are not.
        """
        torch = require("torch")
        counts = self.counts
        while int(counts.max()) > _GROUP:
            groups = -(-counts // _GROUP)
            lengths = torch.full((int(groups.sum()),), _GROUP, device=counts.device)
            last = counts > 0
            lengths[groups.cumsum(0)[last] - 1] = (counts - (groups - 1) * _GROUP)[last]
            rows = torch.segment_reduce(rows, "sum", lengths=lengths, unsafe=True)
            counts = groups
        return _on_host(torch.segment_reduce(rows, "sum", lengths=counts, unsafe=True))


def gram_of(rows: Tensor) -> Floats:
    """Return the upper triangle of ``X^T X``, of rows in float64."""
    return np.triu(_on_host(rows.T @ rows))


def cross_of(first: Tensor, second: Tensor) -> Floats:
    """Return ``X_a^T X_b``, of rows in float64."""
    return _on_host(first.T @ second)


def _on_host(values: Tensor) -> Floats:
    return np.asarray(values.cpu().numpy())


def hash_tensor(rows: Tensor, salts: Ints) -> Tensor:
    """Return what `_kernels.add_row_hashes` adds for rows in float64: the bits of uint64."""
    torch = require("torch")
    words = rows.contiguous().view(torch.int64)
    mixed = words ^ to_tensor(salts.view(np.int64), rows.device)
    for shift, factor in _MIXERS:
        mixed = mixed ^ _shifted(mixed, shift)
        mixed *= factor
    mixed = mixed ^ _shifted(mixed, 31)
    # Zeros, of either sign, count for nothing.
    return mixed.masked_fill_((words << 1) == 0, 0).sum(dim=1)


# The constants of `_kernels._mix`, as signed numbers.
_MIXERS = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)))


def _shifted(words: Tensor, shift: int) -> Tensor:
    """Shift to the right as unsigned words are."""
    return (words >> shift) & ((1 << (64 - shift)) - 1)


def least_keys(keys: Tensor, bound: Any, n_keys: int) -> tuple[Ints, Floats, Tensor, bool]:
    """Return the smallest distinct keys up to a bound.

    Parameters
    ----------
    keys : tensor int64 (n_items,)
        The bits of uint64.
    bound : uint64
    n_keys : int
        As many at most.

    Returns
    -------
    found : uint64 (n_found,)
        Rising.
    counts : (n_found,)
        How often each is there.
    rows : tensor (n_found,)
        Where each is first.
    is_cut : bool
        Whether there are more up to the bound.
    """
    torch = require("torch")
    sign = -(1 << 63)
    ordered, rows = torch.sort(keys ^ sign, stable=True)
    n_kept = int((ordered <= int(np.int64(bound.view(np.int64)) ^ np.int64(sign))).sum())
    found, counts = torch.unique_consecutive(ordered[:n_kept], return_counts=True)
    firsts = counts.cumsum(0) - counts
    is_cut = len(found) > n_keys
    found, counts, firsts = found[:n_keys] ^ sign, counts[:n_keys], firsts[:n_keys]
    return (
        found.cpu().numpy().view(np.uint64),
        counts.cpu().numpy().astype(np.float64),
        rows[firsts],
        is_cut,
    )
