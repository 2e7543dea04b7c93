"""What a search returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, Ints
from acqh._core.optional import require


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
    """

    ids: Array
    scores: Floats
    counts: Ints
    scored: Ints

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
        listed = np.arange(self.ids.shape[1]) < self.counts[:, np.newaxis]
        queries, places = np.nonzero(listed)
        return {
            "query": queries,
            "rank": places + 1,
            "id": self.ids[listed],
            "score": self.scores[listed],
        }
