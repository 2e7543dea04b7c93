"""What a search returns."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, GiveBack, Ints, take_in
from acqh._core.imports import require
from acqh.index.search import TopRows


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best items of each query, best first.

    Parameters
    ----------
    ids : (n_queries, k) int64, or object for texts
        The ids the items were added under; -1 or None where there are fewer than k items.
    scores : (n_queries, k) float32
        Falling; minus infinity where there are fewer than k items.
    counts : (n_queries,) int64
        How many items were found, from the left.
    scored : (n_queries,) int64
        How many codes the search had to score; where items share codes, each code counts once.
    visited : (n_queries,) int64, optional
        How many codes the search visited: those scored, and those dropped after some of their
        codewords. Codes skipped by the codewords of their inverted list, the first two or three,
        do not count. If not given, those scored.
    exact : (n_queries,) bool, optional
        Whether the answer is proven: no other item belongs in it. If not given, all are.
    bound : (n_queries,) float32, optional
        No item that is missing from the answer scores more. If not given, the last score, or minus
        infinity where there are fewer than k items: what it is for every proven answer.

    Examples
    --------
    >>> import acqh
    >>> index = acqh.HammingIndex(8).add([[7], [9]], ids=["a", "b"])
    >>> found = index.search([[7]], k=2)
    >>> found.ids.tolist(), found.scores.tolist(), found.counts.tolist()
    ([['a', 'b']], [[8.0, 2.0]], [2])
    """

    ids: Array
    scores: Floats
    counts: Ints
    scored: Ints
    visited: Ints = None  # type: ignore[assignment]
    exact: Bools = None  # type: ignore[assignment]
    bound: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        n_queries, k = self.scores.shape
        values = {
            "visited": self.scored,
            "exact": np.ones(n_queries, dtype=bool),
            "bound": self.scores[:, -1] if k else np.full(n_queries, -np.inf, dtype=np.float32),
        }
        for name, value in values.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def as_kind(self, give_back: GiveBack | None) -> Self:
        """Return the result with arrays of another library; text ids stay as they are."""
        if give_back is None:
            return self
        values = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(v if v.dtype == object else give_back(v) for v in values))

    @classmethod
    def of(cls, ids: Array, top: TopRows) -> Self:
        """Make a result of the best rows, with their ids, and what is known of the others."""
        last = top.scores[:, -1]
        exact = (top.ceilings < last) | (top.ceilings == -np.inf)
        bound = np.maximum(top.ceilings, last)
        visited, scored = top.tallies.T
        return cls(ids, top.scores, top.counts, scored, visited, exact, bound)

    @classmethod
    def merge(cls, results: Sequence["SearchResult"], k: int) -> "SearchResult":
        """Return the k best of what several indexes results for the same queries.

        Equal scores stay in the order of the results, as if all items were in one index.

        Parameters
        ----------
        results : sequence of SearchResult
            At least one; of indexes whose scores can be compared, such as shards of one model.
        k : int

        Returns
        -------
        SearchResult
            Its ``scored`` and ``visited`` are the sums over all.

        Examples
        --------
        >>> one = SearchResult(np.array([[7, 3]]), np.array([[0.9, 0.5]]), np.array([2]),
        ...                    np.array([2]))
        >>> other = SearchResult(np.array([[4, 8]]), np.array([[0.7, 0.5]]), np.array([2]),
        ...                      np.array([2]))
        >>> SearchResult.merge([one, other], 3).ids.tolist()
        [[7, 4, 3]]
        """
        scores = np.concatenate([result.scores for result in results], axis=1)
        ids = np.concatenate([result.ids for result in results], axis=1)
        # Padding is minus infinity, and comes last.
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, best, axis=1)
        last = scores[:, -1]
        # What a shard left out does not matter where it scores less than what others results.
        settled = [result.exact | (result.bound < last) for result in results]
        return cls(
            np.take_along_axis(ids, best, axis=1),
            scores,
            np.minimum(np.sum([result.counts for result in results], axis=0), k),
            np.sum([result.scored for result in results], axis=0),
            np.sum([result.visited for result in results], axis=0),
            np.all(settled, axis=0),
            np.max([last, *(np.where(r.exact, last, r.bound) for r in results)], axis=0),
        )

    def to_pandas(self) -> Any:
        """Return one row per item found, as a ``pandas.DataFrame``.

        Returns
        -------
        DataFrame
            Columns ``query`` (row of the queries), ``rank`` (from 1), ``id`` and ``score``.

        Raises
        ------
        MissingExtraError
            pandas is not installed.

        Examples
        --------
        >>> result = SearchResult(
        ...     np.array([[7, 3], [5, -1]]),
        ...     np.array([[0.9, 0.5], [0.25, -np.inf]], dtype=np.float32),
        ...     counts=np.array([2, 1]),
        ...     scored=np.array([3, 3]),
        ... )
        >>> result.to_pandas()
           query  rank  id  score
        0      0     1   7   0.90
        1      0     2   3   0.50
        2      1     1   5   0.25
        """
        return require("pandas").DataFrame(self._columns())

    def to_arrow(self) -> Any:
        """Return one row per item found, as a ``pyarrow.Table`` with the columns of `to_pandas`.

        Raises
        ------
        MissingExtraError
            pyarrow is not installed.
        """
        return require("pyarrow").table(self._columns())

    def _columns(self) -> dict[str, Array]:
        ids, scores, counts = (take_in(x)[0] for x in (self.ids, self.scores, self.counts))
        listed = np.arange(ids.shape[1]) < counts[:, np.newaxis]
        queries, places = np.nonzero(listed)
        return {"query": queries, "rank": places + 1, "id": ids[listed], "score": scores[listed]}
