"""How well compressed items are found: recall against exact search."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Floats
from acqh.errors import CorruptBundleError
from acqh.index import SearchResult
from acqh.index.search.flat import best_rows

# Lengths of answers that a report speaks of.
RECALL_AT = (1, 10, 100)
# Words of a codebook.
N_WORDS = 256


@dataclass(frozen=True)
class CompressionReport:
    """What compressing has cost and kept.

    Parameters
    ----------
    n_items, n_components : int
    bytes_per_item : int
        Of a code.
    index_bytes_per_item : float
        Of codes and row numbers in the index, without ids.
    n_bytes : int
        Of all that is kept: codes, row numbers, ids, codebooks and the metric of the queries.
    compression : float
        Bytes of all vectors as float32 over `n_bytes`; below 1 where the vectors take less.
    n_trained : int
        Items that the codebooks were learnt from.
    n_queries, n_held_out : int
        Queries that were given, and those of them that recall was measured with; these were not
        used otherwise. Without queries, items stand in for new vectors: each is left out of its
        own answer.
    shrinkage : float
        How far the metric of the queries was drawn towards the plain one; 1 is the plain one.
    recall : mapping of int to float
        By k: the share of the exact best k items that are among the k found, over the queries held
        out. With fewer items than k, all of them are looked for.
    error : float
        Squared distance of items from what their codes stand for, relative to their spread.
    seconds : mapping of str to float
        By step.

    Examples
    --------
    >>> import acqh
    >>> import numpy as np
    >>> items = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
    >>> report = acqh.compress(items, bytes_per_item=2).report
    >>> report.n_items, report.bytes_per_item, sorted(report.recall)
    (2000, 2, [1, 10, 100])
    """

    n_items: int
    n_components: int
    bytes_per_item: int
    index_bytes_per_item: float
    n_bytes: int
    compression: float
    n_trained: int
    n_queries: int
    n_held_out: int
    shrinkage: float
    recall: Mapping[int, float]
    error: float
    seconds: Mapping[str, float]

    @property
    def advice(self) -> str:
        """What to do instead where all that is kept is larger than the vectors; else empty."""
        if self.compression >= 1:
            return ""
        n_words, learnt = self.bytes_per_item * N_WORDS, ""
        if self.n_items <= n_words:
            learnt = (
                f": {self.n_items:,} items were learnt by heart, in {n_words:,} words, and recall "
                "says nothing of items to come"
            )
        return (
            f"codes and codebooks are {1 / self.compression:.3g} times larger than the vectors"
            f"{learnt}; give fewer bytes per item, or keep the vectors as they are"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it; `recall` has keys such as ``"10"``."""
        values = asdict(self)
        values["recall"] = {str(k): value for k, value in self.recall.items()}
        return values

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Make a report of what `to_dict` gave; raise CorruptBundleError."""
        try:
            recall = {int(k): float(value) for k, value in values["recall"].items()}
            return cls(**{**values, "recall": recall})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"what is stored is not a report: {error}") from error

    def __str__(self) -> str:
        recall = ", ".join(f"@{k} {value:.3f}" for k, value in self.recall.items())
        like = (
            f"{self.n_held_out} held-out queries"
            if self.n_queries
            else f"{self.n_held_out} items, each left out of its own answer"
        )
        metric = (
            "plain metric"
            if self.shrinkage == 1
            else f"metric of the queries, shrunk by {self.shrinkage:g}"
        )
        return (
            f"{self.n_items:,} items of {self.n_components} components in {self.bytes_per_item} "
            f"bytes each; {self.n_bytes:,} bytes in all, {self.compression:.3g} times smaller than "
            f"float32; recall {recall} with {like}; {metric}; error {self.error:.3f}; "
            f"{sum(self.seconds.values()):.1f} s" + (f"; {self.advice}" if self.advice else "")
        )


def exact_best(queries: Floats, vectors: Floats, first_row: int, k: int) -> SearchResult:
    """Return the best items of each query by inner product, by row; ties go to the first row."""
    scores = queries @ vectors.T
    rows = np.stack([best_rows(each, k) for each in scores])
    counts, scored = (np.full(len(queries), n) for n in (rows.shape[1], len(vectors)))
    return SearchResult(rows + first_row, np.take_along_axis(scores, rows, axis=1), counts, scored)
