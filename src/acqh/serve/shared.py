"""Results that the workers of a server share: the first that needs one computes it for all."""

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from acqh.serve.metrics import FOLDER

# A worker waits this long for another that computes; one that dies releases its lock.
_WAIT_SECONDS = 3_600


class Shared:
    """One stored result per name, in a folder of the supervisor or, without one, of this process.

    SQLite's locks work on every platform, and end with the process that holds them.
    """

    def __init__(self) -> None:
        folder = os.environ.get(FOLDER)
        self._own = None if folder else tempfile.TemporaryDirectory(prefix="acqh-shared-")
        self._folder = Path(folder or self._own.name)  # type: ignore[union-attr]

    def get(
        self, name: str, key: str, version: int, seconds: float, compute: Callable[[], bytes]
    ) -> bytes:
        """Return the stored result, or compute and store it while other processes wait.

        The stored one is returned if it has this key, and either this version (-1 equals none) or
        an age of less than some seconds.
        """
        path = self._folder / f"{name}.sqlite"
        with closing(sqlite3.connect(path, _WAIT_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE IF NOT EXISTS result (key, version, time, value)")
            stored = connection.execute("SELECT * FROM result").fetchone()
            if (
                stored is not None
                and stored[0] == key
                and (version == stored[1] >= 0 or time.time() - stored[2] < seconds)
            ):
                return bytes(stored[3])
            value = compute()
            connection.execute("DELETE FROM result")
            row = key, version, time.time(), value
            connection.execute("INSERT INTO result VALUES (?, ?, ?, ?)", row)
            connection.execute("COMMIT")
            return value

    def close(self) -> None:
        """Remove the folder, if it is this process's own."""
        if self._own is not None:
            self._own.cleanup()
