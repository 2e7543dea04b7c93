"""CodeIndex: exact search over additive codes."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Ints, check_positive_int, to_numpy
from acqh._core.metric import Metric, MetricMap
from acqh._core.runtime import Progress, suggest_keywords
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import flat
from acqh.index.base import BaseIndex
from acqh.index.checks import (
    as_codebooks,
    as_codes,
    as_queries,
    as_thread_count,
    frozen,
    read_array,
    require,
)
from acqh.index.exchange import from_faiss, to_faiss
from acqh.index.flat import (
    FLAT_MAX_ROWS,
    FLAT_MAX_SCORES,
    FlatSegment,
    flat_targets,
    planes_of,
    search_flat,
)
from acqh.index.ids import read_ids
from acqh.index.parts import PartReader, Parts
from acqh.index.rerank import candidate_count, places_of, rerank_hits
from acqh.index.search import (
    EXHAUSTIVE,
    InvertedLists,
    ResidualCodebooks,
    SearchResult,
    Target,
    as_stop_rule,
    search_inverted,
)
from acqh.index.snapshot import ALL_ROWS, NewIds, Snapshot, pack_bits

if TYPE_CHECKING:
    from acqh.index.inverted import InvertedSegment

# Up to this many scores NumPy is as fast as compiled code, selection of the best k included.
_QUICK_SCORES = 8192
# A filter that allows more than this share of the rows hardly slows a search down.
_MAX_COPIED_SHARE = 1 / 4
# Nanoseconds to copy the rows that a filter allows: per row of the segment, per allowed row.
_ROW_COST, _COPY_COST = 3, 150
# Nanoseconds per row of the segment that a query spends on rows which the filter rejects: with
# suffixes of three or more codewords, and with shorter ones, times the rows per row allowed.
_LONG_WASTE, _SHORT_WASTE, _MAX_WASTE = 30, 0.04, 10
# Bytes of codes in memory while `batches` reads.
_WINDOW_BYTES = 1 << 27


class CodeIndex(BaseIndex["FlatSegment | InvertedSegment"]):
    """Exact search over items stored as a few bytes each.

    An item's code has one codeword per codebook; the item's reconstruction is their sum. Its
    score for a query is the inner product with that sum, computed in float32 as the sum of one
    look-up table entry per codebook, first codebook first. A search returns the items of highest
    score, exactly; equal scores are in order of insertion.

    The index is an inverted multi-index: the first codewords of a code choose its inverted list.
    Lists are visited best first, and those whose norm bound proves that no item reaches the k-th
    best score are skipped. If many items share a code, it is stored and scored once. Up to 16,384
    items are stored flat and all scored by NumPy, without compilation; scores are the same to the
    bit.

    Searching is safe while another thread changes the index: a search uses the state at its start,
    and never waits.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        1 to 64 codebooks of 1 to 256 codewords; kept as float32.
    metric : MetricMap, optional
        For codes of vectors that it has mapped. Default: scores are inner products.

    Raises
    ------
    InvalidInputError
        Codebooks of the wrong shape, or with a value that is not finite in float32.

    Examples
    --------
    >>> codebooks = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 0.5]]])
    >>> index = CodeIndex(codebooks).add([[0, 0], [0, 1], [1, 1]], ids=["a", "b", "c"])
    >>> result = index.search([[1.0, 0.0]], k=2)
    >>> result.ids, result.scores
    (array([['b', 'a']], dtype=object), array([[1.5, 1. ]], dtype=float32))
    """

    _kind = "code-index"
    _segment_type = FlatSegment
    # Up to this many rows, a single query scores all codes, which takes as long for every query:
    # 0.3 ms for 100,000 codes of 8 bytes, where inverted lists take 0.2 to 2 ms.
    scan_rows = 0

    def __init__(self, codebooks: Any, metric: MetricMap | None = None) -> None:
        self._codebooks = as_codebooks(codebooks)
        self._metric = metric or MetricMap()
        super().__init__(len(self._codebooks))
        # Codewords last: a look-up table is filled along contiguous memory.
        self._codewords = frozen(self._codebooks.transpose(0, 2, 1))
        self._residuals = ResidualCodebooks.of(self._codebooks)

    def __repr__(self) -> str:
        m, n, dim = self._codebooks.shape
        size = f"{m} codebooks of {n} codewords, {self._metric.n_components(dim)} dimensions"
        return f"<CodeIndex: {len(self)} items, {size}>"

    @property
    def metric(self) -> Metric:
        """Metric of the search: "ip", "cosine" or "l2"."""
        return self._metric.metric

    @property
    def metric_map(self) -> MetricMap:
        """The map of vectors to those that the codebooks reconstruct."""
        return self._metric

    @property
    def codebooks(self) -> Floats:
        """The codebooks, (n_codebooks, codebook_size, n_components) float32, read-only."""
        return self._codebooks

    def add_parts(self, parts: Parts, *, progress: Progress | None = None) -> Self:
        """Add items in parts, with little memory in addition to the index.

        Equivalent to `add` with all parts concatenated. Reads every part twice: the first reading
        counts the items of each inverted list, the second fills the lists. Memory: the index, 5 or
        6 bytes per item with four codebooks; one part; and all ids unless they are consecutive
        numbers.

        Parameters
        ----------
        parts : iterable of (codes, ids or None), or callable
            Arguments of `add`, part by part. Must yield the same parts each time, so no iterator.
        progress : callable, optional
            Called after each part with the number of items done (those read once count half),
            their number (None in the first reading), and a text.

        Returns
        -------
        self

        Raises
        ------
        DuplicateIdError
            An id occurs twice or already exists; nothing was added.
        InvalidInputError
            Codes or ids of the wrong shape, type or range, or parts that differ between both
            readings; nothing was added.

        Examples
        --------
        >>> parts = [([[0], [2]], ["a", "b"]), ([[1]], ["c"])]
        >>> CodeIndex(np.eye(3)[np.newaxis]).add_parts(parts).ids
        array(['a', 'b', 'c'], dtype=object)
        """
        if isinstance(parts, Iterator):
            raise InvalidInputError(
                "parts is an iterator, which can be read only once; give a list or a function, or "
                "add the parts one by one"
            )
        with self._change:
            snapshot, new = self._snapshot, NewIds(self._snapshot)
            reader = PartReader(parts, self._check_codes, new.append_new, progress)
            small = reader.read_flat(FLAT_MAX_ROWS - len(snapshot))
            if small is None:
                from acqh.index.inverted import InvertedSegment

                n_codebooks, size, _ = self._codebooks.shape
                segment = InvertedSegment.of_blocks(reader, n_codebooks, size, self._residuals)
                self._snapshot = snapshot.with_rows(segment, new)
            elif new.n:
                self._snapshot = snapshot.with_rows(self._segment_of(small), new)
        return self

    @suggest_keywords
    def search(
        self,
        queries: Any,
        k: int,
        filter: Any = None,  # noqa: A002
        n_threads: int | None = None,
        *,
        budget: int | None = None,
        recall: float | None = None,
        rerank: Any = None,
        rerank_k: int | None = None,
    ) -> SearchResult:
        """Find the items of highest score.

        Parameters
        ----------
        queries : (n_queries, n_components) floats
            Converted to float32. For a torch tensor, or an array of CuPy or JAX, the result has
            arrays of the same library on the same device; the search runs on the CPU.
        k : int
            Number of items per query, at least 1.
        filter : callable, (n_items,) bool, or iterable of ids, optional
            Items that may be returned: a mask in the order of `ids`, a callable that gets the array
            of all ids and returns such a mask, or ids. Unknown ids are ignored.
        n_threads : int, optional
            Threads that share the queries. Default: one per core.
        budget : int, optional
            Scan at most this many codes per query, the most promising first. A query may get fewer
            than k items.
        recall : float, optional
            Stop when the expected recall of the k best reaches this value, above 0 and at most 1.
            The estimate uses the distribution of codewords.
        rerank : (n_items, n_components) numbers, or path of a .npy file, optional
            Full vectors of the items in the order of `ids`; a file is memory-mapped. The best
            `rerank_k` items by their codes are re-ranked by the metric of query and vector. Then
            ``exact`` is False and ``bound`` infinite. int8 vectors are those of
            `acqh.index.rerank.shrink_vectors`.
        rerank_k : int, default 200, or k if that is more
            Number of items to re-rank, at least k.

        Returns
        -------
        SearchResult
            Without `budget` and `recall` every result is exact. With them the search stops at the
            first limit. Then ``exact`` shows per query whether the result is still proven exact,
            and ``bound`` is an upper bound of the scores of missing items. Scores are inner
            products, cosine similarities or negative squared distances, by the metric.

        Raises
        ------
        InvalidInputError
            A query is not finite, has the wrong number of dimensions, or is so large that scores
            overflow. Or an argument is out of range: k, n_threads or budget below 1, recall not in
            (0, 1], rerank_k below k. Or the filter or the vectors do not fit the index.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> index = CodeIndex(rng.normal(size=(6, 256, 8)) / 2.0 ** np.arange(6)[:, None, None])
        >>> query, _ = rng.normal(size=(1, 8)), index.add(rng.integers(256, size=(5000, 6)))
        >>> result = index.search(query, k=3, budget=500)
        >>> bool(result.n_scanned[0] <= 500)
        True
        >>> bool(result.bound[0] >= index.search(query, k=3).scores[0, 2])
        True
        """
        stop = as_stop_rule(budget, recall)
        queries, from_numpy = to_numpy(queries)
        queries = as_queries(queries, self._metric.n_components(self._codebooks.shape[2]))
        mapped = self._metric.map_queries(queries)
        k = check_positive_int(k, "k")
        n_found = k if rerank is rerank_k is None else candidate_count(k, rerank, rerank_k)
        n_threads = as_thread_count(n_threads, len(queries))
        snapshot = self._snapshot
        masks = None if filter is None else snapshot.rows_allowed(filter)
        n_rows = int(snapshot.first_rows[-1])
        compiled = sys.modules.get("acqh.index.compiled.tables")
        max_scores = FLAT_MAX_SCORES if compiled is None else _QUICK_SCORES
        is_small = n_rows <= FLAT_MAX_ROWS and n_rows * len(queries) <= max_scores
        is_flat = all(isinstance(part.segment, FlatSegment) for part in snapshot.parts)
        is_scanned = compiled is not None and len(queries) == 1 and n_rows <= self.scan_rows
        if ((is_small and is_flat) or is_scanned) and stop == EXHAUSTIVE:
            tables = (compiled or flat).tables_of(self._codewords, mapped)
            top = search_flat(tables, flat_targets(snapshot, masks), n_found, compiled)
        else:
            top = search_inverted(
                self._codewords,
                self._residuals,
                _targets(snapshot, masks, len(queries)),
                mapped,
                n_found,
                len(snapshot),
                n_threads,
                stop,
            )
        hits = SearchResult._from_rows(snapshot.take_ids(top.rows), top)
        if rerank is not None:
            places = places_of(snapshot, top.rows)
            hits = rerank_hits(hits, places, len(snapshot), queries, k, rerank, self._metric)
        elif self.metric == "l2":
            scores, bound = (self._metric.to_scores(x, queries) for x in (hits.scores, hits.bound))
            hits = replace(hits, scores=scores, bound=bound)
        return hits._as_kind(from_numpy)

    def positions(self, ids: Any) -> Ints:
        """Return the positions of items in the order of `ids`, -1 for unknown ids.

        Parameters
        ----------
        ids : iterable of n whole numbers or of n str

        Returns
        -------
        (n,) int64

        Examples
        --------
        >>> index = CodeIndex(np.eye(3)[np.newaxis]).add([[2], [0], [1]], ids=["a", "b", "c"])
        >>> index.remove(["a"]).positions(["c", "a", "b"])
        array([ 1, -1,  0])
        """
        snapshot = self._snapshot
        return places_of(snapshot, snapshot.find(read_ids(ids)))

    def batches(self, size: int = 65_536) -> Iterator[tuple[Array, Array]]:
        """Yield ids and codes in order of insertion, in batches, from one state of the index.

        Keeps at most 128 MB of codes in memory, while `ids` and `codes` hold all items. Reads the
        row numbers of the index once per 128 MB.

        Parameters
        ----------
        size : int, default 65,536
            Items of a batch; some batches are smaller.

        Yields
        ------
        ids : (n,) int64, or object for texts
        codes : (n, n_codebooks) uint8

        Raises
        ------
        CorruptBundleError
            The file that the index is mapped from is damaged.

        Examples
        --------
        >>> index = CodeIndex(np.eye(3)[np.newaxis]).add([[2], [0], [1]], ids=["a", "b", "c"])
        >>> [(ids.tolist(), codes.tolist()) for ids, codes in index.batches(2)]
        [(['a', 'b'], [[2], [0]]), (['c'], [[1]])]
        """
        size = check_positive_int(size, "size")
        window = max(_WINDOW_BYTES // len(self._codebooks) // size, 1) * size
        for part in self._snapshot.parts:
            for first in range(0, part.segment.n_rows, window):
                end = min(first + window, part.segment.n_rows)
                codes = part.segment.codes(first, end)
                for start in range(first, end, size):
                    rows = np.arange(start, min(start + size, end))
                    rows = rows[part.is_live(rows)]
                    if rows.size:
                        yield part.ids.take(rows), codes[rows - first]

    def reconstruct(self, identifier: Any) -> Floats:
        """Return an item's reconstruction, the sum of its codewords: (n_components,) float32.

        With the metric "cosine", it approximates the item of unit length.

        Reads the row numbers of the item's segment, so its cost grows with the index.

        Raises
        ------
        UnknownIdError
            No item has this id.
        """
        part, row = self._locate(identifier)
        codewords = part.segment.codes(row, row + 1)[0]
        vector = self._codebooks[np.arange(len(codewords)), codewords].sum(axis=0)
        return np.asarray(self._metric.unmap_items(vector))

    def to_faiss(self) -> Any:
        """Return a ``faiss.IndexResidualQuantizer`` with the same scores.

        Its metric is the inner product, by look-up tables. Faiss numbers items from 0 in order of
        insertion: its item i has the id ``index.ids[i]``.

        Raises
        ------
        MissingExtraError
            Faiss is not installed.
        InvalidInputError
            The metric is "l2": the codebooks have one more dimension than queries.
        """
        if self.metric == "l2":
            raise InvalidInputError("Faiss has no additive codes like these of the metric l2")
        return to_faiss(self._codebooks, self.codes)

    @classmethod
    def from_faiss(cls, index: Any, ids: Any = None) -> Self:
        """Return an index with the codebooks and codes of a Faiss index of additive codes.

        Parameters
        ----------
        index : faiss.IndexResidualQuantizer
            Or another trained ``faiss.IndexAdditiveQuantizer``, with inner product as its metric.
        ids : iterable of whole numbers or of str, optional
            Ids of its items, which Faiss numbers from 0.

        Raises
        ------
        InvalidInputError
            Another kind of index, metric or code, or ids that do not fit it.
        MissingExtraError
            Faiss is not installed.
        """
        codebooks, codes = from_faiss(index)
        return cls(codebooks).add(codes, ids)

    @classmethod
    def from_shards(cls, shards: Sequence["CodeIndex"], *, check_ids: bool = True) -> Self:
        """Return one index over several shards without copying; items in the order of the shards.

        Parameters
        ----------
        shards : sequence of CodeIndex
            At least one, of the same codebooks; later changes to them have no effect.
        check_ids : bool, default True
            Reject an id that two shards have. Reads every id. Without the check a search may return
            an id twice.

        Raises
        ------
        InvalidInputError
            No shard, other codebooks than the first shard's, numbers in one and texts in another,
            or more than 4.29 billion items in all.
        DuplicateIdError
            Two shards have the same id.
        """
        if not shards:
            raise InvalidInputError("shards is empty; give at least one index")
        index = cls(shards[0].codebooks, shards[0].metric_map)
        for number, shard in enumerate(shards):
            is_same = np.array_equal(shard.codebooks, index.codebooks)
            if not is_same or shard.metric_map != index.metric_map:
                raise InvalidInputError(
                    f"shard {number} has other codebooks than shard 0; encode all shards with one "
                    "model"
                )
        index._snapshot = Snapshot.chain([shard._snapshot for shard in shards])
        if check_ids:
            index._snapshot.check_ids()
        return index

    def _check_codes(self, codes: Any) -> Array:
        m, n, _ = self._codebooks.shape
        return as_codes(codes, m, n)

    def _segment_of(self, codes: Array) -> "FlatSegment | InvertedSegment":
        if len(self._snapshot) + len(codes) <= FLAT_MAX_ROWS:
            return FlatSegment(planes_of(codes), self._codebooks.shape[1], self._residuals)
        from acqh.index.inverted import InvertedSegment

        return InvertedSegment.of(codes, self._codebooks.shape[1], self._residuals)

    def _settings(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, info = self._metric.to_state()
        return {"codebooks": self._codebooks, **arrays}, info

    @classmethod
    def _of_settings(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        try:
            index = cls(read_array(arrays, "codebooks", np.float32))
            index._metric = MetricMap.from_state(arrays, info, index.codebooks.shape[2])
            return index
        except InvalidInputError as error:
            raise CorruptBundleError(f"stored {error}") from error

    def _take_segment(
        self, segment: "FlatSegment | InvertedSegment"
    ) -> "FlatSegment | InvertedSegment":
        require(segment.shape == self._codebooks.shape[:2], "codebooks")
        return replace(segment, residuals=self._residuals)


def _targets(
    snapshot: "Snapshot[FlatSegment | InvertedSegment]",
    masks: Sequence[Bools] | None,
    n_queries: int,
) -> list[Target]:
    """Return the segments to search, the largest first: it raises thresholds soonest."""
    targets = []
    for number, part in enumerate(snapshot.parts):
        segment, allowed = part.segment.inverted, part.live
        if masks is not None:
            n_allowed = int(np.count_nonzero(masks[number]))
            if n_allowed == 0:
                continue
            if _pays_to_copy(segment.lists, n_allowed, n_queries):
                segment, allowed = segment.restrict(masks[number]), ALL_ROWS
            else:
                allowed = pack_bits(masks[number])
        targets.append(Target(segment.lists, int(snapshot.first_rows[number]), allowed))
    return sorted(targets, key=lambda target: -len(target.arrays.suffixes))


def _pays_to_copy(lists: InvertedLists, n_allowed: int, n_queries: int) -> bool:
    """Whether copying the allowed rows into a segment first saves more time than it costs."""
    n_rows, waste = lists.n_rows, float(_LONG_WASTE)
    if lists.suffixes.shape[1] <= 2:
        waste = min(_SHORT_WASTE * n_rows / n_allowed, _MAX_WASTE)
    gain, cost = n_queries * waste * n_rows, _ROW_COST * n_rows + _COPY_COST * n_allowed
    return n_allowed <= _MAX_COPIED_SHARE * n_rows and gain > cost
