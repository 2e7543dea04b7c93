"""Chunks that workers read in a way that a test can see; workers must be able to import this."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Deadly:
    """A piece whose first reader says who it is and then waits to be killed."""

    piece: Any
    marker: Path

    def __len__(self):
        return len(self.piece)

    def read(self):
        if take(self.marker):
            threading.Event().wait()
        return self.piece.read()


@dataclass(frozen=True)
class Late:
    """A piece that can be read only when the others have been."""

    piece: Any
    marker: Path
    others: tuple[Path, ...]

    def __len__(self):
        return len(self.piece)

    def read(self):
        while not all(other.exists() for other in self.others):
            threading.Event().wait(0.01)
        take(self.marker)
        return self.piece.read()


@dataclass(frozen=True)
class Broken:
    """A piece that cannot be read."""

    piece: Any
    error: Exception

    def __len__(self):
        return len(self.piece)

    def __repr__(self):
        return "<the broken piece>"

    def read(self):
        raise self.error


def take(marker):
    """Write the process id to a file, whole, unless another was first; say whether it was not."""
    mine = marker.with_suffix(f".{os.getpid()}")
    mine.write_text(str(os.getpid()))
    try:
        os.link(mine, marker)
    except FileExistsError:
        return False
    return True
