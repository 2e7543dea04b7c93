"""Sums over tensors, on the device they lie on: the same sums as over arrays, in float64.

Rows stay on the device. What comes to the host are the sums, the distinct label sets and, where
one is kept, the bounded sample of rows.
"""

from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh._core.device import Tensor, is_tensor, to_tensor
from acqh._core.imports import require
from acqh.errors import LabelError
from acqh.stats.label_sets import LabelSets

# Rows that are added up one after the other when rows are summed by label set.
_GROUP = 256
# From this width on, half of a Gram matrix is left out that the other half repeats.
_HALVED = 256
# Labels in one word: what float64 holds exactly, so that a product of matrices packs them.
_LABELS_PER_WORD = 52
# Mixes the words of a row into one key; odd, with bits all over.
_MIXER = 0x9E3779B97F4A7C15 - (1 << 64)


def number_tensor(sets: LabelSets, labels: Any, device: Any) -> Tensor:
    """Return the set number of every row, int64 (n_items,), -1 for a row without labels.

    `sets`: those not seen before get a number. `labels`: 0/1 (n_items, n_labels), tensor, array or
    CSR. `device`: where the numbers go. Raises LabelError: a tensor with other values than 0 and 1.
    """
    torch = require("torch")
    if not is_tensor(labels):
        return to_tensor(sets.number(labels), device)
    wide = labels.to(torch.float64)
    is_binary = int(labels.max()) <= 1 if labels.dtype == torch.uint8 else None
    if not (torch.equal(wide * wide, wide) if is_binary is None else is_binary):
        raise LabelError("labels must be 0 or 1, but the tensor has other values")
    n_words = -(-sets.n_labels // _LABELS_PER_WORD)
    columns = np.arange(sets.n_labels)
    packing = np.zeros((sets.n_labels, n_words))
    packing[columns, columns // _LABELS_PER_WORD] = 2.0 ** (columns % _LABELS_PER_WORD)
    words = (wide @ to_tensor(packing, labels.device)).to(torch.int64)
    distinct, inverse = _distinct(words)
    bits = (distinct.cpu().numpy()[:, :, None] >> np.arange(_LABELS_PER_WORD)) & 1
    rows = bits.reshape(len(distinct), -1)[:, : sets.n_labels]
    return to_tensor(sets.number(rows), device)[inverse.to(device)]


def _distinct(words: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows, and which of them each row is."""
    torch = require("torch")
    keys = words[:, 0]
    for column in range(1, words.shape[1]):
        keys = (keys * _MIXER) ^ words[:, column]
    found, inverse = torch.unique(keys, return_inverse=True)
    if words.shape[1] == 1:
        return found[:, None], inverse
    places = torch.empty_like(found)
    places[inverse] = torch.arange(len(words), device=words.device)
    distinct = words[places]
    if torch.equal(distinct[inverse], words):
        return distinct, inverse
    # Two different rows have one key: all but never.
    distinct, inverse = torch.unique(words, dim=0, return_inverse=True)
    return distinct, inverse


class SortedRows:
    """Rows of a block in the order of their label sets, those without labels last.

    `sets`: tensor int64 (n_items,); -1 for a row without labels.
    """

    def __init__(self, sets: Tensor, n_sets: int) -> None:
        torch = require("torch")
        groups, self.order = torch.sort(sets.where(sets >= 0, n_sets), stable=True)
        # One way to the host, where it is then known how many rows there are to add up.
        self.counts: Ints = torch.bincount(groups, minlength=n_sets + 1).cpu().numpy()
        self.n_labelled = len(sets) - int(self.counts[-1])

    def widen(self, matrix: Tensor) -> Tensor:
        """Return the rows of a view in this order, in float64."""
        return matrix[self.order].to(require("torch").float64)

    def sum(self, rows: Tensor) -> Tensor:
        """Add up sorted rows by label set, (n_sets + 1, n_features); last those without labels.

        A few rows at a time, then what they sum up to: many at once, and the same on every run,
        which sums by atomic additions are not.
        """
        torch = require("torch")
        counts = self.counts
        while counts.max(initial=0) > _GROUP:
            groups = -(-counts // _GROUP)
            lengths = np.full(groups.sum(), _GROUP)
            last = counts > 0
            lengths[groups.cumsum()[last] - 1] = (counts - (groups - 1) * _GROUP)[last]
            place = to_tensor(lengths, rows.device)
            rows = torch.segment_reduce(rows, "sum", lengths=place, unsafe=True)
            counts = groups
        place = to_tensor(counts, rows.device)
        return torch.segment_reduce(rows, "sum", lengths=place, unsafe=True)


class ViewSums:
    """The sums of one view, kept on the device until all blocks are added."""

    def __init__(self, n_features: int, n_sets: int, device: Any) -> None:
        torch = require("torch")
        kind = {"dtype": torch.float64, "device": device}
        self._grams = [torch.zeros((n_features, n_features), **kind) for _ in range(2)]
        self._by_set = torch.zeros((n_sets + 1, n_features), **kind)

    def add(self, rows: Tensor, order: SortedRows) -> None:
        """Add sorted rows in float64."""
        self._by_set += order.sum(rows)
        for gram, part in zip(
            self._grams, (rows[: order.n_labelled], rows[order.n_labelled :]), strict=True
        ):
            if len(part):
                _add_lower(gram, part)

    def uppers(self) -> tuple[Floats, Floats]:
        """Return upper triangles of ``X^T X`` of rows with labels, and of those without."""
        # In the order of memory that statistics keep, so that nothing is turned around there.
        labelled, others = (on_host(gram.tril()).T for gram in self._grams)
        return labelled, others

    def by_set(self) -> Floats:
        """Return the sums of rows by label set; last those without labels."""
        return on_host(self._by_set)


def _add_lower(gram: Tensor, rows: Tensor) -> None:
    """Add ``X^T X`` to the lower triangle; above it, any part of the product may be left out."""
    width = rows.shape[1]
    if width < _HALVED:
        gram.addmm_(rows.T, rows)
        return
    half = width // 2
    first, second = rows[:, :half], rows[:, half:]
    gram[:half, :half].addmm_(first.T, first)
    gram[half:, :half].addmm_(second.T, first)
    gram[half:, half:].addmm_(second.T, second)


def on_host(values: Tensor) -> Floats:
    """Return a tensor as an array; NumPy knows no bfloat16."""
    is_bfloat = values.dtype == require("torch").bfloat16
    return np.asarray((values.float() if is_bfloat else values).cpu().numpy())


def hash_tensor(rows: Tensor, salts: Ints) -> Tensor:
    """Return what `compiled.add_row_hashes` adds for rows in float64: the bits of uint64."""
    torch = require("torch")
    words = rows.contiguous().view(torch.int64)
    mixed = words ^ to_tensor(salts.view(np.int64), rows.device)
    for shift, factor in _MIXERS:
        mixed = mixed ^ _shifted(mixed, shift)
        mixed *= factor
    mixed = mixed ^ _shifted(mixed, 31)
    # Zeros, of either sign, count for nothing.
    return mixed.masked_fill_((words << 1) == 0, 0).sum(dim=1)


# The constants of `compiled._mix`, as signed numbers.
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
