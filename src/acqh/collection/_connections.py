"""SQLite connections: one a thread, short transactions, errors that say what to do."""

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acqh.errors import CollectionError, CorruptBundleError

# How long a writer waits for another one.
WRITE_TIMEOUT_SECONDS = 30.0


class Connections:
    """Connections to one SQLite file, which any thread may use.

    Readers see one state for as long as their transaction lasts, and wait for nobody; there is
    one writer at a time, and the others wait for it.

    Parameters
    ----------
    path : Path
    timeout : float
        Seconds that a writer waits for another one.
    durable : bool
        Whether a change waits until it is on the disk.
    """

    def __init__(self, path: Path, *, timeout: float, durable: bool = True) -> None:
        self.path = path
        self.timeout = timeout
        self._synchronous = "FULL" if durable else "OFF"
        # Without the right to write beside the file there can be no log to read along with it.
        self.read_only = not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK))
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[sqlite3.Connection] | None = []

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._all is None

    def close(self) -> None:
        """Close every connection; none can be made afterwards."""
        with self._lock:
            connections, self._all = self._all or [], None
        for connection in connections:
            connection.close()

    def get(self) -> sqlite3.Connection:
        """Return the calling thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            with self._lock:
                if self._all is not None:
                    self._all.append(connection)
            self._local.connection = connection
        if self.closed:
            connection.close()
            raise CollectionError("the collection is closed; open it again")
        return connection

    def _connect(self) -> sqlite3.Connection:
        mode = "immutable=1" if self.read_only else "mode=rw"
        with translated(self.path):
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?{mode}",
                uri=True,
                timeout=self.timeout,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            # What a file from elsewhere defines is never run as a function.
            connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one state of the file."""
        connection = self.get()
        with translated(self.path):
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                # Whoever stopped reading in the middle may have closed everything since.
                if not self.closed:
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose changes all happen when the block ends, or none of them."""
        if self.read_only:
            raise CollectionError(f"{self.path.parent} cannot be changed: it is not writable here")
        connection = self.get()
        with translated(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, which say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise CollectionError(
                f"{path.parent} is being changed by another process; try again when it is done"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, "no space left on the disk", str(path)) from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise OSError(errno.EIO, f"{error}", str(path)) from error
        raise CorruptBundleError(f"{path} is damaged: {error}; run acqh verify") from error
