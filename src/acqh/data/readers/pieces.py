"""Rows of files and folders in pieces that can be read apart, in any order, by any process."""

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
class Piece:
    """Some consecutive rows of a file or folder, not read yet.

    Parameters
    ----------
    source : object
        What is known about the file or folder.
    start, stop : int
        The first row, and the one after the last, counted from 0 through the whole.

    Notes
    -----
    A piece can be pickled, and is small then: it names files, and holds no rows.

    Examples
    --------
    >>> import pickle
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.data import list_pieces
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/image.npy", np.eye(5))
    ...     last = list_pieces(folder, chunk_size=2)[-1]
    ...     pickle.loads(pickle.dumps(last)).read().ids.tolist()
    [4]
    """

    source: Source
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"<Piece: rows {self.start} to {self.stop - 1} of {self.source.path}>"

    def __reduce__(self) -> tuple[type["Piece"], tuple[Any, ...]]:
        return Piece, (self.source.only(self.start, self.stop), self.start, self.stop)

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.source.path

    def read(self) -> MultiViewData:
        """Read the rows.

        Returns
        -------
        MultiViewData
            With the views and label columns of the whole; items without ids have their row number.

        Raises
        ------
        CorruptBundleError
            The file is damaged, or is not the one that was listed.
        InvalidInputError, ViewError, LabelError, DuplicateIdError
            The rows do not fit together.
        OSError
            The file cannot be read.
        """
        source = self.source if self.source.table else self.source.only(self.start, self.stop)
        return next(read_pieces([Piece(source, self.start, self.stop)]))


class Pieces(Sequence[Piece]):
    """All rows of a file or folder, cut into pieces; what `list_pieces` returns.

    Parameters
    ----------
    source : object
        What is known about the file or folder.
    chunk_size : int
        Rows of a piece; the last one may have fewer.

    Attributes
    ----------
    chunk_size : int
    n_items : int
        Rows of all pieces together.
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
    def __getitem__(self, number: int) -> Piece: ...
    @overload
    def __getitem__(self, number: slice) -> list[Piece]: ...
    def __getitem__(self, number: int | slice) -> Piece | list[Piece]:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        start = range(len(self))[number] * self.chunk_size
        return Piece(self._source, start, min(start + self.chunk_size, self.n_items))

    def __repr__(self) -> str:
        return f"<Pieces: {self.n_items} rows of {self.path} in {len(self)} pieces>"

    def fingerprint(self) -> str:
        """Return a hash of what tells one state of the files from another.

        That is the name, size and modification time of each, and how many rows there are. Nothing
        that is in them is read.

        Returns
        -------
        str
            64 hexadecimal digits.

        Raises
        ------
        OSError
            A file is gone.
        """
        facts: list[Any] = [self.n_items]
        for file in sorted(self._source.files()):
            state = file.stat()
            name = file.relative_to(self.path) if file != self.path else file.name
            facts.append([str(name), state.st_size, state.st_mtime_ns])
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def read_pieces(
    pieces: Iterable[Piece], *, ahead: bool = False
) -> Generator[MultiViewData, None, None]:
    """Read pieces, one after the other.

    The same rows as each piece's ``read`` gives. Pieces of one listing that follow one another are
    read through one open file, which is quicker where a file has to be unpacked from some point on.

    Parameters
    ----------
    pieces : iterable of Piece
    ahead : bool, default False
        Have a thread read the next piece while this one is used: quicker, and two are in memory.

    Yields
    ------
    MultiViewData

    Notes
    -----
    The errors are those of `Piece.read`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from acqh.data import list_pieces
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/image.npy", np.eye(5))
    ...     pieces = list_pieces(folder, chunk_size=2)
    ...     [rows.ids.tolist() for rows in read_pieces(pieces[1:])]
    [[2, 3], [4]]
    """
    rows = _read_in_order(pieces)
    return _read_ahead(rows) if ahead else rows


def _read_in_order(pieces: Iterable[Piece]) -> Generator[MultiViewData, None, None]:
    with ExitStack() as opened:
        source: Source | None = None
        for piece in pieces:
            if piece.source is not source:
                opened.close()
                source = piece.source
                table = opened.enter_context(source.open())
            yield _read_checked(table, piece)


def _read_ahead(chunks: Iterator[MultiViewData]) -> Generator[MultiViewData, None, None]:
    with ThreadPoolExecutor(1, "acqh-read") as thread:
        coming = thread.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = thread.submit(next, chunks, None)
            yield chunk
            # Not to be kept while the one after the next is read.
            del chunk


def _read_checked(table: Table, piece: Piece) -> MultiViewData:
    try:
        rows = piece.source.read(table, piece.start, piece.stop)
    except NotFiniteError as error:
        name, row, _ = error.args
        raise NotFiniteError(name, piece.start + row, piece.path.name) from error
    if len(rows) != len(piece):
        raise CorruptBundleError(
            f"{piece.path} has {len(rows)} of the rows {piece.start} to {piece.stop - 1}; it has "
            "changed since it was listed"
        )
    return rows
