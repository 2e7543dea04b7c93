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
        self.drift = self.drift.after(*map(self.quantizer.measured, rows))
        return self

    def retrain(
        self, items: Any, queries: Any = None, *, ids: Any = None, **settings: Any
    ) -> "Compressed":
        """Learn codebooks again and code all items anew, as when many came that are unlike those.

        This one is left as it is, and answers meanwhile. Saving what is returned to the path of
        this one replaces it in one step.

        Parameters
        ----------
        items : array-like, path-like, Chunks, or MultiViewData
            All items, given again, since codes do not say what they were: those that are here are
            taken, by their ids, and others left out.
        queries : array-like or path-like, optional
            As `compress` takes them.
        ids : iterable, optional
            Of the items of an array; row numbers if not given.
        **settings
            Further arguments of `compress`.

        Raises
        ------
        InvalidInputError
            Items that are here are not among those given.
        """
        from acqh.scale.compress import compress

        made = compress(items, queries, self.codes.shape[1], ids=ids, **settings)
        here, given = (set(index.ids.tolist()) for index in (self.index, made.index))
        if missing := here - given:
            raise InvalidInputError(
                f"{len(missing):,} of {len(here):,} items are not among those given, such as "
                f"{min(missing)!r}; give all of them, with their ids"
            )
        made.index.remove(given - here)
        return made

    def search(self, queries: Any, k: int = 10, **settings: Any) -> SearchResult:
        """Find the best items of each query; `settings` are those of `CodeIndex.search`."""
        return self.index.search(queries, k, **settings)

    def save(self, path: str | PathLike[str], *, name: str = "") -> None:
        """Save all of it; `acqh.load` opens the index, with the report as its `info`."""
        info, arrays = self.quantizer.to_state()
        del arrays["codebooks_"]  # the index has them
        kept = {"compress": self.report.to_dict(), "quantizer": info}
        kept["drift"] = self.drift.to_dict()
        self.index.save(path, name=name, info=kept, arrays=arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Open what `save` or ``acqh compress`` wrote, to search it and to add items.

        Raises
        ------
        FileNotFoundError
            There is no bundle at the path.
        InvalidInputError
            It holds something else, or an index without what codes further items.
        CorruptBundleError
            It is damaged.
        """
        index = CodeIndex.load(path)
        info = index.info
        if "quantizer" not in info or "compress" not in info:
            raise InvalidInputError(
                f"{path} holds an index without its quantizer; acqh.load opens it, and only "
                "compressing again makes one that further vectors can be added to"
            )
        arrays = {**index.info_arrays, "codebooks_": index.codebooks}
        quantizer = AdditiveQuantizer.from_state(info["quantizer"], arrays)
        try:
            drift = Drift.from_dict(info["drift"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptBundleError(f"what is stored is not a drift: {error}") from error
        return cls(index, quantizer, CompressionReport.from_dict(info["compress"]), drift)

    def __repr__(self) -> str:
        return f"<Compressed: {self.report}>"
