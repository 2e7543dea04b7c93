"""The layout of .npz files and .npy folders: which array is a view, the labels, the ids, ..."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Matrix
from acqh.data.readers.arrays import ArrayStore, Rows
from acqh.data.readers.limits import (
    check_compressed,
    check_indices,
    check_pointer_count,
    check_some_pointers,
)
from acqh.data.readers.options import NamedOptions
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError

CSR_PIECES = ("_data", "_indices", "_indptr", "_shape")
TEXT_PIECES = ("_utf8", "_offsets")
LABEL_NAMES = ("labels", "class_id")
ID_NAMES = ("ids", "image_id")
ITEM_PREFIX = "item_"
PRESENT_PREFIX = "present_"
EXTRA_PREFIX = "extra_"
SPLIT_SUFFIX = "_idx"
# Names by which files call labels that the reader does not take by itself, whatever their case.
LIKELY_LABELS = ("label", "labels", "l", "y", "class", "classes", "target", "targets")
_PREFIXES = (ITEM_PREFIX, PRESENT_PREFIX, EXTRA_PREFIX)
# Views by these names are meant to be read: one with other rows is a mistake, not a stranger.
_WELL_KNOWN_VIEWS = ("image", "text")


@dataclass(frozen=True)
class Entry:
    """One array, CSR matrix or text column of a store, not loaded yet."""

    name: str
    shape: tuple[int, ...]
    kind: str  # of the values, as NumPy's dtype.kind
    form: str = "array"  # or "csr", "text"

    @property
    def is_view_like(self) -> bool:
        """Whether it is a matrix of numbers."""
        return len(self.shape) == 2 and self.kind in "buif"


@dataclass(frozen=True)
class Layout:
    """Which entry is what, and how many rows they have."""

    n_items: int
    views: Mapping[str, Entry]
    labels: Entry | None
    ids: Entry | None
    label_names: Entry | None
    present: Mapping[str, Entry] = field(default_factory=dict)
    items: Mapping[str, Entry] = field(default_factory=dict)
    splits: Mapping[str, Entry] = field(default_factory=dict)


def find_entries(store: ArrayStore) -> dict[str, Entry]:
    """Return what a store holds, in its order, pieces of CSR matrices and texts put together."""
    headers = store.headers
    owner = {name: name for name in headers}
    forms = dict.fromkeys(headers, "array")
    for name in headers:
        stem = name.removesuffix("_indptr")
        if stem != name and f"{stem}_indices" in headers:
            missing = [stem + piece for piece in CSR_PIECES if stem + piece not in headers]
            if missing:
                raise CorruptBundleError(
                    f"the sparse matrix {stem!r} of {store.path.name} lacks {', '.join(missing)}"
                )
            owner |= {stem + piece: stem for piece in CSR_PIECES}
            forms[stem] = "csr"
        stem = name.removesuffix("_utf8")
        if stem != name and f"{stem}_offsets" in headers:
            owner |= {stem + piece: stem for piece in TEXT_PIECES}
            forms[stem] = "text"
    for stem, form in forms.items():
        if form != "array" and stem in headers:
            raise CorruptBundleError(f"{store.path.name} has {stem!r} both whole and in pieces")
    return {stem: _entry(store, stem, forms[stem]) for stem in owner.values()}


def _entry(store: ArrayStore, name: str, form: str) -> Entry:
    if form == "csr":
        kind = store.headers[f"{name}_data"].dtype.kind
        return Entry(name, _csr_shape(store, name), kind, form)
    if form == "text":
        n_offsets = math.prod(store.headers[f"{name}_offsets"].shape)
        return Entry(name, (max(n_offsets - 1, 0),), "U", form)
    header = store.headers[name]
    return Entry(name, header.shape, header.dtype.kind, form)


def _csr_shape(store: ArrayStore, stem: str) -> tuple[int, int]:
    name = f"{stem}_shape"
    header = store.headers[name]
    if header.shape != (2,) or header.dtype.kind not in "iu":
        raise CorruptBundleError(f"{name} of {store.path.name} must be two whole numbers")
    rows, columns = store.load(name).tolist()
    if not (0 <= rows < 2**62 and 0 <= columns < 2**62):
        raise CorruptBundleError(f"{name} of {store.path.name} is {rows} x {columns}")
    return rows, columns


def choose(entries: Mapping[str, Entry], file: str, options: NamedOptions) -> Layout:
    """Decide what each entry is, by its name and its number of rows.

    By default the labels are ``labels`` or ``class_id``, ids ``ids`` or ``image_id``, and views all
    matrices of numbers with as many rows. `file`: what to call the file in an error. Raises
    InvalidInputError: a name that was given is not there, or what the views are cannot be told.
    Raises ViewError: views called image or text have other row counts than the labels.
    """
    labels = _named(entries, options.labels, LABEL_NAMES, file, "labels")
    ids = _named(entries, options.ids, ID_NAMES, file, "ids")
    if options.views is None:
        if labels is None:
            _refuse_likely_labels(entries, file)
        own = {*LABEL_NAMES, *ID_NAMES, options.labels, options.ids}
        views, n_items = _guess_views(entries, labels or ids, own, file)
    else:
        views = {view: _get(entries, name, file, view) for view, name in options.views.items()}
        n_items = next((entry.shape[0] for entry in views.values() if entry.shape), 0)
    # Ids by a usual name belong to the rows only if they are as many.
    if options.ids is None and ids is not None and ids.shape != (n_items,):
        ids = None
    layout = Layout(
        n_items=n_items,
        views=views,
        labels=labels,
        ids=ids,
        label_names=entries.get("label_names"),
        present=_prefixed(entries, PRESENT_PREFIX, views),
        items=_prefixed(entries, ITEM_PREFIX),
        splits={
            name.removesuffix(SPLIT_SUFFIX): entry
            for name, entry in entries.items()
            if name.endswith(SPLIT_SUFFIX)
            and not name.startswith(_PREFIXES)
            and len(entry.shape) == 1
        },
    )
    _check_rows(layout, file)
    return layout


def _refuse_likely_labels(entries: Mapping[str, Entry], file: str) -> None:
    """Refuse to take for a view, or to pass over, what may be the labels."""
    for name in entries:
        if name.lower() in LIKELY_LABELS:
            raise InvalidInputError(
                f"{file} has no array 'labels', but one called {name!r}; rename it: to 'labels' if "
                "it holds the labels, to another name if it is a view. Python can also read it as "
                f"it is: labels={name!r}, or views={{'image': NAME}}"
            )


def _check_rows(layout: Layout, file: str) -> None:
    others = [layout.labels, layout.ids, *layout.present.values(), *layout.items.values()]
    for entry in (*layout.views.values(), *(other for other in others if other is not None)):
        if not entry.shape or entry.shape[0] != layout.n_items:
            raise ViewError(
                f"{file}: {entry.name!r} has {entry.shape[0] if entry.shape else 'no'} rows, but "
                f"there are {layout.n_items} items; everything is paired by row"
            )


def _get(entries: Mapping[str, Entry], name: str, file: str, what: str) -> Entry:
    if name not in entries:
        raise InvalidInputError(
            f"{file} has no array {name!r}, named for {what!r}; {describe(entries)}"
        )
    return entries[name]


def _named(
    entries: Mapping[str, Entry], given: str | None, usual: tuple[str, ...], file: str, what: str
) -> Entry | None:
    if given is not None:
        return _get(entries, given, file, what)
    return next((entries[name] for name in usual if name in entries), None)


def _prefixed(
    entries: Mapping[str, Entry], prefix: str, wanted: Mapping[str, Any] | None = None
) -> dict[str, Entry]:
    found = {n.removeprefix(prefix): e for n, e in entries.items() if n.startswith(prefix)}
    return {name: entry for name, entry in found.items() if wanted is None or name in wanted}


def _guess_views(
    entries: Mapping[str, Entry], counter: Entry | None, own: set[str | None], file: str
) -> tuple[dict[str, Entry], int]:
    """Return every matrix that pairs with `counter`, the labels or ids, and the row count."""
    matrices = {
        name: entry
        for name, entry in entries.items()
        if entry.is_view_like and name not in own and not name.startswith(_PREFIXES)
    }
    hint = f"{describe(entries)}; say which are the views with views={{'image': NAME}}"
    if counter is not None and counter.shape:
        n_items = counter.shape[0]
    else:
        counts = {entry.shape[0] for entry in matrices.values()}
        if len(counts) != 1:
            found = "matrices of different row counts" if counts else "no matrix of numbers"
            raise InvalidInputError(f"{file} has neither labels nor ids, and {found}; {hint}")
        n_items = counts.pop()
    views = {name: entry for name, entry in matrices.items() if entry.shape[0] == n_items}
    for name in _WELL_KNOWN_VIEWS:
        if name in matrices and name not in views:
            raise ViewError(
                f"{file}: view {name!r} has {matrices[name].shape[0]} rows, but there are "
                f"{n_items} items; views are paired by row"
            )
    if not views:
        raise InvalidInputError(f"{file} has no matrix of numbers with {n_items} rows; {hint}")
    return views, n_items


def describe(entries: Mapping[str, Entry]) -> str:
    """Return a list of what there is, for an error."""
    if not entries:
        return "it is empty"
    shown = (f"{n} {' x '.join(map(str, e.shape)) or 'scalar'}" for n, e in entries.items())
    return f"it has: {', '.join(shown)}"


def load(store: ArrayStore, entry: Entry) -> Matrix:
    """Return a whole entry: an array, a csr_array, or an array of str objects."""
    if entry.form == "array":
        return store.load(entry.name)
    if entry.form == "text":
        return _text_rows(store, entry)(0, entry.shape[0])
    data, indices, indptr = (store.load(entry.name + piece) for piece in CSR_PIECES[:3])
    n_rows, columns = entry.shape
    check_compressed(_where(store, entry), indptr, indices, data, (n_rows, columns))
    return _csr(data, indices, indptr, (n_rows, columns))


def rows(store: ArrayStore, entry: Entry) -> Rows:
    """Return a function that gives some rows of an entry."""
    if entry.form == "array":
        return store.rows(entry.name)
    if entry.form == "text":
        return _text_rows(store, entry)
    return _csr_rows(store, entry)


def _pointer_rows(store: ArrayStore, name: str, where: str, n_rows: int, n_stored: int) -> Rows:
    """Return a function that gives where some rows start, and where the last of them ends."""
    header = store.headers[name]
    check_pointer_count(where, header.shape, header.dtype, n_rows)
    take = store.rows(name)
    end, end_pointer = -1, np.empty(0, np.int64)

    def pointers(start: int, stop: int) -> Array:
        nonlocal end, end_pointer
        # The last pointer is kept: a compressed array would be unpacked again to go one row back.
        if start == end:
            found = np.concatenate([end_pointer, take(start + 1, stop + 1).astype(np.int64)])
        else:
            found = take(start, stop + 1).astype(np.int64)
        end, end_pointer = stop, found[-1:].copy()
        check_some_pointers(where, found, start, n_rows, n_stored)
        return found

    return pointers


def _csr_rows(store: ArrayStore, entry: Entry) -> Rows:
    n_rows, columns = entry.shape
    where = _where(store, entry)
    counts = [store.headers[entry.name + piece].shape for piece in CSR_PIECES[:2]]
    if counts[0] != counts[1] or len(counts[0]) != 1:
        raise CorruptBundleError(
            f"{where} is damaged: its data have shape {counts[0]}, its indices {counts[1]}"
        )
    pointers_of = _pointer_rows(store, f"{entry.name}_indptr", where, n_rows, counts[0][0])
    data_of, indices_of = (store.rows(entry.name + piece) for piece in CSR_PIECES[:2])

    def take(start: int, stop: int) -> Matrix:
        pointers = pointers_of(start, stop)
        stored = int(pointers[0]), int(pointers[-1])
        data, indices = data_of(*stored), indices_of(*stored)
        check_indices(where, indices, columns)
        return _csr(data, indices, pointers - pointers[0], (stop - start, columns))

    return take


def _text_rows(store: ArrayStore, entry: Entry) -> Rows:
    where = _where(store, entry)
    header = store.headers[f"{entry.name}_utf8"]
    if len(header.shape) != 1 or header.dtype != np.uint8:
        raise CorruptBundleError(f"{where} is damaged: its text is not bytes")
    offsets_of = _pointer_rows(
        store, f"{entry.name}_offsets", where, entry.shape[0], header.shape[0]
    )
    bytes_of = store.rows(f"{entry.name}_utf8")

    def take(start: int, stop: int) -> Array:
        ends = offsets_of(start, stop)
        buffer = bytes_of(int(ends[0]), int(ends[-1])).tobytes()
        ends -= ends[0]
        try:
            texts = [buffer[a:b].decode("utf-8") for a, b in itertools.pairwise(ends.tolist())]
        except UnicodeDecodeError as error:
            raise CorruptBundleError(f"{where} is damaged: {error}") from error
        return np.fromiter(texts, dtype=object, count=stop - start)

    return take


def _csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> Matrix:
    # Of arrays as wide as these SciPy would keep the wide type; and it wants one for both.
    fits = max(shape[1], len(indices)) < np.iinfo(np.int32).max
    index = np.int32 if fits else np.int64
    return sp.csr_array(
        (data, indices.astype(index, copy=False), indptr.astype(index, copy=False)), shape=shape
    )


def _where(store: ArrayStore, entry: Entry) -> str:
    return f"{entry.name!r} of {store.path.name}"
