"""Base of all indexes: items by id, in immutable snapshots, safe to search during changes."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Generic, Self

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError, InvalidInputError, UnknownIdError
from acqh.index.checks import frozen, read_count, require
from acqh.index.ids import IdKind, NumberIds, RunningIds, read_ids
from acqh.index.snapshot import MAX_ROWS, NewIds, Part, S, Snapshot, check_kind
from acqh.io import Bundle, read_bundle, write_bundle

# Version of the stored layout.
_LAYOUT = 1
_SETTINGS = "settings"
# Begins the names of arrays that the caller saves along with the index.
_KEPT = "kept "


class BaseIndex(ABC, Generic[S]):
    """Items by id, in immutable snapshots.

    A subclass checks, lays out and searches codes. A change takes a lock, builds a new snapshot and
    replaces the current one atomically. A reader uses the snapshot that is current when it starts,
    and never waits.
    """

    _kind: ClassVar[str]  # of the bundles it is saved as
    _segment_type: ClassVar[type[Any]]

    def __init__(self, bytes_per_code: int) -> None:
        self._bytes_per_code = bytes_per_code
        self._snapshot: Snapshot[S] = Snapshot()
        self._info: dict[str, Any] = {}
        self._info_arrays: dict[str, Array] = {}
        self._change = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle or copy: the arrays and values of a saved index."""
        snapshot = self._snapshot
        return {
            "settings": self._settings(),
            "parts": [part.to_arrays() for part in snapshot.parts],
            "ids": (snapshot.kind, snapshot.next_number),
            "info": (self._info, self._info_arrays),
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(vars(self._of_settings(*state["settings"])))
        parts = (
            self._read_part({name: frozen(array) for name, array in arrays.items()}, info)
            for arrays, info in state["parts"]
        )
        self._snapshot = Snapshot(tuple(parts), *state["ids"])
        self._info, self._info_arrays = state["info"]

    @abstractmethod
    def _check_codes(self, codes: Any) -> Array:
        """Return the codes in the layout of `_segment_of`; raise InvalidInputError."""

    @abstractmethod
    def _segment_of(self, codes: Array) -> S:
        """Lay out checked codes, one per row."""

    @abstractmethod
    def _settings(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the arguments of the constructor: named arrays, and JSON values."""

    @classmethod
    @abstractmethod
    def _of_settings(cls, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Self:
        """Return an empty index with these `_settings`; raise CorruptBundleError."""

    @abstractmethod
    def _take_segment(self, segment: S) -> S:
        """Return a segment read from a file with the codebooks of this index.

        Raises CorruptBundleError if it does not fit the settings.
        """

    def __len__(self) -> int:
        return len(self._snapshot)

    def __contains__(self, identifier: object) -> bool:
        snapshot = self._snapshot
        return snapshot.row_of(identifier) >= 0

    @property
    def id_kind(self) -> IdKind | None:
        """Type of the ids: "number" or "text"; None in a new index."""
        return self._snapshot.kind

    @property
    def ids(self) -> Array:
        """The ids, in order of insertion: (n_items,) int64, or object for texts."""
        return self._snapshot.ids()

    @property
    def codes(self) -> Array:
        """The codes, in order of insertion: (n_items, bytes per item) uint8."""
        codes = [
            part.segment.codes()[part.live_rows() if part.live.size else slice(None)]
            for part in self._snapshot.parts
        ]
        if len(codes) == 1:
            return codes[0]
        return np.concatenate([np.empty((0, self._bytes_per_code), dtype=np.uint8), *codes])

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory for the items: codes, row numbers and ids."""
        return sum(part.nbytes + part.ids.nbytes for part in self._snapshot.parts)

    @property
    def bytes_per_item(self) -> float:
        """Bytes of codes and row numbers, without ids, divided by the number of items."""
        snapshot = self._snapshot
        return sum(part.nbytes for part in snapshot.parts) / max(len(snapshot), 1)

    def add(self, codes: Any, ids: Any = None) -> Self:
        """Add items.

        Parameters
        ----------
        codes : (n, bytes per item) integers
        ids : iterable of n whole numbers or of n str, optional
            All numbers or all str; -1 is reserved for missing items of results. Default: running
            numbers, from one more than the largest number ever used.

        Returns
        -------
        self

        Raises
        ------
        DuplicateIdError
            An id occurs twice or already exists; nothing was added. Use `upsert` to replace.
        InvalidInputError
            Codes or ids of the wrong shape, type or range; nothing was added.
        """
        codes = self._check_codes(codes)
        with self._change:
            snapshot, new = self._snapshot, NewIds(self._snapshot)
            new.append_new(ids, len(codes))
            if new.n:
                self._snapshot = snapshot.with_rows(self._segment_of(codes), new)
        return self

    def upsert(self, codes: Any, ids: Any) -> Self:
        """Add items; replace those with the same ids.

        A replaced item counts as inserted now, which matters for ties.

        Parameters
        ----------
        codes : (n, bytes per item) integers
        ids : iterable of n whole numbers or of n str

        Returns
        -------
        self

        Raises
        ------
        DuplicateIdError
            An id occurs twice in `ids`; nothing was changed.
        InvalidInputError
            Codes or ids of the wrong shape, type or range; nothing was changed.
        """
        codes = self._check_codes(codes)
        if ids is None:
            raise InvalidInputError("upsert requires ids; call add to number new items")
        with self._change:
            snapshot, new = self._snapshot, NewIds(self._snapshot)
            table = new.append(ids, len(codes))
            rows = snapshot.find(table.take(np.arange(len(table))))
            if new.n:
                rest = snapshot.without(rows[rows >= 0])
                self._snapshot = rest.with_rows(self._segment_of(codes), new)
        return self

    def remove(self, ids: Any) -> Self:
        """Remove items.

        Parameters
        ----------
        ids : iterable of whole numbers or of str
            An id that occurs twice is removed once.

        Returns
        -------
        self

        Raises
        ------
        UnknownIdError
            An id is unknown; nothing was removed.
        InvalidInputError
            The ids are not of this index's kind.
        """
        to_remove = read_ids(ids)
        with self._change:
            snapshot = self._snapshot
            check_kind(snapshot.kind, to_remove)
            rows = snapshot.find(to_remove)
            if (rows < 0).any():
                unknown = to_remove[rows < 0][:1].tolist()[0]
                raise UnknownIdError(f"no item has the id {unknown!r}; nothing was removed")
            self._snapshot = snapshot.without(np.unique(rows))
        return self

    def compact(self) -> Self:
        """Merge all segments and free the memory of removed items. Optional: speeds up searches.

        Returns
        -------
        self
        """
        with self._change:
            self._snapshot = self._snapshot.joined()
        return self

    @property
    def info(self) -> dict[str, Any]:
        """Metadata that `save` stored with the loaded index."""
        return dict(self._info)

    @property
    def info_arrays(self) -> dict[str, Array]:
        """Arrays that `save` stored with the loaded index."""
        return dict(self._info_arrays)

    def save(
        self,
        path: str | PathLike[str],
        *,
        name: str = "",
        info: Mapping[str, Any] | None = None,
        arrays: Mapping[str, Array] | None = None,
    ) -> None:
        """Save the index as a bundle, atomically: an interruption leaves the old bundle complete.

        Saves the state at the start; searches and changes may go on meanwhile. Indexes loaded from
        the same path before, by any process, are not affected.

        Parameters
        ----------
        path : path-like
            A directory; created if it does not exist. Its parent must exist.
        name : str, default ""
            A title.
        info : mapping, optional
            JSON values to store with the index; the property `info` after `load`.
        arrays : mapping of str to ndarray, optional
            Arrays to store with the index; the property `info_arrays` after `load`.

        Raises
        ------
        FileExistsError
            The path is a file, or a directory with something other than a bundle in it.
        OSError
            Writing failed.
        """
        snapshot, (setting_arrays, settings) = self._snapshot, self._settings()
        caller_arrays = {f"{_KEPT}{key}": values for key, values in (arrays or {}).items()}
        members: dict[str, Mapping[str, Array]] = {_SETTINGS: {**setting_arrays, **caller_arrays}}
        parts = []
        for number, part in enumerate(snapshot.parts):
            members[_member(number)], part_info = part.to_arrays()
            parts.append(part_info)
        manifest = {
            "layout": _LAYOUT,
            "settings": settings,
            "n_items": len(snapshot),
            "id_kind": snapshot.kind,
            "next_number": snapshot.next_number,
            "parts": parts,
            "caller": dict(info or {}),
        }
        write_bundle(path, kind=self._kind, name=name, info=manifest, arrays=members)

    @classmethod
    def load(cls, path: str | PathLike[str], *, mmap: bool = True, verify: bool = False) -> Self:
        """Open a saved index.

        Parameters
        ----------
        path : path-like
            The bundle's directory.
        mmap : bool, default True
            Memory-map the files instead of reading them.
        verify : bool, default False
            Read every byte: check the SHA-256 of each file and the consistency of all values.

        Raises
        ------
        FileNotFoundError
            There is no bundle at the path.
        CorruptBundleError
            The bundle is damaged or of a newer version.
        InvalidInputError
            The bundle holds an object of another type.
        """
        bundle = read_bundle(path, kind=cls._kind, mmap=mmap, verify=verify)
        try:
            index = cls._of_bundle(bundle)
            if verify:
                _verify(index._snapshot)
        except CorruptBundleError as error:
            raise CorruptBundleError(f"{bundle.path}: {error}") from error
        return index

    @classmethod
    def _of_bundle(cls, bundle: Bundle) -> Self:
        """Read a saved index without copying its arrays.

        Checks shapes and offsets, so that no search reads outside an array; `_verify` reads the
        rest. Raises CorruptBundleError: inconsistent values, or another layout.
        """
        info = bundle.info
        layout, settings = read_count(info, "layout"), info.get("settings")
        if layout != _LAYOUT:
            raise CorruptBundleError(
                f"the index has layout {layout}; this acqh reads layout {_LAYOUT}: install the "
                "acqh that wrote it, or build the index again"
            )
        if not isinstance(settings, Mapping):
            raise CorruptBundleError("stored 'settings' of the index are missing")
        stored = bundle.arrays(_SETTINGS)
        index = cls._of_settings(stored, settings)
        index._snapshot = index._read_snapshot(bundle)
        index._info = info.get("caller", {})
        require(isinstance(index._info, dict), "caller")
        index._info_arrays = {
            name[len(_KEPT) :]: stored[name] for name in stored if name.startswith(_KEPT)
        }
        return index

    def _read_snapshot(self, bundle: Bundle) -> Snapshot[S]:
        id_kind, stored = bundle.info.get("id_kind"), bundle.info.get("parts")
        if not isinstance(stored, list) or bundle.members != (
            _SETTINGS,
            *map(_member, range(len(stored))),
        ):
            raise CorruptBundleError("stored 'parts' of the index are missing")
        parts: list[Part[S]] = []
        for number, info in enumerate(stored):
            if not isinstance(info, Mapping):
                raise CorruptBundleError(f"stored info of part {number} must be a dictionary")
            parts.append(self._read_part(bundle.arrays(_member(number)), info))
            require(parts[-1].ids.kind == id_kind, "id_kind")
        require(id_kind in (None, "number", "text"), "id_kind")
        snapshot = Snapshot(tuple(parts), id_kind, read_count(bundle.info, "next_number"))
        require(len(snapshot) == read_count(bundle.info, "n_items"), "n_items")
        require(int(snapshot.first_rows[-1]) <= MAX_ROWS, "n_rows")
        return snapshot

    def _read_part(self, arrays: Mapping[str, Array], info: Mapping[str, Any]) -> Part[S]:
        part: Part[S] = Part.from_arrays(self._segment_type, arrays, info)
        return replace(part, segment=self._take_segment(part.segment))

    def _locate(self, identifier: Any) -> tuple[Part[S], int]:
        """Return the part and the row within it of one item, or raise UnknownIdError."""
        snapshot = self._snapshot
        row = snapshot.row_of(identifier)
        if row < 0:
            raise UnknownIdError(f"no item has the id {identifier!r}")
        number = int(np.searchsorted(snapshot.first_rows, row, side="right")) - 1
        return snapshot.parts[number], row - int(snapshot.first_rows[number])


def _verify(snapshot: Snapshot[S]) -> None:
    """Read every value; raise CorruptBundleError if they are inconsistent."""
    for part in snapshot.parts:
        part.verify()
        if isinstance(part.ids, RunningIds | NumberIds):
            require(part.ids.largest() < snapshot.next_number, "next_number")
    if len(snapshot.parts) > 1:
        # An id in two parts is found in the later one both times.
        require(bool(np.all(np.diff(snapshot.find(snapshot.ids())) > 0)), "ids")


def _member(number: int) -> str:
    return f"part {number}"
