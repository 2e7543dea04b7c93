"""Chunks of the rows of files and folders, readable in any order and by any process."""

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from acqh._core.arrays import NotFiniteError
from acqh.data.multiview import MultiViewData
from acqh.data.readers.columns import Source, Table
from acqh.errors import CorruptBundleError


@dataclass(frozen=True)
class Chunk:
    """A range of rows of a file or folder, read on demand.

    Parameters
    ----------
    source : object
        The resolved columns of the file or folder.
    start, stop : int
        The first row, and the one after the last, counted from 0.

    Notes
    -----
    A pickled chunk is small: it names files and holds no rows.

    Examples
    --------
    >>> import pickle
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.data import list_chunks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/image.npy", np.eye(5))
    ...     last = list_chunks(folder, chunk_size=2)[-1]
    ...     pickle.loads(pickle.dumps(last)).read().ids.tolist()
    [4]
    """

    source: Source
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"<Chunk: rows {self.start} to {self.stop - 1} of {self.source.path}>"

    def __reduce__(self) -> tuple[type["Chunk"], tuple[Any, ...]]:
        return Chunk, (self.source.only(self.start, self.stop), self.start, self.stop)

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.source.path

    def read(self) -> MultiViewData:
        """Read the rows.

        Returns
        -------
        MultiViewData
            With the views and label columns of the file; row numbers are the default ids.

        Raises
        ------
        CorruptBundleError
            The file is damaged, or has changed since `list_chunks`.
        InvalidInputError, ViewError, LabelError, DuplicateIdError
            The rows are inconsistent.
        OSError
            The file cannot be read.
        """
        source = self.source if self.source.table else self.source.only(self.start, self.stop)
        return next(read_chunks([Chunk(source, self.start, self.stop)]))


class Chunks(Sequence[Chunk]):
    """All rows of a file or folder in chunks; the result of `list_chunks`.

    Parameters
    ----------
    source : object
        The resolved columns of the file or folder.
    chunk_size : int
        Rows per chunk; the last one may have fewer.

    Attributes
    ----------
    chunk_size : int
    n_items : int
        Number of rows in all chunks.
    """

    def __init__(self, source: Source, chunk_size: int) -> None:
        self._source = source
        self.chunk_size = chunk_size
        self.n_items = source.n_items

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self._source.path

    def __len__(self) -> int:
        return -(-self.n_items // self.chunk_size)

    @overload
    def __getitem__(self, number: int) -> Chunk: ...
    @overload
    def __getitem__(self, number: slice) -> list[Chunk]: ...
    def __getitem__(self, number: int | slice) -> Chunk | list[Chunk]:
        if isinstance(number, slice):
            return [self[index] for index in range(len(self))[number]]
        start = range(len(self))[number] * self.chunk_size
        return Chunk(self._source, start, min(start + self.chunk_size, self.n_items))

    def __repr__(self) -> str:
        return f"<Chunks: {self.n_items} rows of {self.path} in {len(self)} chunks>"

    def fingerprint(self) -> str:
        """Return a hash that changes with the files.

        It covers the name, size and modification time of each file and the number of rows. It
        does not read their contents.

        Returns
        -------
        str
            64 hexadecimal digits.

        Raises
        ------
        OSError
            A file does not exist any more.
        """
        facts: list[Any] = [self.n_items]
        for file in sorted(self._source.files()):
            state = file.stat()
            name = file.relative_to(self.path) if file != self.path else file.name
            facts.append([str(name), state.st_size, state.st_mtime_ns])
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def read_chunks(
    chunks: Iterable[Chunk], *, prefetch: bool = False
) -> Generator[MultiViewData, None, None]:
    """Read chunks in order.

    Returns the same rows as `Chunk.read`. Consecutive chunks of one `list_chunks` share an open
    file, which is faster for compressed files.

    Parameters
    ----------
    chunks : iterable of Chunk
    prefetch : bool, default False
        Read the next chunk in a thread while the caller uses this one: faster, but keeps two
        chunks in memory.

    Yields
    ------
    MultiViewData

    Notes
    -----
    Raises the errors of `Chunk.read`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.data import list_chunks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/image.npy", np.eye(5))
    ...     chunks = list_chunks(folder, chunk_size=2)
    ...     [rows.ids.tolist() for rows in read_chunks(chunks[1:])]
    [[2, 3], [4]]
    """
    rows = _read_in_order(chunks)
    return _read_ahead(rows) if prefetch else rows


def _read_in_order(chunks: Iterable[Chunk]) -> Generator[MultiViewData, None, None]:
    with ExitStack() as opened:
        source: Source | None = None
        for chunk in chunks:
            if chunk.source is not source:
                opened.close()
                source = chunk.source
                table = opened.enter_context(source.open())
            yield _read_checked(table, chunk)


def _read_ahead(chunks: Iterator[MultiViewData]) -> Generator[MultiViewData, None, None]:
    with ThreadPoolExecutor(1, "acqh-read") as thread:
        coming = thread.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = thread.submit(next, chunks, None)
            yield chunk
            # Free it before the thread reads the chunk after the next.
            del chunk


def _read_checked(table: Table, chunk: Chunk) -> MultiViewData:
    try:
        rows = chunk.source.read(table, chunk.start, chunk.stop)
    except NotFiniteError as error:
        name, row, _ = error.args
        raise NotFiniteError(name, chunk.start + row, chunk.path.name) from error
    if len(rows) != len(chunk):
        raise CorruptBundleError(
            f"{chunk.path} has {len(rows)} of the rows {chunk.start} to {chunk.stop - 1}; it has "
            "changed since it was listed"
        )
    return rows
