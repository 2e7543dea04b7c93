"""The result of `compress`: an index, a quantizer for further items, and a report."""

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, as_rows, to_numpy
from acqh._core.metric import Metric
from acqh._core.runtime import Progress
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex, SearchResult
from acqh.quantize import AdditiveQuantizer, Drift
from acqh.scale.chunks import read_vectors, vector_source

# Values of k of a report; numbers of candidates that are re-ranked, and k of their recall.
RECALL_AT: tuple[int, ...] = (1, 10, 100)
RERANKED_AT, RERANKED_K = (100, 500), 10
# Below this recall@10 the report has advice.
_LOW_RECALL = 0.9
_BY_NUMBER = ("recall", "reranked_recall")
# Codebook size.
N_WORDS = 256


@dataclass(frozen=True)
class CompressionReport:
    """Size, recall and time of a compression.

    Parameters
    ----------
    n_items, n_components : int
    bytes_per_item : int
        Bytes of a code.
    metric : str
        What queries and items are compared by: "ip", "cosine" or "l2".
    index_bytes_per_item : float
        Bytes of codes and row numbers in the index, without ids.
    n_bytes : int
        Total size: codes, row numbers, ids, codebooks and the metric of the queries.
    compression : float
        Bytes of all vectors as float32 over `n_bytes`; below 1 if the vectors are smaller.
    n_trained : int
        Number of training items.
    n_queries, n_held_out : int
        Number of queries, and of those held out to measure the recall. Without queries, items are
        the held-out queries, each of them excluded from its own result.
    shrinkage : float
        Shrinkage of the query-aware metric towards the Euclidean metric; 1: Euclidean.
    recall : mapping of int to float
        Recall@k of the held-out queries by k. With n < k items, recall@n.
    reranked_recall : mapping of int to float
        Recall@10 of the same queries if the best 100 or 500 items by their codes are re-ranked by
        their vectors, by the number of items.
    error : float
        Mean squared error of the reconstructions, relative to the variance of the items.
    seconds : mapping of str to float
        Time of each step.

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
    metric: Metric
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
    reranked_recall: Mapping[int, float] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """Advice if recall is low, or the codes and codebooks are larger than the vectors."""
        if self.compression >= 1:
            if self.recall[RERANKED_K] >= _LOW_RECALL or not self.reranked_recall:
                return ""
            both = (f"{v:.3f} ({n} candidates)" for n, v in self.reranked_recall.items())
            best = max(self.reranked_recall.values())
            remedy = "re-rank, or use more bytes" if best >= _LOW_RECALL else "use more bytes"
            return (
                f"recall@10 is {self.recall[RERANKED_K]:.3f}; with re-ranking it is "
                f"{' or '.join(both)}: {remedy} (a sweep measures sizes)"
            )
        n_codewords, reason = self.bytes_per_item * N_WORDS, ""
        if self.n_items <= n_codewords:
            reason = (
                f": {n_codewords:,} codewords memorized all vectors, and the recall of "
                "new ones may be lower"
            )
        return (
            f"codes and codebooks are {1 / self.compression:.3g} times larger than the vectors"
            f"{reason}; use fewer bytes per item, or do not compress the vectors"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; shares have keys such as ``"10"``."""
        shares = {
            name: {str(k): value for k, value in getattr(self, name).items()} for name in _BY_NUMBER
        }
        return asdict(self) | shares

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the report of `to_dict`; raise CorruptBundleError."""
        try:
            shares = {
                name: {int(k): float(value) for k, value in values[name].items()}
                for name in _BY_NUMBER
            }
            return cls(**{**values, **shares})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"the stored report is invalid: {error}") from error

    def __str__(self) -> str:
        recall = ", ".join(f"@{k} {value:.3f}" for k, value in self.recall.items())
        for n, value in self.reranked_recall.items():
            recall += f", @{RERANKED_K} with re-ranking of {n} {value:.3f}"
        like = (
            f"{self.n_held_out} held-out queries"
            if self.n_queries
            else f"{self.n_held_out} items as queries"
        )
        metric = (
            "Euclidean metric"
            if self.shrinkage == 1
            else f"query-aware metric, shrinkage {self.shrinkage:g}"
        )
        return (
            f"{self.n_items:,} items of {self.n_components} dimensions in {self.bytes_per_item} "
            f"bytes each; {self.n_bytes:,} bytes in all, {self.compression:.3g} times smaller than "
            f"float32; recall {recall} with {like}; {metric}; error {self.error:.3f}; "
            f"{sum(self.seconds.values()):.1f} s" + (f"; {self.advice}" if self.advice else "")
        )


@dataclass(eq=False, repr=False)
class Compressed:
    """Compressed items: an index, the quantizer of further items, and a report.

    Parameters
    ----------
    index : CodeIndex
        Exact search over the codes, for queries that are not quantized.
    quantizer : AdditiveQuantizer
        Encodes further items; `add` also adds them to the index.
    report : CompressionReport
    drift : Drift
        Quantization error of added items. After saving, it is in ``index.info["drift"]``.

    Examples
    --------
    >>> import tempfile
    >>> import acqh
    >>> import numpy as np
    >>> items = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acqh.compress(items, bytes_per_item=2).save(folder + "/small.acqh")
    ...     small = Compressed.load(folder + "/small.acqh")
    >>> small.add(items[:5] + 0.1).index
    <CodeIndex: 305 items, 2 codebooks of 256 codewords, 8 dimensions>
    """

    index: CodeIndex
    quantizer: AdditiveQuantizer
    report: CompressionReport
    drift: Drift

    def __copy__(self) -> Self:
        """Return a copy with a separate index: items added to one are not in the other."""
        return replace(self, index=copy(self.index))

    @property
    def codes(self) -> Array:
        """The codes, in the order of the items: (n_items, bytes_per_item) uint8."""
        return self.index.codes

    @property
    def ids(self) -> Array:
        """The ids, in the order of the items."""
        return self.index.ids

    @property
    def info(self) -> dict[str, Any]:
        """Metadata that was stored with the index; empty before `save`."""
        return self.index.info

    @property
    def metric(self) -> Metric:
        """Metric of the search: "ip", "cosine" or "l2"."""
        return self.index.metric

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory for the items: codes, row numbers and ids."""
        return self.index.memory_bytes

    def __len__(self) -> int:
        return len(self.index)

    def add(self, items: Any, ids: Any = None) -> Self:
        """Encode further items and add them to the index.

        Parameters
        ----------
        items : (n, n_components) floats
        ids : iterable of n whole numbers or of n str, optional
            Ids of the items; see `CodeIndex.add`.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            Items of another width or with values that are not finite, or ids of another type.
        DuplicateIdError
            An id already exists.
        """
        vectors = as_rows(to_numpy(items)[0], "items", InvalidInputError)
        if len(vectors) == 0:
            return self
        n_components = self.report.n_components
        if vectors.ndim != 2 or vectors.shape[1] != n_components or vectors.dtype.kind not in "iuf":
            raise InvalidInputError(
                f"items have dtype {vectors.dtype} and shape {vectors.shape}; give numbers of "
                f"{n_components} dimensions"
            )
        vectors = self.index.metric_map.map_items(np.asarray(vectors, dtype=np.float32))
        codes = self.quantizer.encode(vectors)
        self.index.add(codes, ids)
        rows = vectors, self.quantizer.decode(codes)
        self.drift = self.drift.after(*map(self.quantizer.to_metric, rows))
        return self

    def add_from(
        self,
        source: Any,
        *,
        view: str | None = None,
        chunk_size: int = 16_384,
        progress: Progress | None = None,
    ) -> int:
        """Add the vectors of a file in chunks; return their number.

        Row numbers as ids continue those of the index; other ids are kept.

        Parameters
        ----------
        source : path-like, array, Chunks, or MultiViewData
            See `compress`.
        view : str, optional
            View, column or array of a file that has several.
        chunk_size : int, default 16,384
        progress : callable, optional
            Called with the number of items done, their number, and a text.

        Raises
        ------
        InvalidInputError, ViewError, DuplicateIdError
            See `add`. Chunks before the wrong one were added.
        """
        chunks = vector_source(source, view, None, chunk_size, None, progress)
        n_before = len(self)
        for ids, vectors in chunks.map(lambda chunk, _: read_vectors(chunk, view), "items encoded"):
            first = len(self) - n_before
            is_numbered = np.array_equal(ids, np.arange(first, first + len(ids)))
            self.add(vectors, None if is_numbered and self.index.id_kind != "text" else ids)
        return len(self) - n_before

    def retrain(
        self, items: Any, queries: Any = None, *, ids: Any = None, **settings: Any
    ) -> "Compressed":
        """Retrain the codebooks and encode all items again; return the result.

        This object does not change and can be searched meanwhile. To replace it on disk, save the
        result to its path.

        Parameters
        ----------
        items : array-like, path-like, Chunks, or MultiViewData
            The vectors of all items; vectors of other ids are ignored.
        queries : array-like or path-like, optional
            See `compress`.
        ids : iterable, optional
            Ids of the items of an array. Default: row numbers.
        **settings
            Further arguments of `compress`.

        Raises
        ------
        InvalidInputError
            `items` do not contain all items of the index.
        """
        from acqh.scale.compression import compress

        size, metric = self.codes.shape[1], self.index.metric
        retrained = compress(items, queries, size, metric, ids=ids, **settings)
        old_ids, new_ids = (set(index.ids.tolist()) for index in (self.index, retrained.index))
        if missing := old_ids - new_ids:
            raise InvalidInputError(
                f"{len(missing):,} of {len(old_ids):,} items are missing, such as "
                f"{min(missing)!r}; give all of them, with their ids"
            )
        retrained.index.remove(new_ids - old_ids)
        return retrained

    def search(self, queries: Any, k: int = 10, **settings: Any) -> SearchResult:
        """Find the best items of each query; `settings`: arguments of `CodeIndex.search`."""
        return self.index.search(queries, k, **settings)

    def save(self, path: str | PathLike[str], *, name: str = "") -> None:
        """Save all parts as a bundle, which `acqh.load` opens."""
        state, arrays = self.quantizer.to_state()
        del arrays["codebooks_"]  # the index has them
        info = {"compress": self.report.to_dict(), "quantizer": state}
        info["drift"] = self.drift.to_dict()
        self.index.save(path, name=name, info=info, arrays=arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load the output of `save` or ``acqh compress``, to search it and to add items.

        Raises
        ------
        FileNotFoundError
            There is no bundle at the path.
        InvalidInputError
            The bundle is of another kind, or an index without a quantizer.
        CorruptBundleError
            The bundle is damaged.
        """
        index = CodeIndex.load(path)
        if not has_quantizer(index):
            raise InvalidInputError(
                f"{path} is an index without a quantizer; open it with acqh.load, or compress the "
                "vectors again to add items"
            )
        return cls.from_index(index)

    @classmethod
    def from_index(cls, index: CodeIndex) -> Self:
        """Return all parts of a loaded index with a quantizer; raise CorruptBundleError."""
        info, arrays = index.info, {**index.info_arrays, "codebooks_": index.codebooks}
        quantizer = AdditiveQuantizer.from_state(info["quantizer"], arrays)
        try:
            drift = Drift.from_dict(info["drift"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"the stored drift is invalid: {error}") from error
        return cls(index, quantizer, CompressionReport.from_dict(info["compress"]), drift)

    def __repr__(self) -> str:
        return f"<Compressed: {self.report}>"


def has_quantizer(index: CodeIndex) -> bool:
    """Whether `Compressed.save` wrote the index."""
    return {"quantizer", "compress"} <= set(index.info)
