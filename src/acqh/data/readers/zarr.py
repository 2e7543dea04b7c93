"""Named arrays of a Zarr group (versions 2 and 3), read chunk by chunk."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.readers.arrays import ArrayTable, Header, native, reject_objects
from acqh.data.readers.columns import check_unpacked_size, guarded
from acqh.errors import CorruptBundleError, InvalidInputError

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
