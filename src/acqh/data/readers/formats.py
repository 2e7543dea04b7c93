"""Select the reader of a file by its extension or its first bytes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from os.path import commonpath
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh._core.fields import FIELDS
from acqh._core.runtime import suggest
from acqh.data.multiview import MultiViewData
from acqh.data.readers.arrays import NpyFolder, NpzFile, npy_files
from acqh.data.readers.chunks import Chunks
from acqh.data.readers.clip_programs import ClipRetrieval, RclipDatabase, is_clip_retrieval
from acqh.data.readers.columns import Options, Table, data_files, resolve_columns
from acqh.data.readers.csv import CsvTable, JsonTable, csv_records, json_records, list_in
from acqh.data.readers.groups import ZARR_MARKS, Hdf5File, ZarrGroup
from acqh.data.readers.matlab import MatTable
from acqh.data.readers.tables import ArrowTable, arrow_records, dataset_files, list_parts
from acqh.data.readers.vectors import VectorFile, is_ground_truth
from acqh.data.readers.webdataset import TarTable, tar_files, tar_records
from acqh.errors import DatasetNotFoundError, InvalidInputError

_COMMON = ("views", "labels", "ids", "label_names", "max_bytes")


# To add a format, write a Table and list it here.
_TABLES: tuple[type[Table], ...] = (
    *(NpzFile, MatTable, ArrowTable, CsvTable, JsonTable, VectorFile),
    *(Hdf5File, TarTable, RclipDatabase),
)
_RECORDS = {
    **dict.fromkeys(CsvTable.suffixes[:2], csv_records),
    **dict.fromkeys(JsonTable.suffixes, json_records),
    **dict.fromkeys(ArrowTable.suffixes, arrow_records),
    **dict.fromkeys(TarTable.suffixes, tar_records),
}

# Columns that acqh encodes, and the minimum length of a vector in a table that has them.
_ENCODED, _MIN_WIDTH = (*FIELDS["image"].names, *FIELDS["text"].names), 16

_EXPECTED = {
    "views": "a mapping such as {'image': NAME}",
    "splits": "a mapping such as {'train': NAME, 'test': NAME}",
    "label_names": "a list of names",
    "max_bytes": "a positive whole number",
    "fill_missing": "True or False",
}


def read(path: str | PathLike[str], **options: Any) -> MultiViewData:
    """Read a file or folder of any supported format.

    Parameters
    ----------
    path : path
        A file with named arrays or columns: ``.npz``, ``.mat``, ``.parquet``, ``.arrow``,
        ``.csv``. A folder: ``.npy`` files (memory-mapped) or subfolders with them, Parquet or
        Arrow files, or a Zarr group. A file with one matrix: ``.npy``, ``.fvecs``, ``.bvecs``,
        ``.ivecs``, ``.fbin``, ``.u8bin``, ``.i8bin``, ``.ibin``, or a Faiss index (``.faiss``,
        ``.index``). The first bytes identify a file with another extension.
    **options
        All optional.

        - `views` (``{"image": NAME}``), `labels`, `ids`: the arrays, columns or variables to read.
          The matrix of a file with one matrix is called ``vectors``. For a ``.mat`` file in parts,
          pass ``{"train": NAME, "test": NAME}`` instead of a name.
        - `label_names`: all labels in order; class numbers index them.
        - `max_bytes`: limit of the unpacked size.
        - `splits` (``{"train": NAME, "test": NAME}``) for ``.npz``, ``.npy``, Zarr and ``.mat``:
          arrays of row numbers.
        - `label_separator` for CSV: the separator between the labels of one item.
        - `orientation` for ``.mat``: "rows" or "columns", the axis of the items.
        - `fill_missing` for Zarr: True replaces missing chunks by the array's fill value.

    Returns
    -------
    MultiViewData
        With the official split if the file has one.

    Raises
    ------
    DatasetNotFoundError
        The file does not exist.
    CorruptBundleError
        The file is damaged. acqh never executes content of files.
    InvalidInputError, ViewError, LabelError, DuplicateIdError
        The format is unknown, or the contents are inconsistent.
    MissingExtraError
        The format needs a package that is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/pets.npz", image=np.eye(3), text=np.eye(3, 5), labels=[0, 1, 0])
    ...     read(f"{folder}/pets.npz")
    MultiViewData('pets': 3 items; image 3 float64, text 5 float64; 2 labels)
    """
    place = _find(path)
    form = _detect(place)
    chosen = _make_options(form, options)
    with form(place, chosen) as table:
        return resolve_columns(table, chosen).read_whole(table)


def list_chunks(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    chunk_size: int = 65_536,
    **options: Any,
) -> Chunks:
    """Divide the rows of a file or folder into chunks that can be read independently.

    Chunks can be read in any order. They are picklable, so other processes with the same files
    can read them too. `read_chunks` reads them in order.

    Parameters
    ----------
    path : path, or sequence of paths
        As in `read`; or a list of Parquet or Arrow files, which are concatenated.
    chunk_size : int, default 65,536
        Rows per chunk; the last one may have fewer.
    **options
        As in `read`.

    Returns
    -------
    Chunks
        A sequence of `Chunk`. Every chunk has the same views and label columns, and no official
        split. In a file without ids, the id of an item is its row number.

    Raises
    ------
    DatasetNotFoundError, CorruptBundleError, InvalidInputError, ViewError, LabelError
        The errors of `read`; errors in rows are raised when their chunk is read. Duplicate ids
        are detected within a chunk, not across chunks.
    MissingExtraError
        The format needs a package that is not installed.

    Notes
    -----
    This function reads the labels in use and the number of rows. A chunk then reads only its
    rows of arrays, and only the row groups or record batches that contain them. ``.mat`` and CSV
    files and compressed arrays of ``.npz`` files have no random access: a process that reads a
    chunk reads them as a whole.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/pets.npz", image=np.eye(5), labels=[0, 1, 0, 2, 2])
    ...     chunks = list_chunks(f"{folder}/pets.npz", chunk_size=2)
    ...     len(chunks), chunks.n_items, chunks[1].read()
    (3, 5, MultiViewData('pets': 2 items; image 5 float64; 3 labels))
    """
    check_positive_int(chunk_size, "chunk_size")
    if isinstance(path, Iterable) and not isinstance(path, str | PathLike):
        files = [_find_table(file).absolute() for file in path]
        if not files:
            raise InvalidInputError("the list of files is empty; give at least one")
        place = Path(commonpath([file.parent for file in files]))
        chosen = _make_options(ArrowTable, options)
        table: Table = ArrowTable(place, chosen, list_parts(files))
    else:
        place = _find(path)
        form = _detect(place)
        chosen = _make_options(form, options)
        table = form(place, chosen)
    with table:
        return Chunks(resolve_columns(table, chosen), chunk_size)


def read_records(path: str | PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    r"""Yield the rows of a table of items with images or texts, with the place of each row.

    Parameters
    ----------
    path : path
        CSV, TSV (all values are str), JSON lines, Parquet or Arrow, by its ending; a WebDataset
        ``.tar``; or a folder of tar, Parquet or Arrow files. Tar, Parquet and Arrow files give
        images as bytes.

    Yields
    ------
    place : str
        The file and the line or row, for messages.
    row : dict of str to value

    Raises
    ------
    DatasetNotFoundError
        The file does not exist.
    CorruptBundleError
        A Parquet or Arrow file is damaged.
    InvalidInputError
        The format is not supported, or a line is invalid; the message names the line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "pets.jsonl"
    ...     _ = table.write_text('{"text": "a dog"}\n')
    ...     list(read_records(table))
    [('pets.jsonl, line 1', {'text': 'a dog'})]
    """
    place = _find(path)
    ending = _record_ending(place)
    if ending is None:
        with _detect(place)(place, Options()):  # raises for unknown and damaged files
            raise InvalidInputError(
                f"{place.name} has no items with images or texts; supported endings are "
                f"{', '.join(_RECORDS)}"
            )
    return _RECORDS[ending](place)


def has_records(path: str | PathLike[str]) -> bool:
    """Whether `read_records` supports a file or folder."""
    return _record_ending(Path(path)) is not None


def _record_ending(place: Path) -> str | None:
    """Return the ending of the files with the records of a path, or None."""
    if not place.is_dir():
        ending = place.suffix.lower()
        return ending if ending in _RECORDS else None
    if tar_files(place):
        return TarTable.suffixes[0]
    is_table = dataset_files(place) or any(
        data_files(folder.iterdir(), ArrowTable.suffixes)
        for folder in (place, place / "data")
        if folder.is_dir()
    )
    return ArrowTable.suffixes[0] if is_table else None


def has_views(path: str | PathLike[str]) -> bool:
    """Whether a file or folder contains vectors, not only images and texts to encode."""
    place = _find(path)
    try:
        form = _detect(place)
        if form in (CsvTable, JsonTable, ArrowTable) and has_records(place):
            _, first = next(read_records(place), ("", {}))
            # In a table of images and texts, a few numbers are a bounding box or a colour.
            least = _MIN_WIDTH if any(name.lower() in _ENCODED for name in first) else 1
            lengths = [len(list_in(value) or []) for value in first.values()]
            is_numbered = least == 1 and any(name.endswith("_0") for name in first)
            return max(lengths, default=0) >= least or is_numbered
        with form(place, Options()) as table:
            return any(entry.is_view_like for entry in table.entries.values())
    except InvalidInputError:
        return False


def _find(path: Any) -> Path:
    if not isinstance(path, str | PathLike):
        raise InvalidInputError(f"path must be a str or path, got {path!r}")
    place = Path(path)
    if not place.exists():
        raise DatasetNotFoundError(f"no such file or folder: {place}")
    return place


def _find_table(path: Any) -> Path:
    place = _find(path)
    if place.is_dir() or _detect(place) is not ArrowTable:
        raise InvalidInputError(
            f"{place} is not a Parquet or Arrow file; a list must contain only these"
        )
    return place


def _detect(path: Path) -> type[Table]:
    if path.is_dir():
        return _detect_folder(path)
    for form in _TABLES:
        if path.suffix.lower() in form.suffixes:
            return form
    with path.open("rb") as handle:
        head = handle.read(16)
    for form in _TABLES:
        if form.magics and head.startswith(form.magics):
            return form
    if is_ground_truth(path):
        return VectorFile
    if path.suffix.lower() == ".bin":
        raise InvalidInputError(
            f"{path.name} is not a valid big-ann ground-truth file: its size does not match its "
            "header; if it holds vectors, rename it to end in .fbin, .u8bin or .i8bin"
        )
    endings = ", ".join(suffix for form in _TABLES for suffix in form.suffixes)
    raise InvalidInputError(
        f"{path.name} has an unknown file type; supported are {endings}, and folders of .npy, "
        "Parquet or Arrow files"
    )


def _detect_folder(path: Path) -> type[Table]:
    if any((path / mark).exists() for mark in ZARR_MARKS):
        return ZarrGroup
    if is_clip_retrieval(path):
        return ClipRetrieval
    if npy_files(path):
        return NpyFolder
    if tar_files(path):
        return TarTable
    if any(file.suffix.lower() in ArrowTable.suffixes for file in path.rglob("*")):
        return ArrowTable
    raise InvalidInputError(
        f"the folder {path.name} has no .npy, Parquet, Arrow or tar files and is not a Zarr group"
    )


def _make_options(form: type[Table], requested: Mapping[str, Any]) -> Options:
    """Return the caller's options; reject options of other formats and values of a wrong type."""
    allowed = [
        option.name for option in fields(Options) if option.name in (*_COMMON, *form.own_options)
    ]
    for name, value in requested.items():
        if name not in allowed:
            raise InvalidInputError(
                f"unknown option {name!r} for {form.title} files{suggest(name, allowed)}; "
                f"options are {', '.join(allowed)}"
            )
        if value is not None and not _is_valid(name, value, in_parts=form is MatTable):
            raise InvalidInputError(
                f"{name} must be {_EXPECTED.get(name, 'a name')}, got {value!r}"
            )
    options = Options(**requested)
    names = options.label_names
    return options if names is None else replace(options, label_names=tuple(map(str, names)))


def _is_valid(name: str, value: Any, *, in_parts: bool) -> bool:
    if name == "views":
        return _are_names(value) or (
            in_parts
            and isinstance(value, Mapping)
            and all(isinstance(names, str) or _are_names(names) for names in value.values())
        )
    if name == "splits":
        return _are_names(value)
    if name == "label_names":
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if name == "max_bytes":
        return isinstance(value, int | np.integer) and bool(value > 0)
    if name == "fill_missing":
        return isinstance(value, bool)
    return isinstance(value, str) or (name == "labels" and in_parts and _are_names(value))


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(name, str) for pair in value.items() for name in pair)
    )
