"""The SQLite file: its tables, and connections to it, short transactions, clear errors."""

import errno
import json
import os
import sqlite3
import stat
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from acqh._core.arrays import Ints
from acqh.errors import CollectionError, CorruptBundleError, ReplacedError

# How long a writer waits for another one.
WRITE_TIMEOUT_SECONDS = 30.0
# Changes are numbered below this, so that numbers of items fit 64 bits for ever.
_NO_CHANGE = 1 << 62
# Numbers given as one parameter: SQLite takes only this many of them in a statement.
LISTED = "(SELECT value FROM json_each(?))"
# Counts up when tables or the words that are indexed change.
LAYOUT = 8
WORDS_SCHEMA = (files("acqh.collection.store") / "words.sql").read_text(encoding="utf-8")
SCHEMA = (files("acqh.collection.store") / "schema.sql").read_text(encoding="utf-8") + WORDS_SCHEMA
T = TypeVar("T")
_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def listed(numbers: Iterable[int]) -> str:
    """Return the parameter of `LISTED`."""
    return json.dumps(list(numbers))


def read_revision(connection: sqlite3.Connection) -> int:
    """Return the number of the last change."""
    text = read_text(connection, "revision")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number < _NO_CHANGE:
        raise sqlite3.DatabaseError(f"{text!r:.40} is not a revision")
    return number


def read_text(connection: sqlite3.Connection, name: str) -> str:
    """Return a text that is stored under a name, or an empty one."""
    statement = "SELECT value FROM meta WHERE name = ?"
    row = connection.execute(statement, (name,)).fetchone()
    return "" if row is None else str(row[0])


def now() -> str:
    """Return the time as it is stored: ISO 8601, UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def first_row(connection: sqlite3.Connection, statement: str, *values: Any) -> Any:
    """Return the first row that a statement gives, or None."""
    return connection.execute(statement, values).fetchone()


def as_numbers(rows: Iterable[tuple[int]]) -> Ints:
    """Return rows of one number each in rising order, int64 (n_rows,)."""
    return np.sort(np.fromiter((number for (number,) in rows), dtype=np.int64))


class UntilChange(Generic[T]):
    """Keeps what a function reads from a store until the next change; any thread may use it."""

    def __init__(self, read: Callable[[sqlite3.Connection], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._latest: tuple[int, T] | None = None

    def __call__(self, connection: sqlite3.Connection) -> T:
        """Return the result for the state that a connection sees."""
        revision = read_revision(connection)
        with self._lock:
            if self._latest is None or self._latest[0] != revision:
                self._latest = revision, self._read(connection)
            return self._latest[1]


class Store:
    """The SQLite file of a generation, and connections to it, which any thread may use.

    Readers see one state for as long as their transaction lasts, and wait for nobody; there is
    one writer at a time, and the others wait for it.

    `timeout`: seconds that a writer waits for another one. `is_new`: a build fills it, so that
    changes need not wait for the disk, nor thumbnails for their items. `check_current`: raises
    ReplacedError if another generation is current; a writer calls it with the write lock.
    Raises CorruptBundleError: it is not a plain file, or not one of SQLite.
    """

    def __init__(
        self,
        path: Path,
        *,
        timeout: float,
        is_new: bool = False,
        check_current: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path.absolute()
        self.generation = ""  # of the collection, once it was read
        self.timeout = timeout
        self.check_current = check_current
        self._is_new = is_new
        # Without write access to the folder, SQLite cannot write a log.
        self.read_only = not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK))
        self._turn = threading.Lock()
        self._free: list[tuple[sqlite3.Connection, object]] | None = []
        if not path.is_symlink() and not path.exists():
            raise CorruptBundleError(f"{path} is missing; restore it or build the collection again")
        check_plain(path, Path(f"{path}-wal"), Path(f"{path}-shm"))
        with self._lent():
            pass

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._free is None

    def close(self) -> None:
        """Close every connection, those in use when they are given back; safe to call twice."""
        with self._turn:
            free, self._free = self._free or [], None
        for connection, _ in free:
            connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one state of the file."""
        with self._lent() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose changes all happen when the block ends, or none of them.

        Raises ReplacedError: another generation is current; nothing was changed.
        """
        with self.holding() as connection:
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def holding(self, *, timeout: float | None = None) -> Iterator[sqlite3.Connection]:
        """Keep all others, in this process and elsewhere, from changing or replacing this.

        Raises ReplacedError: another generation is current.
        """
        if self.read_only:
            raise CollectionError(f"{self.path.parent} cannot be changed: it is not writable here")
        with self._lent() as connection:
            wait = self.timeout if timeout is None else timeout
            connection.execute(f"PRAGMA busy_timeout = {int(1e3 * wait)}")
            try:
                connection.execute("BEGIN IMMEDIATE")
                self.check_current()
                yield connection
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(1e3 * self.timeout)}")

    def compact(self, *, erase: bool = False) -> None:
        """Put all changes into the one file, and all words into one segment of their index.

        `erase`: also write the file anew, so that nothing is left of what was deleted.
        """
        with self._lent() as connection:
            for table in ("words", "detected_words"):
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608
            if erase:
                connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """Give a connection to one thread; a transaction that it leaves open is undone."""
        with translated(self.path):
            connection, state = self._take()
            try:
                try:
                    yield connection
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
            finally:
                with self._turn:
                    is_closed = self._free is None
                    if self._free is not None:
                        self._free.append((connection, state))
                if is_closed:
                    connection.close()
            if state != _LOGGED and state != self._state():
                raise CollectionError(
                    f"{self.path.parent} was changed while it was read; try again (with the right "
                    "to write there, readers need not)"
                )

    def _take(self) -> tuple[sqlite3.Connection, object]:
        """Return a connection that nobody uses, and the state of the file that it can read."""
        while True:
            with self._turn:
                if self._free is None:
                    raise CollectionError("the collection is closed; open it again")
                if not self._free:
                    break
                connection, state = self._free.pop()
            if state == _LOGGED or state == self._state():
                return connection, state
            connection.close()
        return self._connect()

    def _connect(self) -> tuple[sqlite3.Connection, object]:
        state = self._state()
        mode = "mode=rw" if not self.read_only else "mode=ro" if state == _LOGGED else "immutable=1"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?{mode}",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute(f"PRAGMA foreign_keys = {'OFF' if self._is_new else 'ON'}")
            connection.execute(f"PRAGMA synchronous = {'OFF' if self._is_new else 'FULL'}")
            # What a file from elsewhere defines is never run as a function.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except _SQLITE_ERRORS as error:
            connection.close()
            if not self.path.exists():
                raise ReplacedError(
                    f"{self.path.parent} was moved or removed since it was opened; open it again"
                ) from error
            if mode == "mode=ro" and _code(error) in _NO_ACCESS:
                raise CollectionError(
                    f"{self.path}-wal holds changes that cannot be read without the right to "
                    f"write in {self.path.parent}; open the collection once as its owner"
                ) from error
            raise
        return connection, state

    def _state(self) -> object:
        """Say whether there is a log to be read along with the file; if not, how the file is."""
        if not self.read_only:
            return _LOGGED
        try:
            if Path(f"{self.path}-shm").exists() or Path(f"{self.path}-wal").stat().st_size:
                return _LOGGED
        except FileNotFoundError:
            pass
        status = self.path.stat() if self.path.exists() else None
        return None if status is None else (status.st_mtime_ns, status.st_size)


_LOGGED = "logged"
_NO_ACCESS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
# The latter where the message quotes a damaged schema, which is not text then.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def check_plain(*paths: Path) -> None:
    """Raise CorruptBundleError if one of some files is a link, a pipe or a device."""
    for path in paths:
        try:
            kind = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(kind):
            raise CorruptBundleError(f"{path} is not a plain file; a collection holds its own")


def _code(error: Exception) -> int:
    """Return SQLite's own number for an error, without what it adds in further bits."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into errors of acqh, which name a fix."""
    try:
        yield
    except (UnicodeEncodeError, sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
        # It is of what was asked for, not of what is stored.
        raise CollectionError(
            f"what was asked for cannot be looked up ({error}); give texts that are valid Unicode"
        ) from error
    except _SQLITE_ERRORS as error:
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise CollectionError(
                f"{path.parent} is being changed by another process; try again when it is done"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, "no space left on the disk", str(path)) from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise OSError(errno.EIO, f"{error}", str(path)) from error
        raise CorruptBundleError(f"{path} is damaged: {error}; run acqh verify") from error


def create_store(path: Path, generation: str) -> None:
    """Make an empty store; there must be no file of that name.

    Readers and a writer do not wait for each other where the file system can share memory, which
    SQLite needs for its log; elsewhere changes wait for readers.
    """
    with translated(path):
        try:
            _create(path, generation, "WAL")
        except sqlite3.OperationalError:
            for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                file.unlink(missing_ok=True)
            _create(path, generation, "DELETE")


def _create(path: Path, generation: str, journal: str) -> None:
    path.touch(exist_ok=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.executescript(f"BEGIN;\n{SCHEMA}\nCOMMIT;")
        time = now()
        meta = {"layout": LAYOUT, "revision": 0, "generation": generation}
        meta |= {"built": time, "changed": time}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())


def open_store(path: Path, *, timeout: float = WRITE_TIMEOUT_SECONDS, **how: Any) -> Store:
    """Open a store that `create_store` made; see `Store`.

    Raises CorruptBundleError: it is damaged, of another layout, or has unknown tables.
    """
    store = Store(path, timeout=timeout, **how)
    try:
        with store.reading() as connection:
            layout = read_text(connection, "layout")
            if layout != str(LAYOUT):
                raise CorruptBundleError(
                    f"{path} has layout {layout:.20}, this acqh reads {LAYOUT}; open it with the "
                    "acqh that made it, or build the collection again"
                )
            _check_schema(connection, path)
            store.generation = read_text(connection, "generation")
    except BaseException:
        store.close()
        raise
    return store


def checksum(*fields: str | bytes) -> int:
    """Return a checksum over fields; which byte belongs to which field counts."""
    total = 0
    for field in fields:
        content = field.encode() if isinstance(field, str) else field
        total = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), total))
    return total


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise CorruptBundleError if a file defines anything but the tables of acqh.

    A view in place of a table could keep a search busy for ever, and a trigger could change what
    is stored.

    Raises CorruptBundleError: there is something else, or something is missing.
    """
    with closing(sqlite3.connect(":memory:")) as other:
        other.executescript(SCHEMA)
        expected = set(other.execute(_DEFINITIONS))
    definitions = set(connection.execute(_DEFINITIONS))
    if definitions != expected:
        names = ", ".join(sorted({repr(name) for _, name, _, _ in definitions ^ expected}))
        raise CorruptBundleError(
            f"{path} is not as acqh makes it: its definition of {names:.200} is missing, "
            "changed or unknown"
        )
