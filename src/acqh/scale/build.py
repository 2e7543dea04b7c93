"""An index of codes that lie in parts."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from acqh._core.arrays import Array
from acqh._core.runtime import Progress
from acqh.index import CodeIndex
from acqh.scale.code_files import CodeFiles
from acqh.scale.parts import CodeParts

Parts: TypeAlias = Iterable[tuple[Array, Array | None]]


def build_index(
    codebooks: Any,
    parts: CodeParts | CodeFiles | Parts | Callable[[], Parts],
    *,
    progress: Progress | None = None,
) -> CodeIndex:
    """Make an index of parts of codes, one after the other.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) floats
        Of the model that made the codes.
    parts : CodeParts, CodeFiles, iterable of (codes, ids or None), or callable
        Read twice, one part at a time: what a function returns, it is called for twice. An
        iterator is read once.
    progress : callable, optional
        Called after each part with the number of items done (of parts that are read twice, those
        read once count half), their number (None where it is not known), and a text.

    Returns
    -------
    CodeIndex
        In memory. Items are in the order of the parts.

    Raises
    ------
    DuplicateIdError
        An id occurs in two parts.
    InvalidInputError
        Codes that do not fit the codebooks; parts that have changed when they are read again.
    CorruptBundleError
        A part is damaged.

    Notes
    -----
    With four codebooks and ids that count up, the index takes about 6 bytes per item, and building
    it little more: beside it there is a part in memory. Where so many items share codes that each
    is stored once, that index is smaller, but made of the other: up to 12 bytes per item are in use
    for a moment. Items of an iterator are added part by part; about 13 bytes per item are in use
    while the parts are joined.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [(np.array([[0], [1]]), ["a", "b"]), (np.array([[1]]), ["c"])]
    >>> build_index(np.eye(2)[None], parts)
    <CodeIndex: 3 items, 1 codebooks of 2 words, 2 components>
    """
    index = CodeIndex(codebooks)
    total = len(parts) if isinstance(parts, CodeParts | CodeFiles) else None

    def tell(done: int, n: int | None, text: str) -> None:
        if progress is not None:
            progress(done, total if n is None else n, text)

    if callable(parts):
        parts = _Again(parts)
    if not isinstance(parts, Iterator):
        return index.add_parts(parts, progress=tell)
    for codes, ids in parts:
        index.add(codes, ids)
        tell(len(index), None, f"{len(index):,} items indexed")
    return index.compact()


@dataclass(frozen=True)
class _Again:
    """What a function returns, each time it is read."""

    read: Callable[[], Parts]

    def __iter__(self) -> Iterator[tuple[Array, Array | None]]:
        return iter(self.read())
