"""Indexes as bundles: what an index is made of, and its parts, a member each."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError
from acqh.index.items.checks import read_count, require
from acqh.index.items.ids import NumberIds, RunningIds
from acqh.index.items.snapshot import MAX_ROWS, Part, S, Snapshot
from acqh.io import Bundle, write_bundle

# Counts up when parts are stored in another way; older ways stay readable.
_LAYOUT = 1
_SETTINGS = "settings"
# Begins the names of arrays in it that whoever saved the index keeps along.
_KEPT = "kept "


def write_snapshot(
    path: str | os.PathLike[str],
    snapshot: Snapshot[S],
    *,
    kind: str,
    name: str,
    settings: tuple[Mapping[str, Array], Mapping[str, Any]],
    caller: Mapping[str, Any],
    arrays: Mapping[str, Array],
) -> None:
    """Save one state of an index in place of the bundle at the path.

    `kind`, `name`: of the bundle. `settings`: (arrays, info); what the index is made with: named
    arrays, and values that JSON can hold. `caller`: what whoever saves it keeps along with it;
    values that JSON can hold. `arrays`: arrays to keep along with it.
    """
    kept = {f"{_KEPT}{array}": values for array, values in arrays.items()}
    members: dict[str, Mapping[str, Array]] = {_SETTINGS: {**settings[0], **kept}}
    parts = []
    for number, part in enumerate(snapshot.parts):
        members[_member(number)], info = part.to_arrays()
        parts.append(info)
    info = {
        "layout": _LAYOUT,
        "settings": dict(settings[1]),
        "n_items": len(snapshot),
        "id_kind": snapshot.kind,
        "next_number": snapshot.next_number,
        "parts": parts,
        "caller": dict(caller),
    }
    write_bundle(path, kind=kind, name=name, info=info, arrays=members)


def read_caller(bundle: Bundle) -> dict[str, Any]:
    """Return what was saved along with an index; nothing in bundles from before there was any."""
    caller = bundle.info.get("caller", {})
    if not isinstance(caller, dict):
        raise CorruptBundleError("what was saved along with the index is not a dictionary")
    return caller


def read_kept(bundle: Bundle) -> dict[str, Array]:
    """Return the arrays that were saved along with an index."""
    stored = bundle.arrays(_SETTINGS)
    return {name[len(_KEPT) :]: stored[name] for name in stored if name.startswith(_KEPT)}


def read_settings(bundle: Bundle) -> tuple[dict[str, Array], Mapping[str, Any]]:
    """Return what the index is made with, as given to `write_snapshot`.

    Raises CorruptBundleError: the bundle holds no index, or one of a layout that is not known.
    """
    layout = read_count(bundle.info, "layout")
    if layout > _LAYOUT:
        raise CorruptBundleError(
            f"the index has layout {layout}; this acqh reads layouts up to {_LAYOUT}: install a "
            "newer acqh"
        )
    info = bundle.info.get("settings")
    if layout < 1 or not isinstance(info, Mapping):
        raise CorruptBundleError("the settings of an index are missing")
    return bundle.arrays(_SETTINGS), info


def read_snapshot(
    bundle: Bundle, segment_type: type[S], take_segment: Callable[[S], S]
) -> Snapshot[S]:
    """Return the saved state; its arrays are those of the bundle, not copies.

    Checks what searches rely on to stay within the arrays; `verify_snapshot` reads the rest.

    `take_segment`: returns a segment with what the settings add to it; refuses one that does not
    fit them. Raises CorruptBundleError: the bundle contradicts itself.
    """
    id_kind, stored = bundle.info.get("id_kind"), bundle.info.get("parts")
    if not isinstance(stored, list) or bundle.members != (
        _SETTINGS,
        *map(_member, range(len(stored))),
    ):
        raise CorruptBundleError("the parts of an index are missing")
    parts = []
    for number, info in enumerate(stored):
        if not isinstance(info, Mapping):
            raise CorruptBundleError(f"part {number} is described wrongly")
        part: Part[S] = Part.from_arrays(segment_type, bundle.arrays(_member(number)), info)
        part = replace(part, segment=take_segment(part.segment))
        require(part.ids.kind == id_kind, "id_kind")
        parts.append(part)
    require(id_kind in (None, "number", "text"), "id_kind")
    snapshot = Snapshot(tuple(parts), id_kind, read_count(bundle.info, "next_number"))
    require(len(snapshot) == read_count(bundle.info, "n_items"), "n_items")
    require(int(snapshot.first_rows[-1]) <= MAX_ROWS, "n_rows")
    return snapshot


def verify_snapshot(snapshot: Snapshot[S]) -> None:
    """Read every value of a saved state.

    Raises CorruptBundleError: values contradict each other: no index can have been in this state.
    """
    for part in snapshot.parts:
        part.verify()
        if isinstance(part.ids, RunningIds | NumberIds):
            require(part.ids.largest() < snapshot.next_number, "next_number")
    if len(snapshot.parts) > 1:
        # An id in two parts is found in the later one both times.
        require(bool(np.all(np.diff(snapshot.find(snapshot.ids())) > 0)), "ids")


def _member(number: int) -> str:
    return f"part {number}"
