"""Which reader a file needs, by its ending or by its first bytes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from os.path import commonpath
from pathlib import Path
from typing import Any

from acqh._core.arrays import check_positive_int
from acqh.data.multiview import MultiViewData
from acqh.data.readers import tables
from acqh.data.readers.csv import (
    CsvOptions,
    find_csv_rows,
    read_csv,
    read_manifest_file,
    read_manifest_file_chunks,
)
from acqh.data.readers.limits import CHUNK_SIZE
from acqh.data.readers.manifest import Manifest
from acqh.data.readers.matlab import MatOptions, find_mat_rows, read_mat
from acqh.data.readers.npz import ArrayOptions, ZarrOptions, find_array_rows, read_arrays
from acqh.data.readers.options import NamedOptions, as_path, check_option, is_mapping_of_names
from acqh.data.readers.paired import find_paired_rows, is_paired
from acqh.data.readers.parquet import TableOptions, find_table_rows
from acqh.data.readers.pieces import Pieces, RowSource, read_pieces
from acqh.data.readers.vectors import VECTOR_SUFFIXES, VectorOptions, find_vector_rows
from acqh.data.readers.zarr import ZARR_MARKS
from acqh.errors import DatasetNotFoundError, InvalidInputError


@dataclass(frozen=True)
class _Format:
    """How files of one kind are recognised and read."""

    name: str
    suffixes: tuple[str, ...]
    magics: tuple[bytes, ...]
    options: type[Any]
    # Of a path, for pieces of this many rows.
    find_rows: Callable[[Path, int, Any], RowSource]
    # Where all rows need not be looked at before they are read.
    read: Callable[[Path, Any], MultiViewData] | None = None


_ARRAYS = _Format("NumPy", (".npz",), (b"PK\x03\x04",), ArrayOptions, find_array_rows, read_arrays)
_ZARR = _Format("Zarr", (), (), ZarrOptions, find_array_rows, read_arrays)
_PAIRED = _Format("paired", (), (), NamedOptions, find_paired_rows)
_TABLE = _Format(
    "Parquet or Arrow",
    tables.TABLE_SUFFIXES,
    (tables.PARQUET_MAGIC, tables.ARROW_MAGIC),
    TableOptions,
    find_table_rows,
)
_MATLAB = _Format(
    "Matlab", (".mat",), (b"MATLAB 5.0", b"MATLAB 7.3"), MatOptions, find_mat_rows, read_mat
)
_CSV = _Format("CSV", (".csv", ".tsv"), (), CsvOptions, find_csv_rows, read_csv)
_VECTORS = _Format(
    "vector",
    VECTOR_SUFFIXES,
    (b"IxF2", b"IxFI"),  # flat indexes of Faiss
    VectorOptions,
    find_vector_rows,
)
_FORMATS = (_ARRAYS, _MATLAB, _TABLE, _CSV, _VECTORS)


def read(path: str | PathLike[str], **options: Any) -> MultiViewData:
    """Read a whole file, or folder, of any known kind.

    Parameters
    ----------
    path : path
        ``.npz``, a folder of ``.npy`` files (memory-mapped), a Zarr group in a folder, ``.mat``,
        ``.parquet``, ``.arrow`` or a folder of them, ``.csv``; a file of one matrix (``.npy``,
        ``.fvecs``, ``.bvecs``, ``.ivecs``, ``.fbin``, ``.u8bin``, ``.i8bin``, ``.ibin``, or a Faiss
        index, ``.faiss`` or ``.index``); or a folder with a folder for each view and for the
        labels. A file without a known ending is told by its first bytes.
    **options
        By kind of file; each has a usual value.

        - ``.npz`` and ``.npy``: `views` (``{"image": ARRAY}``), `labels`, `ids` (names of
          arrays), `label_names`, `extra` (True appends the rows of ``extra_...`` arrays),
          `max_bytes` (how much the arrays may take).
        - Zarr: the same, and `fill_missing` (True takes a chunk that is not there as one that has
          the array's fill value everywhere).
        - ``.mat``: `variables` (``{"image": NAME, "labels": NAME}``, or for each a mapping of
          train, database, test to names), `orientation` ("rows" or "columns": where items are),
          `label_names`, `max_bytes`.
        - Parquet and Arrow: `views` (``{"image": COLUMN}``), `labels`, `ids` (columns),
          `label_names`, `max_bytes`.
        - A folder of folders: `views` (``{"image": FOLDER}``), `labels`, `ids` (folders),
          `label_names`.
        - CSV: `image`, `text`, `labels`, `ids` (columns), `label_names`, `label_separator`.
        - A file of one matrix: `view` (what to call it, ``"vectors"`` by default).

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
    place = as_path(path)
    form = _detect(place, options)
    chosen = _make_options(form, options)
    if form.read is not None:
        return form.read(place, chosen)
    return form.find_rows(place, CHUNK_SIZE, chosen).whole()


def read_chunks(
    path: str | PathLike[str], *, chunk_size: int = CHUNK_SIZE, **options: Any
) -> Iterator[MultiViewData]:
    """Read a file, or folder, a given number of rows at a time.

    Every chunk has the same views and label columns. Of ``.npz``, ``.npy``, Zarr, Parquet, Arrow
    and CSV files no more than a chunk is in memory; a ``.mat`` file is read whole and then cut.

    Parameters
    ----------
    path : path
        As in `read`.
    chunk_size : int
        Rows of a chunk; the last one may have fewer.
    **options
        As in `read`, but for `extra`.

    Yields
    ------
    MultiViewData
        Without the official split, which is of the whole. Items of a file without ids are
        numbered through all chunks.

    Notes
    -----
    The errors are those of `read`, some only when the chunk with the mistake is reached. Ids are
    compared within a chunk, not across chunks.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/pets.npz", image=np.eye(5), labels=[0, 1, 0, 2, 2])
    ...     [chunk.ids.tolist() for chunk in read_chunks(f"{folder}/pets.npz", chunk_size=2)]
    [[0, 1], [2, 3], [4]]
    """
    return read_pieces(list_pieces(path, chunk_size=chunk_size, **options))


def list_pieces(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    chunk_size: int = 65_536,
    **options: Any,
) -> Pieces:
    """Cut the rows of a file, or folder, into pieces that can be read apart.

    Pieces can be read in any order and, since they can be pickled, by other processes that see the
    same files. Read in order they are the chunks of `read_chunks`.

    Parameters
    ----------
    path : path, or sequence of paths
        As in `read`; or Parquet or Arrow files, whose rows follow one another.
    chunk_size : int, default 65,536
        Rows of a piece; the last one may have fewer.
    **options
        As in `read`, but for `extra`.

    Returns
    -------
    Pieces
        A sequence of `Piece`.

    Raises
    ------
    DatasetNotFoundError, CorruptBundleError, InvalidInputError, ViewError, LabelError
        As `read` raises them; mistakes in rows are found when these are read.
    MissingExtraError
        The kind of file needs a package that is not installed.

    Notes
    -----
    What has to be known before, labels that are in use and the number of rows, is read here:
    columns of labels whole, and of CSV files all lines, but no numbers. A piece then reads its own
    rows from arrays, and the row groups or record batches it touches from tables. Into a ``.mat``
    file and an array that is compressed in a ``.npz`` file there is no such way: each piece
    reads the former whole, and unpacks the latter up to its rows.

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
    if not isinstance(path, str | PathLike):
        files = [_find_table(each).absolute() for each in _listed(path)]
        if not files:
            raise InvalidInputError("the list of files is empty; give at least one")
        folder = Path(commonpath([file.parent for file in files]))
        rows = find_table_rows(folder, chunk_size, _make_options(_TABLE, options), files)
        return Pieces(rows, chunk_size)
    place = Path(path)
    form = _detect(place, options)
    return Pieces(form.find_rows(place, chunk_size, _make_options(form, options)), chunk_size)


def read_manifest(path: str | PathLike[str], **options: Any) -> Manifest:
    r"""Read a CSV file of images and texts that have no features yet.

    Parameters
    ----------
    path : path
        CSV (or TSV) in UTF-8 with a header; images are named relative to the file.
    **options
        `image`, `text`, `labels`, `ids`: the columns, by default those names (``id`` for ids).
        `label_separator`: between the labels of one item, by default ``|``. `label_names`: all
        labels there are, in order.

    Returns
    -------
    Manifest
        Its ``with_views`` makes MultiViewData once the items are encoded.

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    InvalidInputError, DuplicateIdError, LabelError
        The file cannot be understood; the line is named.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "photos.csv"
    ...     _ = table.write_text("image,text,labels\na.jpg,a red dress,people|portrait\n")
    ...     read_manifest(table)
    Manifest('photos': 1 items; 2 labels; items image, text)
    """
    return read_manifest_file(_find(path), _make_options(_CSV, options))


def read_manifest_chunks(
    path: str | PathLike[str], *, chunk_size: int = CHUNK_SIZE, **options: Any
) -> Iterator[Manifest]:
    """Read a CSV file of images and texts, a given number of rows at a time.

    Parameters
    ----------
    path, **options
        As in `read_manifest`.
    chunk_size : int
        Rows of a chunk; the last one may have fewer.

    Yields
    ------
    Manifest
        All with the same label columns.
    """
    check_positive_int(chunk_size, "chunk_size")
    return read_manifest_file_chunks(_find(path), chunk_size, _make_options(_CSV, options))


def _find(path: str | PathLike[str]) -> Path:
    place = as_path(path)
    if not place.exists():
        raise DatasetNotFoundError(f"there is no file or folder {place}")
    return place


def _find_table(path: str | PathLike[str]) -> Path:
    place = _find(path)
    if _detect(place, {}) is not _TABLE or place.is_dir():
        raise InvalidInputError(f"{place} is not a Parquet or Arrow file; only these can be listed")
    return place


def _detect(path: Path, options: Mapping[str, Any]) -> _Format:
    _find(path)
    if path.is_dir():
        return _detect_folder(path, options)
    for form in _FORMATS:
        if path.suffix.lower() in form.suffixes:
            return form
    with path.open("rb") as handle:
        head = handle.read(16)
    for form in _FORMATS:
        if form.magics and head.startswith(form.magics):
            return form
    known = ", ".join(suffix for form in _FORMATS for suffix in form.suffixes)
    raise InvalidInputError(
        f"{path.name} has an unknown file type; known endings are {known}, and folders of .npy, "
        "Parquet or Arrow files"
    )


def _detect_folder(path: Path, options: Mapping[str, Any]) -> _Format:
    if any((path / mark).exists() for mark in ZARR_MARKS):
        return _ZARR
    if any(path.glob("*.npy")):
        return _ARRAYS
    views = options.get("views")
    if is_paired(path, views if is_mapping_of_names(views) else None):
        return _PAIRED
    if any(file.suffix.lower() in _TABLE.suffixes for file in path.rglob("*")):
        return _TABLE
    raise InvalidInputError(
        f"the folder {path.name} has no .npy, Parquet or Arrow files and is not a Zarr group"
    )


def _make_options(form: _Format, options: dict[str, Any]) -> Any:
    known = [field.name for field in fields(form.options)]
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"{form.name} files are read with the options {', '.join(known)}, not {name!r}"
            )
        check_option(name, options[name])
    return form.options(**options)


def _listed(paths: Any) -> Iterable[Any]:
    return paths if isinstance(paths, Iterable) else [as_path(paths)]
