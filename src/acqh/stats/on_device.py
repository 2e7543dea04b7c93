"""Sums over tensors, on the device they lie on: the same sums as over arrays, in float64.

Rows stay on the device. What comes to the host are the sums, the distinct label sets and, where
one is kept, the bounded sample of rows.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix, is_tensor
from acqh._core.device import Tensor, row_blocks, to_tensor
from acqh._core.imports import require
from acqh.errors import LabelError, ViewError
from acqh.stats.moments import LABELS, Keep, LabelSets, Moments, Pair
from acqh.stats.sample import RowSample, hash_rows, row_salts

if TYPE_CHECKING:
    from acqh.stats.sums import Statistics

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


def add_tensors(
    statistics: "Statistics",
    views: Mapping[str, Tensor],
    labels: Matrix,
    rows: Mapping[str, Tensor],
    max_memory: int,
) -> None:
    """Add items to sums in place; see `Statistics.update`, which checks widths and labels.

    Raises ViewError: views that are not all tensors on one device.
    """
    device = one_device({**rows, **views})
    widths = {name: matrix.shape[1] for name, matrix in views.items()}
    n_items = len(next(iter(views.values())))
    sets = _number(statistics.label_sets, labels, device, max_memory)
    statistics.grow()
    n_sets, keep = len(statistics.counts), statistics.keep
    totals = {name: ViewSums(width, n_sets, device) for name, width in widths.items()}
    # Of rows with labels, and of those without.
    products: list[dict[Pair, Any]] = [
        dict.fromkeys([] if keep is None else keep.pairs_of(views), 0.0) for _ in range(2)
    ]
    counts = np.zeros(n_sets + 1)
    # Two copies for the sums, as large as float64 each; hashes of rows take three more.
    bytes_per_row = 8 * (2 if keep is None else 5) * sum(widths.values())
    for block in row_blocks(n_items, max(1, bytes_per_row), max_memory):
        order = SortedRows(sets[block], n_sets)
        counts += order.counts
        wide: dict[str, Tensor] = {}
        for name in sorted(views):
            own = order.widen(views[name][block])
            totals[name].add(own, order)
            if products[0]:  # which need all views at once
                wide[name] = own
        cut = order.n_labelled
        for total, part in zip(products, (slice(cut), slice(cut, None)), strict=True):
            for first, second in total:
                product = wide[first][part].T @ wide[second][part]
                total[first, second] = total[first, second] + product
        if keep is not None:
            kept = {name: it[block] for name, it in rows.items()}
            bound = statistics.sample_bound()
            statistics.add_sample(_sample(kept, statistics.label_sets, sets[block], keep, bound))
    _add_sums(statistics, totals, products, counts)


def _number(sets: LabelSets, labels: Matrix, device: Tensor, max_memory: int) -> Tensor:
    torch = require("torch")
    blocks = row_blocks(labels.shape[0], 16 * labels.shape[1] + 64, max_memory)
    return torch.cat([number_tensor(sets, labels[block], device) for block in blocks])


def one_device(views: Mapping[str, Tensor]) -> Tensor:
    """Return the device of all views; refuse views that are no tensors or lie apart."""
    places = {name: it.device if is_tensor(it) else "host" for name, it in views.items()}
    if len(set(places.values())) > 1 or "host" in places.values():
        where = ", ".join(f"{name}: {place}" for name, place in places.items())
        raise ViewError(f"views must be tensors on one device, but they lie on ({where})")
    return next(iter(places.values()))


def _add_sums(
    statistics: "Statistics",
    totals: Mapping[str, ViewSums],
    products: Sequence[Mapping[Pair, Tensor]],
    counts: Floats,
) -> None:
    """Add what was summed on the device; the last count is that of items without labels."""
    names = tuple(sorted(totals))
    labelled, others = Moments(counts[:-1].sum(), counts=counts[:-1]), Moments(counts[-1])
    for name in names:
        labelled.uppers[name], others.uppers[name] = totals[name].uppers()
        by_set = totals[name].by_set()
        labelled.by_set[name], others.sums[name] = by_set[:-1], by_set[-1]
        labelled.sums[name] = by_set[:-1].sum(axis=0)
    for found, total in zip((labelled, others), products, strict=True):
        found.products = {pair: on_host(it) for pair, it in total.items()}
    if labelled.n_items:
        statistics.add_moments((*names, LABELS), labelled)
    if others.n_items and statistics.keep is not None:
        statistics.add_moments(names, others)


def _sample(
    rows: Mapping[str, Tensor], sets: LabelSets, numbers: Tensor, keep: Keep, bound: Ints
) -> RowSample:
    """Return the sample of a block; only the rows that are chosen come to the host."""
    torch = require("torch")
    packed = sets.bits
    # The last one is that of no labels at all, which is what -1 points to.
    packed = np.concatenate([packed, np.zeros((1, packed.shape[1]), dtype=np.uint8)])
    keys = to_tensor(hash_rows({}, packed, {}).view(np.int64), numbers.device)[numbers]
    for name in sorted(rows):
        salts = row_salts(name, rows[name].shape[1])
        keys += hash_tensor(rows[name].to(torch.float64), salts[1:])
        keys += int(salts[:1].view(np.int64)[0])
    found, counts, places, is_cut = least_keys(keys, bound, keep.sample_size)
    return RowSample(
        keep.sample_size,
        sets.n_labels,
        found,
        counts,
        {name: on_host(it[places]) for name, it in rows.items()},
        {name: np.ones(len(found), dtype=bool) for name in rows},
        packed[numbers[places].cpu().numpy()],
        found[-1] if is_cut else bound,
    )
