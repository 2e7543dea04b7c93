"""SearchResult: the best items of each query."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, FromNumpy, Ints, to_numpy
from acqh._core.imports import require
from acqh.index.search import TopRows


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best items of each query, best first.

    Parameters
    ----------
    ids : (n_queries, k) int64, or object for texts
        Ids of the items; padded with -1, or None for texts, if there are fewer than k items.
    scores : (n_queries, k) float32
        In falling order; padded with minus infinity.
    counts : (n_queries,) int64
        Number of items of each query.
    n_scored : (n_queries,) int64
        Number of codes scored in full; a code that several items share counts once.
    n_scanned : (n_queries,) int64, optional
        Number of codes scanned: those scored in full, and those pruned after some of their
        codewords. Codes pruned with their whole inverted list do not count. Default: `n_scored`.
    exact : (n_queries,) bool, optional
        Whether the result is proven exact. Default: all are.
    bound : (n_queries,) float32, optional
        Upper bound of the scores of items missing from the result. Default: the last score, or
        minus infinity if there are fewer than k items, as for every exact result.

    Examples
    --------
    >>> import acqh
    >>> index = acqh.HammingIndex(8).add([[7], [9]], ids=["a", "b"])
    >>> result = index.search([[7]], k=2)
    >>> result.ids.tolist(), result.scores.tolist(), result.counts.tolist()
    ([['a', 'b']], [[8.0, 2.0]], [2])
    """

    ids: Array
    scores: Floats
    counts: Ints
    n_scored: Ints
    n_scanned: Ints = None  # type: ignore[assignment]
    exact: Bools = None  # type: ignore[assignment]
    bound: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        n_queries, k = self.scores.shape
        values = {
            "n_scanned": self.n_scored,
            "exact": np.ones(n_queries, dtype=bool),
            "bound": self.scores[:, -1] if k else np.full(n_queries, -np.inf, dtype=np.float32),
        }
        for name, value in values.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _as_kind(self, from_numpy: FromNumpy | None) -> Self:
        """Return the result with arrays of another library; text ids stay as they are."""
        if from_numpy is None:
            return self
        values = (getattr(self, field.name) for field in fields(self))
        return type(self)(*(v if v.dtype == object else from_numpy(v) for v in values))

    @classmethod
    def _from_rows(cls, ids: Array, top: TopRows) -> Self:
        """Return the result of the best rows, with their ids."""
        last = top.scores[:, -1]
        exact = (top.ceilings < last) | (top.ceilings == -np.inf)
        bound = np.maximum(top.ceilings, last)
        n_scanned, n_scored = top.tallies.T
        return cls(ids, top.scores, top.counts, n_scored, n_scanned, exact, bound)

    @classmethod
    def merge(cls, results: Sequence["SearchResult"], k: int) -> "SearchResult":
        """Merge the results of several indexes for the same queries into the k best.

        Equal scores stay in the order of the results, as if all items were in one index.

        Parameters
        ----------
        results : sequence of SearchResult
            At least one; of indexes with comparable scores, such as shards of one model.
        k : int

        Returns
        -------
        SearchResult
            Its ``n_scored`` and ``n_scanned`` are the sums over all.

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
        # An item missing from a shard's result does not matter if it scores below the last hit.
        is_exact = [result.exact | (result.bound < last) for result in results]
        return cls(
            np.take_along_axis(ids, best, axis=1),
            scores,
            np.minimum(np.sum([result.counts for result in results], axis=0), k),
            np.sum([result.n_scored for result in results], axis=0),
            np.sum([result.n_scanned for result in results], axis=0),
            np.all(is_exact, axis=0),
            np.max([last, *(np.where(r.exact, last, r.bound) for r in results)], axis=0),
        )

    def to_pandas(self) -> Any:
        """Return one row per hit, as a ``pandas.DataFrame``.

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
        ...     n_scored=np.array([3, 3]),
        ... )
        >>> result.to_pandas()
           query  rank  id  score
        0      0     1   7   0.90
        1      0     2   3   0.50
        2      1     1   5   0.25
        """
        return require("pandas").DataFrame(self._columns())

    def to_arrow(self) -> Any:
        """Return one row per hit, as a ``pyarrow.Table`` with the columns of `to_pandas`.

        Raises
        ------
        MissingExtraError
            pyarrow is not installed.
        """
        return require("pyarrow").table(self._columns())

    def _columns(self) -> dict[str, Array]:
        ids, scores, counts = (to_numpy(x)[0] for x in (self.ids, self.scores, self.counts))
        listed = np.arange(ids.shape[1]) < counts[:, np.newaxis]
        queries, places = np.nonzero(listed)
        return {"query": queries, "rank": places + 1, "id": ids[listed], "score": scores[listed]}
