"""Embeddings to codes, an index, and figures of what it finds: in memory, out of core, on Dask."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, check_positive_int
from acqh._core.runtime import Progress, RandomState, check_rng, default_threads, limit_threads
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, ViewError
from acqh.index import CodeIndex, SearchResult
from acqh.index.items.checks import check_bytes_per_item
from acqh.metrics.recall import shares_found
from acqh.quantize import AdditiveQuantizer, Drift
from acqh.quantize.drift import MIN_ADDED
from acqh.scale.compress.compressed import Compressed, kept_state
from acqh.scale.compress.report import RECALL_AT, CompressionReport, exact_best
from acqh.scale.vectors import cut_vectors, read_queries, vectors_of
from acqh.scale.workers import Cut, on_device

# Of the queries, one in this many is held out for the report, and not more than this many.
_HELD_OUT_PART = 5
_MAX_HELD_OUT = 500
# Items to find for a query; one may be the query itself.
_N_BEST = max(RECALL_AT) + 1


def compress(
    items: Any,
    queries: Any = None,
    bytes_per_item: int = 8,
    *,
    ids: Any = None,
    view: str | None = None,
    query_view: str | None = None,
    n_train: int = 65_536,
    chunk_size: int = 16_384,
    random_state: RandomState = 0,
    n_threads: int | None = None,
    device: str | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Compressed:
    """Store vectors in a few bytes each so that the queries that come still find them.

    Learns a quantizer from a sample of the items, under the metric of the queries where that finds
    more (`AdditiveQuantizer`), codes all items a chunk at a time, indexes the codes, and measures
    the recall of queries held out against exact search. Scores are inner products: where items are
    to be found by cosine, give vectors of unit length.

    Parameters
    ----------
    items : (n_items, n_components) array-like, path-like, Pieces, or MultiViewData
        A path is one that `acqh.data.list_pieces` takes: ``.npy``, ``.npz``, Parquet, Arrow,
        ``.fvecs``, ``.fbin``, a Faiss index and others. They are read twice, in chunks.
    queries : (n_queries, n_components) array-like, or path-like, optional
        A sample of what items will be searched for, such as text vectors where items are images.
        Without them the quantizer lowers the plain error, and the report's recall is that of new
        vectors like the items: some items ask, each left out of its own answer.
    bytes_per_item : int, default 8
        From 1 to 16.
    ids : (n_items,), optional
        Of the items of an array; files have their own, or row numbers.
    view, query_view : str, optional
        Which view, column or array to take of a file that has several.
    n_train : int, default 65,536
        Items to learn from, at most; drawn at random.
    chunk_size : int, default 16,384
        Items in memory at a time.
    random_state : int, Generator or None, default 0
    n_threads : int, optional
        None takes every core. The result does not depend on it.
    device : str, optional
        Of torch, such as ``"cuda"``, to code items on; not with a client.
    client : distributed.Client, optional
        Whose workers read files and code items.
    progress : callable, optional
        Called with the number of items done, their number, and a text.

    Returns
    -------
    Compressed
        With `codes`, `index`, `quantizer` and `report`.

    Raises
    ------
    InvalidInputError
        `bytes_per_item` out of range, or queries of another width than items.
    ViewError
        Items or queries are no matrix of finite numbers, or it is not clear which view to take.
    CorruptBundleError
        A file is damaged.
    DeviceError
        The device is not available.

    Examples
    --------
    >>> import acqh
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(2000, 16)).astype(np.float32)
    >>> queries = rng.normal(size=(100, 16)) * np.linspace(2, 0.1, 16)
    >>> small = acqh.compress(items, queries=queries, bytes_per_item=4)
    >>> small.codes.shape, small.codes.dtype
    ((2000, 4), dtype('uint8'))
    >>> small.search(queries, k=3).ids.shape
    (100, 3)
    >>> sorted(small.report.recall)
    [1, 10, 100]
    """
    n_bytes = check_bytes_per_item(bytes_per_item)
    for value, name in ((n_train, "n_train"), (chunk_size, "chunk_size")):
        check_positive_int(value, name)
    rng = check_rng(random_state)
    how = on_device(AdditiveQuantizer.encode, device, client)
    seconds: dict[str, float] = {}
    source = _Source.of(cut_vectors(items, view, ids, chunk_size, client, progress), view)
    with _timed(seconds, "read"):
        chosen = _choose(source.n_items, n_train, rng)
        sample, others = source.take(chosen, _choose_others(chosen, source.n_items))
        split = _split_queries(sample, chosen, queries, query_view, rng)
    # Where all items are learnt from, no others are to be coded as well as these.
    ridge = 0.0 if len(sample) == source.n_items else None
    quantizer = AdditiveQuantizer(n_bytes, ridge=ridge, random_state=rng)
    with _timed(seconds, "fit"), limit_threads(n_threads or default_threads()):
        quantizer.fit(sample, queries=split.fitted)
    with limit_threads(n_threads or default_threads()):
        index, best, error = _code(source, quantizer, split.held_out, how, seconds)
    with _timed(seconds, "drift"), limit_threads(n_threads or default_threads()):
        expected = _expected_error(quantizer, sample, others)
    with _timed(seconds, "evaluate"):
        found = index.search(split.held_out, best.ids.shape[1], n_threads=n_threads)
        true_ids, found_ids = index.ids[best.ids], found.ids
        if split.own is not None:
            own = index.ids[split.own]
            true_ids, found_ids = (_without(each, own) for each in (true_ids, found_ids))
        recall = shares_found(true_ids, found_ids, RECALL_AT)
    kept = sum(array.nbytes for array in kept_state(quantizer)[1].values())
    n_kept = index.memory_bytes + index.codebooks.nbytes + kept
    report = CompressionReport(
        n_items=source.n_items,
        n_components=sample.shape[1],
        bytes_per_item=n_bytes,
        index_bytes_per_item=index.bytes_per_item,
        n_bytes=n_kept,
        compression=4 * sample.shape[1] * source.n_items / n_kept,
        n_trained=len(sample),
        n_queries=split.n_given,
        n_held_out=len(split.held_out),
        shrinkage=quantizer.shrinkage_,
        recall=recall,
        error=error / _spread(sample),
        seconds=seconds,
    )
    return Compressed(index, quantizer, report, Drift(expected))


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - started


class _Split(NamedTuple):
    """Queries to learn from, those held out for the report, and how many were given."""

    fitted: Floats | None
    held_out: Floats
    n_given: int
    own: Ints | None = None  # rows of items that stand in for queries


class _Coded(NamedTuple):
    """What is kept of a chunk of items."""

    codes: Array
    ids: Array
    best: SearchResult  # of the held-out queries, by row
    error: float


def _choose(n_items: int, n_train: int, rng: np.random.Generator) -> Ints:
    """Return the rows of the items to learn from, in order."""
    if n_items == 0:
        raise ViewError("there are no items; give at least one")
    if n_items <= n_train:
        return np.arange(n_items)
    return np.sort(rng.choice(n_items, n_train, replace=False))


def _choose_others(chosen: Ints, n_items: int) -> Ints:
    """Return rows of some items that are not in the sample, in order; takes no memory per item."""
    n_others = n_items - len(chosen)
    drawn = np.random.default_rng(0).choice(n_others, min(n_others, _MAX_HELD_OUT), replace=False)
    # Number n of the rows that are not chosen is n plus the chosen rows before it.
    drawn.sort()
    return np.asarray(drawn + np.searchsorted(chosen - np.arange(len(chosen)), drawn, "right"))


def _expected_error(quantizer: AdditiveQuantizer, sample: Floats, others: Floats) -> float | None:
    """Return with which relative error items that come later will be coded, if they are alike."""
    if len(others) < MIN_ADDED:
        return quantizer.held_out_error(sample)
    decoded = quantizer.decode(quantizer.encode(others))
    return Drift(None).after(*map(quantizer.measured, (others, decoded))).relative_error


def _split_queries(
    sample: Floats, rows: Ints, queries: Any, view: str | None, rng: np.random.Generator
) -> _Split:
    if queries is None:
        chosen = rng.permutation(len(sample))[:_MAX_HELD_OUT]
        return _Split(None, sample[chosen], 0, rows[chosen])
    given = read_queries(queries, view)
    if len(given) == 0 or given.shape[1] != sample.shape[1]:
        raise InvalidInputError(
            f"queries have the shape {given.shape}, items have {sample.shape[1]} components; both "
            "must come from one space, and there must be some"
        )
    order = rng.permutation(len(given))
    n_held_out = min(max(len(given) // _HELD_OUT_PART, 1), _MAX_HELD_OUT)
    fitted = given[order[n_held_out:]]
    return _Split(fitted if len(fitted) else None, given[order[:n_held_out]], len(given))


@dataclass(frozen=True)
class _Source:
    """The items in pieces, and the view that is wanted of them."""

    cut: Cut
    starts: list[int]  # the first row of each piece, and the end of the last
    view: str | None

    @classmethod
    def of(cls, cut: Cut, view: str | None) -> Self:
        """Look at the pieces."""
        return cls(cut, np.cumsum([0, *map(len, cut.pieces)]).tolist(), view)

    @property
    def n_items(self) -> int:
        """How many there are."""
        return self.starts[-1]

    def each(self, work: Callable[..., Any], told: Iterable[Any], what: str) -> Iterator[Any]:
        """Yield `work(vectors, ids, told)` for each piece, in order."""
        self.cut.n_done = 0
        tasks = zip(self.cut.pieces, told, strict=True)
        return self.cut.run(partial(_on_vectors, work, self.view), what, tasks)

    def take(self, chosen: Ints, others: Ints) -> tuple[Floats, Floats]:
        """Return vectors by two lists of row numbers in rising order, of which none is in both."""
        rows = np.union1d(chosen, others)
        cuts = np.searchsorted(rows, self.starts)
        wanted = (
            rows[cut:end] - start
            for start, (cut, end) in zip(self.starts, pairwise(cuts), strict=False)
        )
        found = np.concatenate([*self.each(_take, wanted, "items read")])
        is_chosen = np.isin(rows, chosen)
        return found[is_chosen], found[~is_chosen]


def _on_vectors(work: Callable[..., Any], view: str | None, items: MultiViewData, told: Any) -> Any:
    return work(vectors_of(items, view, "items"), items.ids, told)


def _take(vectors: Floats, _: Array, rows: Ints) -> Floats:
    return np.ascontiguousarray(vectors[rows])


def _code(
    source: _Source,
    quantizer: AdditiveQuantizer,
    queries: Floats,
    how: dict[str, str],
    seconds: dict[str, float],
) -> tuple[CodeIndex, SearchResult, float]:
    """Return an index of all items, the exact best of the queries, and the mean squared error."""
    # All items were learnt from, or else their codes are not known yet.
    learnt = quantizer.training_codes_
    is_known = len(learnt) == source.n_items
    told = (
        (start, learnt[start:stop] if is_known else None) for start, stop in pairwise(source.starts)
    )
    codes, ids, error = [], [], 0.0
    best: SearchResult | None = None
    with _timed(seconds, "encode"):
        work = partial(_code_piece, quantizer, queries, how)
        for part in source.each(work, told, "items coded"):
            codes.append(part.codes)
            ids.append(part.ids)
            error += part.error
            # Only the best so far are kept: what is in memory grows by codes and ids alone.
            known = [] if best is None else [best]
            best = SearchResult.merge([*known, part.best], _N_BEST)
    if best is None:
        raise ViewError("there are no items any more, but some when they were counted")
    with _timed(seconds, "index"):
        index = CodeIndex(quantizer.codebooks_).add(np.concatenate(codes), np.concatenate(ids))
    return index, best, error / source.n_items


def _code_piece(
    quantizer: AdditiveQuantizer,
    queries: Floats,
    how: dict[str, str],
    vectors: Floats,
    ids: Array,
    told: tuple[int, Ints | None],
) -> _Coded:
    """Code some vectors, and find the exact best of the queries among them."""
    first_row, learnt = told
    codes = quantizer.encode(vectors, start=learnt, **how)
    errors = np.square(vectors - quantizer.decode(codes), dtype=np.float64)
    best = exact_best(queries, vectors, first_row, _N_BEST)
    return _Coded(codes, ids, best, float(errors.sum()))


def _without(ids: Array, own: Array) -> Array:
    """Return answers without the items that were asked with; without the last where they miss it.

    `ids`: (n_queries, k). `own`: (n_queries,). Returns (n_queries, k - 1).
    """
    others = ids != own[:, np.newaxis]
    others[others.all(axis=1), -1] = False
    return np.asarray(ids[others].reshape(len(ids), -1))


def _spread(sample: Floats) -> float:
    """Return the mean squared distance from the mean; 1 where all are equal."""
    centred = sample - sample.mean(axis=0, dtype=np.float64)
    return float(np.square(centred).sum(axis=1).mean()) or 1.0
