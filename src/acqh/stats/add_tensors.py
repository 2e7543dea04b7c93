"""Statistics of tensors: blocks of rows into sums, where the rows lie."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix
from acqh._core.device import Tensor, is_tensor, row_blocks, to_tensor
from acqh._core.imports import require
from acqh.errors import ViewError
from acqh.stats.label_sets import LabelSets
from acqh.stats.moments import Keep, Moments, Pair
from acqh.stats.on_device import (
    SortedRows,
    ViewSums,
    hash_tensor,
    least_keys,
    number_tensor,
    on_host,
)
from acqh.stats.sample import RowSample, hash_rows, row_salts

if TYPE_CHECKING:
    from acqh.stats.sums import Statistics


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
    products = dict.fromkeys([] if keep is None else keep.pairs_of(views), 0.0)
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
            if products:  # which need all views at once
                wide[name] = own
        for first, second in products:
            products[first, second] = products[first, second] + wide[first].T @ wide[second]
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
    products: Mapping[Pair, Tensor],
    counts: Floats,
) -> None:
    """Add what was summed on the device; the last count is that of items without labels."""
    statistics.counts = statistics.counts + counts[:-1]
    everyone: dict[str, Floats] = {}
    uppers: dict[str, Floats] = {}
    for name in sorted(totals):
        labelled, others = totals[name].uppers()
        by_set = totals[name].by_set()
        view = statistics.views[name]
        view.upper += labelled
        view.sums += by_set[:-1]
        view.counts += counts[:-1]
        everyone[name] = by_set.sum(axis=0)
        uppers[name] = labelled + others
    if statistics.keep is None:
        return
    found = {pair: on_host(it) for pair, it in products.items()}
    statistics.add_moments(Moments(float(counts.sum()), everyone, uppers, found))


def _sample(
    rows: Mapping[str, Tensor], sets: LabelSets, numbers: Tensor, keep: Keep, bound: Ints
) -> RowSample:
    """Return the sample of a block; only the rows that are chosen come to the host."""
    torch = require("torch")
    packed = sets.packed()
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
