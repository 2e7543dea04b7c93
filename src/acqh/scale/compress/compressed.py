"""What `compress` returns: an index, what codes further items, and a report; saved as one."""

from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

from acqh._core.arrays import Array
from acqh.errors import InvalidInputError
from acqh.index import CodeIndex, SearchResult
from acqh.quantize import AdditiveQuantizer
from acqh.scale.compress.report import CompressionReport


@dataclass(frozen=True)
class Compressed:
    """Items in a few bytes each.

    Parameters
    ----------
    index : CodeIndex
        Exact search over the codes, for queries as they are.
    quantizer : AdditiveQuantizer
        Codes further items; `add` does both.
    report : CompressionReport

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
        self.index.add(self.quantizer.encode(items), ids)
        return self

    def search(self, queries: Any, k: int = 10, **settings: Any) -> SearchResult:
        """Find the best items of each query; `settings` are those of `CodeIndex.search`."""
        return self.index.search(queries, k, **settings)

    def save(self, path: str | PathLike[str], *, name: str = "") -> None:
        """Save all of it; `acqh.load` opens the index, with the report as its `info`."""
        info, arrays = kept_state(self.quantizer)
        kept = {"compress": self.report.to_dict(), "quantizer": info}
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
        return cls(index, quantizer, CompressionReport.from_dict(info["compress"]))

    def __repr__(self) -> str:
        return f"<Compressed: {self.report}>"


def kept_state(quantizer: AdditiveQuantizer) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what is kept of a quantizer beside the index, which has the codebooks."""
    info, arrays = quantizer.to_state()
    del arrays["codebooks_"]
    return info, arrays
