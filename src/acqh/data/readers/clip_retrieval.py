"""Output of clip-retrieval's inference: vectors in folders, metadata in Parquet files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acqh.data.readers.arrays import NpyFolder, npy_files
from acqh.data.readers.columns import ITEM_PREFIX, Entry, Role, Table
from acqh.data.readers.tables import ArrowTable

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
        values_by_column: dict[int, Any] = {}
        owners = [
            (number, role, *self._tables[entry.name])
            for number, (role, entry) in enumerate(columns)
        ]
        for table in {id(table): table for table, _ in self._tables.values()}.values():
            own_columns = [
                (number, role, entry) for number, role, other, entry in owners if other is table
            ]
            values = table.take_all([(role, entry) for _, role, entry in own_columns], start, stop)
            values_by_column |= zip((number for number, *_ in own_columns), values, strict=True)
        return [values_by_column[number] for number in range(len(columns))]
