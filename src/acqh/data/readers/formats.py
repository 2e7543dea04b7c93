"""Which reader a file needs, by its ending or by its first bytes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from os.path import commonpath
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh._core.fields import FIELDS
from acqh.data.multiview import MultiViewData
from acqh.data.readers.arrays import NpyFolder, NpzFile, npy_files
from acqh.data.readers.clip_retrieval import ClipRetrieval, is_clip_retrieval
from acqh.data.readers.columns import Options, Table, data_files, look
from acqh.data.readers.csv import CsvTable, JsonTable, csv_records, json_records, list_in
from acqh.data.readers.hdf5 import Hdf5File
from acqh.data.readers.hugging_face import dataset_files
from acqh.data.readers.matlab import MatTable
from acqh.data.readers.pieces import Pieces
from acqh.data.readers.rclip import RclipDatabase
from acqh.data.readers.tables import ArrowTable, arrow_records, list_parts
from acqh.data.readers.vectors import VectorFile, is_ground_truth
from acqh.data.readers.webdataset import TarTable, tar_files, tar_records
from acqh.data.readers.zarr import ZARR_MARKS, ZarrGroup
from acqh.errors import DatasetNotFoundError, InvalidInputError

_COMMON = ("views", "labels", "ids", "label_names", "max_bytes")


# A new kind is a Table, and a place here.
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

# What is described, and how many numbers beside it are a vector at least.
_DESCRIBED, _FEWEST = (*FIELDS["image"].names, *FIELDS["text"].names), 16

_EXPECTED = {
    "views": "a mapping such as {'image': NAME}",
    "splits": "a mapping such as {'train': NAME, 'test': NAME}",
    "label_names": "a list of names",
    "max_bytes": "a positive whole number",
    "fill_missing": "True or False",
}


def read(path: str | PathLike[str], **options: Any) -> MultiViewData:
    """Read a whole file, or folder, of any known kind.

    Parameters
    ----------
    path : path
        ``.npz``, a folder of ``.npy`` files (memory-mapped) or of folders of them, a Zarr group in
        a folder, ``.mat``, ``.parquet``, ``.arrow`` or a folder of them, ``.csv``; a file of one
        matrix (``.npy``, ``.fvecs``, ``.bvecs``, ``.ivecs``, ``.fbin``, ``.u8bin``, ``.i8bin``,
        ``.ibin``, or a Faiss index, ``.faiss`` or ``.index``). A file without a known ending is
        told by its first bytes.
    **options
        Each has a usual value.

        - `views` (``{"image": NAME}``), `labels`, `ids`: the arrays, columns or variables to take.
          The matrix of a file of one matrix is called ``vectors``. Of a ``.mat`` file in parts,
          ``{"train": NAME, "test": NAME}`` stands for a name.
        - `label_names`: the labels there are, in order; class numbers may count them.
        - `max_bytes`: how much may be unpacked, if it is far more than the file has.
        - `splits` (``{"train": NAME, "test": NAME}``) of ``.npz``, ``.npy``, Zarr and ``.mat``:
          arrays of row numbers.
        - `label_separator` of CSV: what stands between the labels of one item.
        - `orientation` of ``.mat``: "rows" or "columns", where items are.
        - `fill_missing` of Zarr: True takes a chunk that is not there as one that has the array's
          fill value everywhere.

    Returns
    -------
    MultiViewData
        With the official split where the file gives one.

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    CorruptBundleError
        The file is damaged. Nothing in a file is ever executed.
    InvalidInputError, ViewError, LabelError, DuplicateIdError
        The file cannot be understood, or its contents do not fit together.
    MissingExtraError
        The kind of file needs a package that is not installed.

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
        return look(table, chosen).read_whole(table)


def list_pieces(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    chunk_size: int = 65_536,
    **options: Any,
) -> Pieces:
    """Cut the rows of a file, or folder, into pieces that can be read apart.

    Pieces can be read in any order and, since they can be pickled, by other processes that see the
    same files. `read_pieces` reads them one after the other.

    Parameters
    ----------
    path : path, or sequence of paths
        As in `read`; or Parquet or Arrow files, whose rows follow one another.
    chunk_size : int, default 65,536
        Rows of a piece; the last one may have fewer.
    **options
        As in `read`.

    Returns
    -------
    Pieces
        A sequence of `Piece`. Every piece has the same views and label columns, and none the
        official split, which is of the whole. Items of a file without ids are numbered through.

    Raises
    ------
    DatasetNotFoundError, CorruptBundleError, InvalidInputError, ViewError, LabelError
        As `read` raises them; mistakes in rows are found when these are read. Ids are compared
        within a piece, not across pieces.
    MissingExtraError
        The kind of file needs a package that is not installed.

    Notes
    -----
    What has to be known before, labels that are in use and the number of rows, is read here. A
    piece then reads its own rows from arrays, and the row groups or record batches it touches from
    tables. Into a ``.mat`` or CSV file and an array that is compressed in a ``.npz`` file there is
    no such way: a process that reads a piece reads these whole.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/pets.npz", image=np.eye(5), labels=[0, 1, 0, 2, 2])
    ...     pieces = list_pieces(f"{folder}/pets.npz", chunk_size=2)
    ...     len(pieces), pieces.n_items, pieces[1].read()
    (3, 5, MultiViewData('pets': 2 items; image 5 float64; 3 labels))
    """
    check_positive_int(chunk_size, "chunk_size")
    if isinstance(path, Iterable) and not isinstance(path, str | PathLike):
        files = [_find_table(each).absolute() for each in path]
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
        return Pieces(look(table, chosen), chunk_size)


def read_records(path: str | PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    r"""Yield the rows of a table of items that are not features yet, with the place of each.

    Parameters
    ----------
    path : path
        CSV, TSV (all values are str), JSON lines, Parquet or Arrow, by its ending; a WebDataset
        ``.tar``; or a folder of tar, Parquet or Arrow files. Images of the last two are bytes.

    Yields
    ------
    place : str
        The file and the line or row, for messages.
    row : dict of str to value

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    CorruptBundleError
        A Parquet or Arrow file is damaged.
    InvalidInputError
        The file is of another kind, or a line cannot be read; the line is named.

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
        with _detect(place)(place, Options()):  # which says what is wrong with other files
            raise InvalidInputError(
                f"{place.name} has no items with images or texts; known endings are "
                f"{', '.join(_RECORDS)}"
            )
    return _RECORDS[ending](place)


def has_records(path: str | PathLike[str]) -> bool:
    """Whether `read_records` reads a file or folder."""
    return _record_ending(Path(path)) is not None


def _record_ending(place: Path) -> str | None:
    """Return the ending of the files that have a path's records, or None."""
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
    """Whether a file or folder brings vectors, and not only images and texts to be described."""
    place = _find(path)
    try:
        form = _detect(place)
        if form in (CsvTable, JsonTable, ArrowTable) and has_records(place):
            _, first = next(read_records(place), ("", {}))
            # Beside images and texts a few numbers are a box, or a colour.
            least = _FEWEST if any(name.lower() in _DESCRIBED for name in first) else 1
            lengths = [len(list_in(value) or []) for value in first.values()]
            return max(lengths, default=0) >= least or (least == 1 and _has_numbered(first))
        with form(place, Options()) as table:
            return any(entry.is_view_like for entry in table.entries.values())
    except InvalidInputError:
        return False


def _has_numbered(names: Iterable[str]) -> bool:
    return any(name.endswith("_0") for name in names)


def _find(path: Any) -> Path:
    if not isinstance(path, str | PathLike):
        raise InvalidInputError(f"give the path of a file, got {path!r}")
    place = Path(path)
    if not place.exists():
        raise DatasetNotFoundError(f"there is no file or folder {place}")
    return place


def _find_table(path: Any) -> Path:
    place = _find(path)
    if place.is_dir() or _detect(place) is not ArrowTable:
        raise InvalidInputError(f"{place} is not a Parquet or Arrow file; only these can be listed")
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
            f"{path.name} has not the size of the ground truth of big-ann that its first numbers "
            "promise; if it holds vectors, its name must end in .fbin, .u8bin or .i8bin"
        )
    known = ", ".join(suffix for form in _TABLES for suffix in form.suffixes)
    raise InvalidInputError(
        f"{path.name} has an unknown file type; known endings are {known}, and folders of .npy, "
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


def _make_options(form: type[Table], given: Mapping[str, Any]) -> Options:
    """Return the options of a caller; refuse those of other formats, and of the wrong type."""
    known = [each.name for each in fields(Options) if each.name in (*_COMMON, *form.own_options)]
    for name, value in given.items():
        if name not in known:
            raise InvalidInputError(
                f"{form.title} files are read with the options {', '.join(known)}, not {name!r}"
            )
        if value is not None and not _is_valid(name, value, in_parts=form is MatTable):
            raise InvalidInputError(
                f"{name} must be {_EXPECTED.get(name, 'a name')}, got {value!r}"
            )
    options = Options(**given)
    if options.label_names is None:
        return options
    return Options(**{**given, "label_names": tuple(str(name) for name in options.label_names)})


def _is_valid(name: str, value: Any, *, in_parts: bool) -> bool:
    if name == "views":
        return _are_names(value) or (
            in_parts
            and isinstance(value, Mapping)
            and all(isinstance(each, str) or _are_names(each) for each in value.values())
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
        and all(isinstance(each, str) for pair in value.items() for each in pair)
    )
