"""An index of codes that lie in parts."""

from collections.abc import Iterable
from typing import Any

from acqh._core.arrays import Array
from acqh.index import CodeIndex
from acqh.scale._dask import Progress
from acqh.scale._parts import CodeParts


def build_index(
    codebooks: Any,
    parts: CodeParts | Iterable[tuple[Array, Array | None]],
    *,
    progress: Progress | None = None,
) -> CodeIndex:
    """Make an index of parts of codes, one after the other.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        Of the model that made the codes.
    parts : CodeParts, or iterable of (codes, ids or None)
        Read one at a time.
    progress : callable, optional
        Called after each part with the number of items done, their number (None where it is not
        known), and a text.

    Returns
    -------
    CodeIndex
        In memory. Items are in the order of the parts.

    Raises
    ------
    DuplicateIdError
        An id occurs in two parts.
    InvalidInputError
        Codes that do not fit the codebooks.
    CorruptBundleError
        A part is damaged.

    Notes
    -----
    One part is in memory at a time, but so is the index: about 6 bytes an item with four codebooks,
    and ids unless they count up. The peak is higher. When segments of the index are joined, about
    70 bytes an item are in use for a moment (four codebooks, ids that count up).

    Examples
    --------
    >>> import numpy as np
    >>> parts = [(np.array([[0], [1]]), ["a", "b"]), (np.array([[1]]), ["c"])]
    >>> build_index(np.eye(2)[None], parts)
    <CodeIndex: 3 items, 1 codebooks of 2 words, 2 components>
    """
    index = CodeIndex(codebooks)
    total = len(parts) if isinstance(parts, CodeParts) else None
    for codes, ids in parts:
        index.add(codes, ids)
        if progress is not None:
            progress(len(index), total, f"{len(index):,} items indexed")
    return index
