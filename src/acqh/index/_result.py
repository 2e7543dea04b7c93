"""What a search returns."""

from dataclasses import dataclass

from acqh._core.arrays import Array, Floats, Ints


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
