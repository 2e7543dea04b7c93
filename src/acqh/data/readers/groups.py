"""Named arrays of HDF5 files, such as those of ann-benchmarks, and of Zarr groups."""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.readers.arrays import ArrayTable, Header, native, reject_objects
from acqh.data.readers.columns import check_unpacked_size, guarded
from acqh.errors import CorruptBundleError, InvalidInputError

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Names of items and queries in files of ann-benchmarks.
_ITEMS, _QUERIES = "train", "test"


class Hdf5File(ArrayTable):
    """The arrays at the root of an HDF5 file, read by ranges of rows.

    Raises CorruptBundleError for a damaged file, MissingExtraError without h5py.
    """

    title, suffixes, magics = "HDF5", (".hdf5", ".h5"), (HDF5_MAGIC,)

    def _open(self) -> None:
        h5py, options = require("h5py"), self.options
        with reading(self.path):
            file = self.opened.enter_context(h5py.File(self.path, "r"))
            self._nodes: dict[str, Any] = dict(list_nodes(file, self.path))
            self.headers = {
                name: self._header(node)
                for name, node in self._nodes.items()
                if hasattr(node, "shape") and node.shape
            }
        self.list_entries()
        if options.views is None and {_ITEMS, _QUERIES} <= self.entries.keys():
            self.options = replace(options, views={_ITEMS: _ITEMS})

    def _header(self, node: Any) -> Header:
        is_text = require("h5py").check_string_dtype(node.dtype) is not None
        return Header(tuple(node.shape), np.dtype("U1") if is_text else node.dtype)

    def values(self, name: str, start: int, stop: int) -> Array:
        """Return rows of an array."""
        node, header = self._nodes[name], self.headers[name]
        n_rows = max(min(stop, node.shape[0]) - start, 0)
        declared = n_rows * (node.nbytes // max(node.shape[0], 1))
        check_unpacked_size(self.path, declared, self.path.stat().st_size, self.options.max_bytes)
        with reading(self.path):
            if header.dtype.kind == "U":
                return np.asarray(node.asstr()[start:stop], dtype=object)
            return np.asarray(node[start:stop])


def reading(path: Path) -> AbstractContextManager[None]:
    """Run h5py in a block and raise its errors as CorruptBundleError."""
    return guarded(path.name, problem="is not an HDF5 file, or is damaged")


def list_nodes(group: Any, path: Path, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and groups of a group; raise InvalidInputError for links."""
    h5py = require("h5py")
    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise InvalidInputError(
                f"variable {prefix + key!r} of {path.name} is a link, which acqh does not follow; "
                "store the array in the file"
            )
        node = group[key]
        if isinstance(node, h5py.Dataset):
            reject_external(prefix + key, node, path)
        yield key, node


def reject_external(name: str, node: Any, path: Path) -> None:
    """Raise InvalidInputError for an array with values in other files."""
    if node.external or node.is_virtual:
        raise InvalidInputError(
            f"variable {name!r} of {path.name} has its values in other files, which acqh does not "
            "open; store the array in the file"
        )


ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")

# Codecs that only unpack numbers and texts. Others can run code: one of version 2 unpickles.
_SAFE_CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta",
    "fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize",
    "sharding_indexed", "shuffle", "transpose", "vlen-utf8", "zlib", "zstd",
}  # fmt: skip


class ZarrGroup(ArrayTable):
    """The arrays of a Zarr group in a folder.

    Raises CorruptBundleError for an unreadable group, and InvalidInputError for an array whose
    codec could run code.
    """

    title, own_options = "Zarr", ("splits", "fill_missing")

    def _open(self) -> None:
        # The last unpacked rows of each array and their first row number: a range of rows may end
        # within a Zarr chunk.
        self._cached: dict[str, tuple[int, Array]] = {}
        self._sizes: dict[str, int] = {}  # sizes on disk of arrays with possibly missing chunks
        zarr = require("zarr")
        with guarded(str(self.path), problem="is not a readable Zarr group"):
            self._arrays: dict[str, Any] = dict(zarr.open_group(self.path, mode="r").arrays())
        for name, array in self._arrays.items():
            _check_codecs(array, f"array {name!r} of {self.path.name}")
        self.headers = {name: _header(array) for name, array in sorted(self._arrays.items())}
        self.list_entries()

    def values(self, name: str, start: int, stop: int) -> Array:
        """Return some rows of an array."""
        array = self._arrays[name]
        if not array.shape:
            return np.asarray(array[...])
        n_rows, chunk_rows = array.shape[0], max(array.chunks[0], 1)
        stop = min(stop, n_rows)
        cached_from, cached = self._cached.get(name, (0, np.empty(0)))
        blocks = []
        if cached_from <= start < cached_from + len(cached):
            blocks.append(cached[start - cached_from : stop - cached_from])
            start += len(blocks[0])
        if start < stop or not blocks:
            end = min(-(-stop // chunk_rows) * chunk_rows, n_rows)
            block = self._read(name, start, end)
            blocks.append(block[: stop - start])
            last = max((end - 1) // chunk_rows * chunk_rows, start)
            self._cached[name] = last, block[last - start :].copy()
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def _read(self, name: str, start: int, stop: int) -> Array:
        array = self._arrays[name]
        where = f"array {name!r} of {self.path.name}"
        reject_objects(self.headers[name], where)
        with guarded(where):  # codecs fail with errors of many kinds
            if start >= stop:
                return _plain(np.empty((0, *array.shape[1:]), array.dtype), where)
            self._check_chunks(array, where, start, stop)
            return _plain(np.asarray(array[start:stop]), where)

    def _check_chunks(self, array: Any, where: str, start: int, stop: int) -> None:
        """Check that the files of the rows exist, and that their unpacked size is plausible."""
        outer, folder, n_bytes = array.shards or array.chunks, self.path / array.path, 0
        if self.options.fill_missing and array.path not in self._sizes:
            files = (file for file in folder.rglob("*") if file.is_file())
            self._sizes[array.path] = sum(file.stat().st_size for file in files)
        chunks = () if self._sizes else _chunk_numbers(array.shape, outer, start, stop)
        for chunk in chunks:
            file = folder / array.metadata.encode_chunk_key(chunk)
            if not file.is_file():
                raise CorruptBundleError(
                    f"{where} lacks the chunk {file.relative_to(self.path)}; if missing chunks "
                    "stand for the fill value, pass fill_missing=True"
                )
            n_bytes += file.stat().st_size
        n_bytes = self._sizes.get(array.path, n_bytes)
        values = max(math.prod((stop - start, *array.shape[1:])), math.prod(outer))
        declared = values * array.dtype.itemsize
        check_unpacked_size(self.path, declared, n_bytes, self.options.max_bytes)


def _chunk_numbers(
    shape: tuple[int, ...], chunks: tuple[int, ...], start: int, stop: int
) -> Iterator[tuple[int, ...]]:
    """Yield the chunks of a range of rows lazily: a shape can declare any number."""
    first = start // chunks[0]
    counts = [-(-stop // chunks[0]) - first]
    counts += [-(-size // chunk) for size, chunk in zip(shape[1:], chunks[1:], strict=True)]
    for number in range(math.prod(counts)):
        places = []
        for count in reversed(counts):
            number, place = divmod(number, count)
            places.append(place)
        row, *columns = reversed(places)
        yield first + row, *columns


def _header(array: Any) -> Header:
    # Texts of variable length are returned as str objects; the width is irrelevant.
    return Header(tuple(array.shape), np.dtype("U1") if array.dtype.kind == "T" else array.dtype)


def _plain(values: Array, where: str) -> Array:
    return values.astype(object) if values.dtype.kind == "T" else native(values, where)


def _check_codecs(array: Any, where: str) -> None:
    metadata = array.metadata.to_dict()
    packing = [metadata.get(key) for key in ("compressor", "filters", "codecs")]
    for name in _codec_names(packing):
        if name.removeprefix("numcodecs.") not in _SAFE_CODECS:
            raise InvalidInputError(
                f"{where} uses the codec {name!r}, which is not one of the safe codecs: "
                f"{', '.join(sorted(_SAFE_CODECS))}"
            )


def _codec_names(packing: Any) -> Iterator[str]:
    """Yield the names of codecs, including nested ones."""
    if isinstance(packing, Mapping):
        name = packing.get("id", packing.get("name"))
        if name is not None:
            yield str(name)
        packing = list(packing.values())
    if isinstance(packing, list | tuple):
        for value in packing:
            yield from _codec_names(value)
