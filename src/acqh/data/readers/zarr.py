"""Named arrays of a Zarr group, versions 2 and 3 of the format, read chunk by chunk."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.readers.arrays import ArrayTable, Header, native, refuse_objects
from acqh.data.readers.columns import check_unpacked_size, guarded
from acqh.errors import CorruptBundleError, InvalidInputError

ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")

# Codecs that only unpack numbers and texts. Others could do anything: one of version 2 unpickles.
_SAFE_CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta",
    "fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize",
    "sharding_indexed", "shuffle", "transpose", "vlen-utf8", "zlib", "zstd",
}  # fmt: skip


class ZarrGroup(ArrayTable):
    """The arrays of a Zarr group in a folder.

    Raises CorruptBundleError: it is not a readable group. Raises InvalidInputError: an array is
    packed in a way that could run code.
    """

    title, own_options = "Zarr", ("splits", "fill_missing")

    def _open(self) -> None:
        # Of each array the rows that were unpacked last, by their first: pieces may end in a chunk.
        self._kept: dict[str, tuple[int, Array]] = {}
        self._sizes: dict[str, int] = {}  # of arrays on disk, where chunks may be missing
        zarr = require("zarr")
        with guarded(str(self.path), what="is not a readable Zarr group"):
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
        kept_from, kept = self._kept.get(name, (0, np.empty(0)))
        taken = []
        if kept_from <= start < kept_from + len(kept):
            taken.append(kept[start - kept_from : stop - kept_from])
            start += len(taken[0])
        if start < stop or not taken:
            end = min(-(-stop // chunk_rows) * chunk_rows, n_rows)
            block = self._read(name, start, end)
            taken.append(block[: stop - start])
            last = max((end - 1) // chunk_rows * chunk_rows, start)
            self._kept[name] = last, block[last - start :].copy()
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def _read(self, name: str, start: int, stop: int) -> Array:
        array = self._arrays[name]
        where = f"array {name!r} of {self.path.name}"
        refuse_objects(self.headers[name], where)
        with guarded(where):  # codecs fail with errors of many kinds
            if start >= stop:
                return _plain(np.empty((0, *array.shape[1:]), array.dtype), where)
            self._check_chunks(array, where, start, stop)
            return _plain(np.asarray(array[start:stop]), where)

    def _check_chunks(self, array: Any, where: str, start: int, stop: int) -> None:
        """Check that the files of some rows are there, and do not unpack to far too much."""
        outer, folder, n_bytes = array.shards or array.chunks, self.path / array.path, 0
        if self.options.fill_missing and array.path not in self._sizes:
            files = (file for file in folder.rglob("*") if file.is_file())
            self._sizes[array.path] = sum(file.stat().st_size for file in files)
        chunks = () if self._sizes else _chunk_numbers(array.shape, outer, start, stop)
        for chunk in chunks:
            file = folder / array.metadata.encode_chunk_key(chunk)
            if not file.is_file():
                raise CorruptBundleError(
                    f"{where} lacks the chunk {file.relative_to(self.path)}; if it was left out "
                    "because all its values are the fill value, give fill_missing=True"
                )
            n_bytes += file.stat().st_size
        n_bytes = self._sizes.get(array.path, n_bytes)
        values = max(math.prod((stop - start, *array.shape[1:])), math.prod(outer))
        declared = values * array.dtype.itemsize
        check_unpacked_size(self.path, declared, n_bytes, self.options.max_bytes)


def _chunk_numbers(
    shape: tuple[int, ...], chunks: tuple[int, ...], start: int, stop: int
) -> Iterator[tuple[int, ...]]:
    """Yield the chunks of some rows, without a list of them: a shape may be anything."""
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
    # Texts of any length are given as Python's strings; what matters here is that they are texts.
    return Header(tuple(array.shape), np.dtype("U1") if array.dtype.kind == "T" else array.dtype)


def _plain(values: Array, where: str) -> Array:
    return values.astype(object) if values.dtype.kind == "T" else native(values, where)


def _check_codecs(array: Any, where: str) -> None:
    metadata = array.metadata.to_dict()
    packing = [metadata.get(key) for key in ("compressor", "filters", "codecs")]
    for name in _codec_names(packing):
        if name.removeprefix("numcodecs.") not in _SAFE_CODECS:
            raise InvalidInputError(
                f"{where} is packed with {name!r}, which is not one of the codecs known to be "
                f"harmless: {', '.join(sorted(_SAFE_CODECS))}"
            )


def _codec_names(packing: Any) -> Iterator[str]:
    """Yield the names of codecs, also of those inside others."""
    if isinstance(packing, Mapping):
        name = packing.get("id", packing.get("name"))
        if name is not None:
            yield str(name)
        packing = list(packing.values())
    if isinstance(packing, list | tuple):
        for value in packing:
            yield from _codec_names(value)
