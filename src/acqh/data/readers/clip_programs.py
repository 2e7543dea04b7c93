"""Vectors of CLIP that other programs have made: folders of clip-retrieval, databases of rclip."""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.data.readers.arrays import NpyFolder, npy_files
from acqh.data.readers.columns import ITEM_PREFIX, Entry, Role, Table, check_unpacked_size, guarded
from acqh.data.readers.tables import ArrowTable
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError

_VIEWS = {"img_emb": "image", "text_emb": "text"}
_METADATA, _CAPTION = "metadata", "caption"


def is_clip_retrieval(path: Path) -> bool:
    """Whether a folder has the layout of clip-retrieval."""
    folders = npy_files(path)
    return bool(folders) and folders.keys() <= _VIEWS.keys()


class ClipRetrieval(Table):
    """The views ``image`` and ``text``, in files of equal rows, and the columns of metadata."""

    is_paired = True
    title, noun = "clip-retrieval", "column"

    def _open(self) -> None:
        path, options, parts = self.path, self.options, self.parts
        # The names of the folders are accepted for the views.
        views = {view: _VIEWS.get(name, name) for view, name in (options.views or {}).items()}
        self.options = replace(options, views=views or None)
        of_views = {name: parts[name] for name in _VIEWS if name in parts}
        vectors = NpyFolder(path, options, of_views)
        self._tables: dict[str, tuple[Table, Entry]] = {
            _VIEWS[name]: (vectors, entry)
            for name, entry in vectors.entries.items()
            if name in _VIEWS
        }
        self.parts = {name: vectors.parts[name] for name in _VIEWS if name in vectors.parts}
        if next((path / _METADATA).glob("*.parquet"), None) is not None:
            facts = ArrowTable(path / _METADATA, options, {"": parts[""]} if parts else None)
            self.parts |= facts.parts
            for name, entry in facts.entries.items():
                shown = "text" if name == _CAPTION and "text" not in facts.entries else name
                shown = ITEM_PREFIX + shown if shown in self._tables else shown
                self._tables[shown] = facts, entry
        self.entries = {
            name: replace(entry, name=name) for name, (_, entry) in self._tables.items()
        }

    def take(self, entry: Entry, start: int, stop: int) -> Any:
        """Return some rows of a column."""
        table, stored = self._tables[entry.name]
        return table.take(stored, start, stop)

    def take_all(self, columns: Sequence[tuple[Role, Entry]], start: int, stop: int) -> list[Any]:
        """Return rows of several columns, with one pass per table."""
        values: dict[int, Any] = {}
        places = [(role, *self._tables[entry.name]) for role, entry in columns]
        for table in {id(table): table for _, table, _ in places}.values():
            numbers = [number for number, (_, owner, _) in enumerate(places) if owner is table]
            stored = [(places[number][0], places[number][2]) for number in numbers]
            values |= zip(numbers, table.take_all(stored, start, stop), strict=True)
        return [values[number] for number in range(len(columns))]


_IMAGE, _FILE = "image", "filepath"
_THERE = "FROM images WHERE deleted IS NULL OR deleted = 0"
_WIDTHS = f"SELECT count(*), min(length(vector)), max(length(vector)) {_THERE}"
_ROWS = {
    _IMAGE: f"SELECT vector {_THERE} ORDER BY id LIMIT ? OFFSET ?",
    _FILE: f"SELECT filepath {_THERE} ORDER BY id LIMIT ? OFFSET ?",
}

# Only ordinary tables: views and virtual tables may compute endless rows.
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE %'"
# Maximum size of a value; vectors and paths take a few kilobytes.
_MAX_VALUE_BYTES = 2**20
# Steps of SQLite's machine between two checks, and per byte of the file at most: a row takes some
# 20 steps and hundreds of bytes, and is read a few times.
_STEPS, _MAX_STEPS_PER_BYTE = 10_000, 100


class RclipDatabase(Table):
    """The table ``images``: the view ``image``, and paths as ids.

    Raises CorruptBundleError: the file is damaged. Raises InvalidInputError: it is of another
    program.
    """

    is_paired = True
    title, noun = "rclip", "column"
    suffixes, magics = (".sqlite3", ".sqlite", ".db"), (b"SQLite format 3\x00",)

    def _open(self) -> None:
        path, self.options = self.path, replace(self.options, ids=self.options.ids or _FILE)
        with self._guarded():
            uri = f"{path.absolute().as_uri()}?mode=ro"
            self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self.opened.callback(self._database.close)
            self._restrict(path.stat().st_size)
            names = {name for (name,) in self._ask(_TABLES)}
            # Generated columns, which may hold values of any size, are not listed.
            listed = self._ask("PRAGMA table_info(images)") if "images" in names else ()
            if missing := {_FILE, "id", "vector", "deleted"} - {name for _, name, *_ in listed}:
                raise InvalidInputError(
                    f"{path.name} is no database of rclip: it lacks the table images with "
                    f"{', '.join(sorted(missing))}; its tables are "
                    f"{', '.join(sorted(names)) or 'none'}"
                )
            ((n_rows, least, most),) = self._ask(_WIDTHS)
        check_unpacked_size(path, n_rows * (most or 0), path.stat().st_size, self.options.max_bytes)
        if n_rows and (least != most or not least or least % 4):
            raise ViewError(
                f"{path.name} has vectors of {least} to {most} bytes; all must be of one model"
            )
        self.entries = {
            _IMAGE: Entry(_IMAGE, (n_rows, (most or 4) // 4), "f"),
            _FILE: Entry(_FILE, (n_rows,), "O"),
        }

    def _restrict(self, file_size: int) -> None:
        """Limit the size of values and the work of queries: the file is untrusted."""
        self._database.execute("PRAGMA trusted_schema = OFF")
        self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        # A damaged tree of pages may repeat the same rows endlessly.
        ticks = iter(range(_MAX_STEPS_PER_BYTE * file_size // _STEPS + 1))
        self._database.set_progress_handler(lambda: next(ticks, None) is None, _STEPS)

    def _guarded(self) -> AbstractContextManager[None]:
        return guarded(self.path.name, sqlite3.Error, UnicodeError, problem="cannot be read")

    def _ask(self, question: str, *values: int) -> list[tuple[Any, ...]]:
        return self._database.execute(question, values).fetchall()

    def take(self, entry: Entry, start: int, stop: int) -> Array:
        """Return some rows of a column."""
        with self._guarded():
            values = [value for (value,) in self._ask(_ROWS[entry.name], stop - start, start)]
        if entry.name != _IMAGE:
            return np.array([str(value) for value in values])
        if any(not isinstance(value, bytes) for value in values):
            raise CorruptBundleError(f"{self.path.name} has vectors that are no bytes")
        return np.frombuffer(b"".join(values), "<f4").reshape(-1, entry.shape[1])
