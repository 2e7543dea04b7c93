"""Statistics of tensors: blocks of rows into sums, where the rows lie."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, Matrix
from acqh._core.optional import require
from acqh._core.tensors import Tensor, is_tensor, to_tensor
from acqh.errors import ViewError
from acqh.stats._label_sets import LabelSets
from acqh.stats._moments import Keep, Moments
from acqh.stats._sample import RowSample, hash_rows, row_salts
from acqh.stats._torch import (
    SortedRows,
    cross_of,
    gram_of,
    hash_tensor,
    least_keys,
    number_tensor,
    rows_of,
)

if TYPE_CHECKING:
    from acqh.stats._statistics import Statistics


def add_tensors(
    statistics: "Statistics",
    views: Mapping[str, Tensor],
    labels: Matrix,
    rows: Mapping[str, Tensor],
    max_memory: int,
) -> None:
    """Add items to sums in place; see `Statistics.update`, which checks widths and labels.

    Raises
    ------
    ViewError
        Views that are not all tensors on one device.
    """
    device = one_device({**rows, **views})
    widths = {name: matrix.shape[1] for name, matrix in views.items()}
    n_items = len(next(iter(views.values())))
    for block in rows_of(n_items, widths, statistics.keep is not None, max_memory):
        sets = number_tensor(statistics.label_sets, labels[block], device)
        statistics.grow()
        sums = SortedRows(sets, len(statistics.counts))
        _add_sums(statistics, {name: it[block] for name, it in views.items()}, sums)
        if statistics.keep is not None:
            kept = {name: it[block] for name, it in rows.items()}
            bound = statistics.sample_bound()
            found = _sample(kept, statistics.label_sets, sets, statistics.keep, bound)
            statistics.add_sample(found)


def one_device(views: Mapping[str, Tensor]) -> Tensor:
    """Return the device of all views; refuse views that are no tensors or lie apart."""
    places = {name: it.device if is_tensor(it) else "host" for name, it in views.items()}
    if len(set(places.values())) > 1 or "host" in places.values():
        where = ", ".join(f"{name}: {place}" for name, place in places.items())
        raise ViewError(f"views must be tensors on one device, but they lie on ({where})")
    return next(iter(places.values()))


def _add_sums(statistics: "Statistics", views: Mapping[str, Tensor], sums: SortedRows) -> None:
    keep, n_labelled = statistics.keep, sums.n_labelled
    counts = sums.counts.cpu().numpy().astype(np.float64)
    statistics.counts = statistics.counts + counts[:-1]
    everyone: dict[str, Floats] = {}
    uppers: dict[str, Floats] = {}
    # Cross products need all views at once; without them one copy at a time is enough.
    sorted_rows: dict[str, Tensor] = {}
    for name in sorted(views):
        rows = sums.widen(views[name])
        by_set = sums.sum(rows)
        view = statistics.views[name]
        upper = gram_of(rows[:n_labelled])
        view.upper += upper
        view.sums += by_set[:-1]
        view.counts += counts[:-1]
        if keep is not None:
            everyone[name] = by_set.sum(axis=0)
            uppers[name] = upper + gram_of(rows[n_labelled:])
            sorted_rows[name] = rows
    if keep is None:
        return
    pattern = tuple(sorted_rows)
    products = {
        (first, second): cross_of(sorted_rows[first], sorted_rows[second])
        for first in pattern
        for second in pattern
        if first < second and keep.wants((first, second))
    }
    found = Moments(float(counts.sum()), everyone, uppers, products)
    before = statistics.patterns.get(pattern, Moments.of_nothing())
    statistics.patterns[pattern] = before.plus(found)


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
        {name: _to_host(it[places]) for name, it in rows.items()},
        {name: np.ones(len(found), dtype=bool) for name in rows},
        packed[numbers[places].cpu().numpy()],
        found[-1] if is_cut else bound,
    )


def _to_host(rows: Tensor) -> Array:
    torch = require("torch")
    return np.asarray((rows.float() if rows.dtype == torch.bfloat16 else rows).cpu().numpy())
