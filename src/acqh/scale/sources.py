"""Where items come from: files, pieces of them, data in memory, or chunks one after the other."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from acqh._core.arrays import check_positive_int
from acqh.data import MultiViewData, Piece, Pieces, list_pieces, read_pieces
from acqh.errors import InvalidInputError
from acqh.scale.chunks import Chunk, count_rows, is_dask_source, list_chunks
from acqh.scale.cluster import check_workers

Source: TypeAlias = (
    str
    | PathLike[str]
    | Sequence[str | PathLike[str]]
    | Sequence[Piece]
    | MultiViewData
    | Iterable[MultiViewData]
)


@dataclass(frozen=True)
class CutSource:
    """A source cut into chunks."""

    chunks: Sequence[Piece] | Iterable[MultiViewData]  # pieces can be left out without being read
    n_items: int | None  # None: not known before all are read
    chunk_size: int | None  # None: the source decided
    # Tells one state of files from another; None where there are no files.
    fingerprint: str | None = None

    def read(self) -> Iterator[MultiViewData]:
        """Yield the items of each chunk."""
        if isinstance(self.chunks, Sequence):
            return read_pieces(self.chunks, ahead=True)
        return iter(self.chunks)


def cut_source(source: Any, chunk_size: int) -> CutSource:
    """Look at a source, and cut it unless it comes in chunks.

    Raises InvalidInputError: it is none of the known kinds.
    """
    check_positive_int(chunk_size, "chunk_size")
    if isinstance(source, MultiViewData):
        return CutSource(source.chunks(chunk_size), len(source), chunk_size)
    if paths := _paths(source):
        # Absolute: processes that read the pieces may have another working directory.
        listed = list_pieces(paths if _is_list(source) else paths[0], chunk_size=chunk_size)
        return CutSource(listed, listed.n_items, chunk_size, listed.fingerprint())
    if isinstance(source, Pieces):
        return CutSource(source, source.n_items, None, source.fingerprint())
    if _is_list(source) and source and all(isinstance(each, Piece) for each in source):
        return CutSource(list(source), sum(map(len, source)), None)
    if is_dask_source(source):
        raise InvalidInputError("Dask arrays and bags are read by workers only; give a client")
    if not isinstance(source, Iterable):
        raise InvalidInputError(
            "the source must be a path, pieces of files, MultiViewData or an iterable of them, not "
            f"{type(source).__name__}"
        )
    return CutSource(_checked(source), None, None)


def cut_on(
    client: Any, source: Any, chunk_size: int, *, counted: bool = True
) -> tuple[CutSource, list[Chunk]]:
    """Cut a source that the workers of a cluster read.

    `counted`: whether chunks have to say how many rows they have, if need be by being read for it.
    Raises ClusterError: the workers cannot do our work. Raises InvalidInputError: a source of
    another kind.
    """
    check_workers(client)
    # Dask's own collections are cut, and counted, on the cluster alone.
    cut = CutSource((), None, None) if is_dask_source(source) else cut_source(source, chunk_size)
    listed = list_chunks(source if cut.fingerprint is None else cut.chunks)
    return cut, count_rows(client, listed) if counted else listed


def _paths(source: Any) -> list[Path]:
    """Return the path or paths that a source is; none where it is something else."""
    listed = source if _is_list(source) else [source]
    if not all(isinstance(each, str | PathLike) for each in listed):
        return []
    return [Path(each).absolute() for each in listed]


def _is_list(source: Any) -> bool:
    return isinstance(source, Sequence) and not isinstance(source, str)


def _checked(chunks: Iterable[Any]) -> Iterator[MultiViewData]:
    for chunk in chunks:
        if not isinstance(chunk, MultiViewData):
            raise InvalidInputError(f"chunks must be MultiViewData, got {type(chunk).__name__}")
        yield chunk
        # Not to be kept while the next one is read.
        del chunk
