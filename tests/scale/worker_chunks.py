"""Chunks whose reading tests can observe; workers must be able to import this module."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Deadly:
    """A chunk whose first reader writes its process id and then waits to be killed."""

    chunk: Any
    marker: Path

    def __len__(self):
        return len(self.chunk)

    def read(self):
        if take(self.marker):
            threading.Event().wait()
        return self.chunk.read()


@dataclass(frozen=True)
class Late:
    """A chunk that can be read only when the others have been."""

    chunk: Any
    marker: Path
    others: tuple[Path, ...]

    def __len__(self):
        return len(self.chunk)

    def read(self):
        while not all(other.exists() for other in self.others):
            threading.Event().wait(0.01)
        take(self.marker)
        return self.chunk.read()


@dataclass(frozen=True)
class Broken:
    """A chunk that cannot be read."""

    chunk: Any
    error: Exception

    def __len__(self):
        return len(self.chunk)

    def __repr__(self):
        return "<the broken chunk>"

    def read(self):
        raise self.error


def take(marker):
    """Write the process id to a file atomically; return False if the file exists."""
    mine = marker.with_suffix(f".{os.getpid()}")
    mine.write_text(str(os.getpid()))
    try:
        os.link(mine, marker)
    except FileExistsError:
        return False
    return True
