"""The result of `compress`: an index, a quantizer for further items, and a report."""

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, to_numpy
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex, SearchResult
from acqh.quantize import AdditiveQuantizer, Drift

# Values of k of a report.
RECALL_AT = (1, 10, 100)
# Codebook size.
N_WORDS = 256


@dataclass(frozen=True)
class CompressionReport:
    """Size, recall and time of a compression.

    Parameters
    ----------
    n_items, n_components : int
    bytes_per_item : int
        Of a code.
    index_bytes_per_item : float
        Of codes and row numbers in the index, without ids.
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
    error : float
        Mean squared error of the reconstructions, relative to the variance of the items.
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
        """Advice if the codes and codebooks are larger than the vectors; else empty."""
        if self.compression >= 1:
            return ""
        n_codewords, reason = self.bytes_per_item * N_WORDS, ""
        if self.n_items <= n_codewords:
            reason = (
                f": {n_codewords:,} codewords memorized {self.n_items:,} items, and the recall of "
                "new items may be lower"
            )
        return (
            f"codes and codebooks are {1 / self.compression:.3g} times larger than the vectors"
            f"{reason}; use fewer bytes per item, or do not compress the vectors"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; `recall` has keys such as ``"10"``."""
        values = asdict(self)
        values["recall"] = {str(k): value for k, value in self.recall.items()}
        return values

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the report of `to_dict`; raise CorruptBundleError."""
        try:
            recall = {int(k): float(value) for k, value in values["recall"].items()}
            return cls(**{**values, "recall": recall})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"the stored report is invalid: {error}") from error

    def __str__(self) -> str:
        recall = ", ".join(f"@{k} {value:.3f}" for k, value in self.recall.items())
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
    """Items in a few bytes each.

    Parameters
    ----------
    index : CodeIndex
        Exact search over the codes, for queries as they are.
    quantizer : AdditiveQuantizer
        Codes further items; `add` does both.
    report : CompressionReport
    drift : Drift
        How well items that were added fit the codebooks; once saved, ``index.info["drift"]``.

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
        """Return a copy with an index of its own: items added to either stay apart."""
        return replace(self, index=copy(self.index))

    @property
    def codes(self) -> Array:
        """The codes, in the order of the items: (n_items, bytes_per_item) uint8."""
        return self.index.codes

    def add(self, items: Any, ids: Any = None) -> Self:
        """Code further items and add them to the index.

        Parameters
        ----------
        items : (n, n_components) floats
        ids : iterable of n whole numbers or of n str, optional
            As `CodeIndex.add` takes them.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            Items of another width or that are not finite, or ids of another kind.
        DuplicateIdError
            An id already exists.
        """
        vectors, _ = to_numpy(items)
        codes = self.quantizer.encode(vectors)
        self.index.add(codes, ids)
        rows = np.asarray(vectors, dtype=np.float32), self.quantizer.decode(codes)
        self.drift = self.drift.after(*map(self.quantizer.to_metric, rows))
        return self

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
            Items that are here are not among those given.
        """
        from acqh.scale.compress import compress

        retrained = compress(items, queries, self.codes.shape[1], ids=ids, **settings)
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
        """Save index, quantizer and report; `acqh.load` opens the index, with them as `info`."""
        state, arrays = self.quantizer.to_state()
        del arrays["codebooks_"]  # the index has them
        info = {"compress": self.report.to_dict(), "quantizer": state}
        info["drift"] = self.drift.to_dict()
        self.index.save(path, name=name, info=info, arrays=arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Open what `save` or ``acqh compress`` wrote, to search it and to add items.

        Raises
        ------
        FileNotFoundError
            There is no bundle at the path.
        InvalidInputError
            The bundle is of another kind, or an index without a quantizer.
        CorruptBundleError
            It is damaged.
        """
        index = CodeIndex.load(path)
        info = index.info
        if "quantizer" not in info or "compress" not in info:
            raise InvalidInputError(
                f"{path} is an index without a quantizer; open it with acqh.load, or compress the "
                "vectors again to add items"
            )
        arrays = {**index.info_arrays, "codebooks_": index.codebooks}
        quantizer = AdditiveQuantizer.from_state(info["quantizer"], arrays)
        try:
            drift = Drift.from_dict(info["drift"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"the stored drift is invalid: {error}") from error
        return cls(index, quantizer, CompressionReport.from_dict(info["compress"]), drift)

    def __repr__(self) -> str:
        return f"<Compressed: {self.report}>"
