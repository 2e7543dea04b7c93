"""What `compress` returns: an index, what codes further items, and a report; saved as one."""

from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Array, take_in
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex, SearchResult
from acqh.quantize import AdditiveQuantizer, Drift
from acqh.scale.compress.report import CompressionReport


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
    <CodeIndex: 305 items, 2 codebooks of 256 words, 8 components>
    """

    index: CodeIndex
    quantizer: AdditiveQuantizer
    report: CompressionReport
    drift: Drift

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
        vectors, _ = take_in(items)
        codes = self.quantizer.encode(vectors)
        self.index.add(codes, ids)
        rows = np.asarray(vectors, dtype=np.float32), self.quantizer.decode(codes)
        self.drift = self.drift.after(*map(self.quantizer.measured, rows))
        return self

    def relearn(
        self, items: Any, queries: Any = None, *, ids: Any = None, **settings: Any
    ) -> "Compressed":
        """Learn codebooks again and code all items anew, as when many came that are unlike those.

        This one is left as it is, and answers meanwhile. Saving what is returned to the path of
        this one replaces it in one step.

        Parameters
        ----------
        items : array-like, path-like, Pieces, or MultiViewData
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
        from acqh.scale.compress.compress import compress

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
        info, arrays = kept_state(self.quantizer)
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


def kept_state(quantizer: AdditiveQuantizer) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what is kept of a quantizer beside the index, which has the codebooks."""
    info, arrays = quantizer.to_state()
    del arrays["codebooks_"]
    return info, arrays
