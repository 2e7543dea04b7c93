"""Read .npz files, folders of .npy files and Zarr groups, whole or some rows at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Matrix
from acqh.data.multiview import MultiViewData
from acqh.data.readers import columns
from acqh.data.readers.arrays import ArrayStore, NpyFolder, NpzStore
from acqh.data.readers.classes import Classes, find_classes
from acqh.data.readers.columns import EXTRA_PREFIX, Entry, Layout
from acqh.data.readers.limits import check_names_have_labels
from acqh.data.readers.options import NamedOptions
from acqh.data.readers.pieces import ReadRows, RowSource
from acqh.data.readers.zarr import ZarrStore
from acqh.errors import CorruptBundleError, InvalidInputError


@dataclass(frozen=True)
class ArrayOptions(NamedOptions):
    """What a caller may say about a store of arrays."""

    extra: bool = False
    max_bytes: int | None = None


@dataclass(frozen=True)
class ZarrOptions(ArrayOptions):
    """What a caller may say about a Zarr group."""

    fill_missing: bool = False


def read_arrays(path: Path, options: ArrayOptions) -> MultiViewData:
    """Read a whole file; the arrays of a folder stay memory-mapped."""
    with _open(path, options) as store:
        entries = columns.find_entries(store)
        layout = columns.choose(entries, path.name, options)
        classes = _settle_classes(store, layout, options)
        splits = {part: store.load(entry.name) for part, entry in layout.splits.items()}
        data = _load(store, layout, classes, splits)
        if not options.extra:
            return data
        extra_layout = _extra_layout(entries, path, options)
        extra = _load(store, extra_layout, classes)
    has_ids = layout.ids is not None and extra_layout.ids is not None
    ids = None if has_ids else np.arange(len(data) + len(extra))
    return MultiViewData.concat([data, extra], ids=ids)._replace(splits=data.splits)


@dataclass(frozen=True)
class ArrayRows(RowSource):
    """The rows of a store of arrays: which array is what, and the label columns of all rows."""

    layout: Layout
    classes: Classes
    options: ArrayOptions

    @contextmanager
    def open(self) -> Iterator[ReadRows]:
        """Open the file for its rows."""
        takes: dict[str, Callable[[int, int], Any]] = {}
        with _open(self.path, self.options) as store:
            entries = columns.find_entries(store)

            def take(entry: Entry, start: int, stop: int) -> Matrix:
                if entry.name not in takes:
                    if entries.get(entry.name) != entry:
                        raise CorruptBundleError(
                            f"{entry.name!r} of {self.path.name} has changed since it was listed"
                        )
                    takes[entry.name] = columns.rows(store, entry)
                return takes[entry.name](start, stop)

            def read(start: int, stop: int) -> MultiViewData:
                get = partial(take, start=start, stop=stop)
                return _build(self.layout, self.classes, get, range(start, stop), self.path.stem)

            yield read

    def files(self) -> Iterable[Path]:
        """Return the files that rows are read from."""
        if isinstance(self.options, ZarrOptions):
            return (file for file in self.path.rglob("*") if file.is_file())
        return self.path.glob("*.npy") if self.path.is_dir() else [self.path]


def find_array_rows(path: Path, _: int, options: ArrayOptions) -> ArrayRows:
    """Look at what a store holds, without reading its rows."""
    with _open(path, options) as store:
        layout = columns.choose(columns.find_entries(store), path.name, options)
        classes = _settle_classes(store, layout, options)
        return ArrayRows(path, layout.n_items, layout, classes, options)


def _open(path: Path, options: ArrayOptions) -> AbstractContextManager[ArrayStore]:
    if isinstance(options, ZarrOptions):
        return nullcontext(ZarrStore(path, options.max_bytes, options.fill_missing))
    if path.is_dir():
        return nullcontext(NpyFolder(path))
    return NpzStore(path, options.max_bytes)


def _load(
    store: ArrayStore, layout: Layout, classes: Classes, splits: Mapping[str, Array] | None = None
) -> MultiViewData:
    get = partial(columns.load, store)
    return _build(layout, classes, get, range(layout.n_items), store.path.stem, splits)


def _build(
    layout: Layout,
    classes: Classes,
    get: Callable[[Entry], Matrix],
    rows: range,
    name: str,
    splits: Mapping[str, Array] | None = None,
) -> MultiViewData:
    """Make data of some rows; `get` gives those of an entry."""
    return MultiViewData(
        {view: get(entry) for view, entry in layout.views.items()},
        None if layout.labels is None else classes.named(get(layout.labels)),
        ids=np.arange(rows.start, rows.stop) if layout.ids is None else get(layout.ids),
        items={column: get(entry) for column, entry in layout.items.items()},
        label_names=classes.names,
        present={view: get(entry) for view, entry in layout.present.items()},
        splits=splits,
        name=name,
    )


def _settle_classes(store: ArrayStore, layout: Layout, options: ArrayOptions) -> Classes:
    """Fix the label columns for all chunks alike."""
    names = options.label_names
    if layout.labels is None:
        check_names_have_labels(names, store.path)
        return Classes()
    if names is None and layout.label_names is not None:
        stored = store.load(layout.label_names.name)
        if stored.ndim != 1 or stored.dtype.kind not in "UO":
            raise CorruptBundleError(
                f"label_names of {store.path.name} must be a list of strings, got dtype "
                f"{stored.dtype} and shape {stored.shape}"
            )
        names = stored.tolist()
    names = None if names is None else tuple(str(name) for name in names)
    if len(layout.labels.shape) != 1:
        return Classes(names)
    take = columns.rows(store, layout.labels)
    return find_classes(take, layout.n_items, names, store.path.name)


def _extra_layout(entries: Mapping[str, Entry], path: Path, options: ArrayOptions) -> Layout:
    """Lay out the further rows that lack a view, in arrays called ``extra_...``."""
    extra = {
        name.removeprefix(EXTRA_PREFIX): entry
        for name, entry in entries.items()
        if name.startswith(EXTRA_PREFIX)
    }
    if not extra:
        raise InvalidInputError(f"{path.name} has no extra_ arrays; read it without extra=True")
    views = options.views
    if views is not None:
        views = {view: name for view, name in views.items() if name in extra}
    return columns.choose(extra, path.name, replace(options, views=views))
