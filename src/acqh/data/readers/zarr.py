"""Named arrays of a Zarr group, versions 2 and 3 of the format, read chunk by chunk."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.imports import require
from acqh.data.readers.arrays import Header, Rows, native, refuse_objects
from acqh.data.readers.limits import check_unpacked_size
from acqh.errors import CorruptBundleError, InvalidInputError

ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")

# Codecs that only unpack numbers and texts. Others could do anything: one of version 2 unpickles.
_SAFE_CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta",
    "fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize",
    "sharding_indexed", "shuffle", "transpose", "vlen-utf8", "zlib", "zstd",
}  # fmt: skip


class ZarrStore:
    """The arrays of a Zarr group in a folder.

    `max_bytes`: how much the rows read at a time may take; see `check_unpacked_size`.
    `fill_missing`: whether a chunk without a file means that all its values are the array's fill
    value. Else it is taken as lost. Raises CorruptBundleError: it is not a readable group. Raises
    InvalidInputError: an array is packed in a way that could run code.
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, fill_missing: bool = False
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._fill_missing = fill_missing
        zarr = require("zarr")
        try:
            self._arrays: dict[str, Any] = dict(zarr.open_group(path, mode="r").arrays())
        except Exception as error:  # of many kinds: whatever the metadata made Zarr fail with
            raise CorruptBundleError(f"{path} is not a readable Zarr group: {error}") from error
        for name, array in self._arrays.items():
            _check_codecs(array, f"array {name!r} of {path.name}")
        self.headers = {name: _header(array) for name, array in sorted(self._arrays.items())}

    def load(self, name: str) -> Array:
        """Return a whole array."""
        array = self._arrays[name]
        return self._read(name, 0, array.shape[0]) if array.shape else np.asarray(array[...])

    def rows(self, name: str) -> Rows:
        """Return a function that gives some rows of an array.

        Where rows end within a chunk, the rest of the chunk is kept for those that follow.
        """
        n_rows, chunk_rows = self._arrays[name].shape[0], self._arrays[name].chunks[0]
        kept_from, kept = 0, self._read(name, 0, 0)

        def take(start: int, stop: int) -> Array:
            nonlocal kept_from, kept
            stop = min(stop, n_rows)
            blocks = [kept[:0]]
            if kept_from <= start < kept_from + len(kept):
                blocks.append(kept[start - kept_from : stop - kept_from])
                start += len(blocks[-1])
            last_chunk = max(stop // chunk_rows * chunk_rows, start)
            if start < last_chunk:
                blocks.append(self._read(name, start, last_chunk))
            if last_chunk < stop:
                kept_from = last_chunk
                chunk_end = (last_chunk // chunk_rows + 1) * chunk_rows
                kept = self._read(name, last_chunk, min(chunk_end, n_rows))
                blocks.append(kept[: stop - last_chunk])
            filled = [block for block in blocks if len(block)] or blocks
            return filled[0] if len(filled) == 1 else np.concatenate(filled)

        return take

    def _read(self, name: str, start: int, stop: int) -> Array:
        array = self._arrays[name]
        where = f"array {name!r} of {self.path.name}"
        refuse_objects(self.headers[name], where)
        if start == stop:
            return self._empty(array, where)
        self._check_chunks(array, where, start, stop)
        try:
            return _plain(np.asarray(array[start:stop]), where)
        except Exception as error:  # of many kinds: whatever a codec failed with
            raise CorruptBundleError(f"{where} is damaged: {error}") from error

    @staticmethod
    def _empty(array: Any, where: str) -> Array:
        try:
            return _plain(np.empty((0, *array.shape[1:]), array.dtype), where)
        except ValueError as error:
            raise CorruptBundleError(f"{where} has the shape {array.shape}: {error}") from error

    def _check_chunks(self, array: Any, where: str, start: int, stop: int) -> None:
        """Check that the files of some rows are there, and do not unpack to far too much."""
        outer = array.shards or array.chunks
        folder = self.path / array.path
        if self._fill_missing:
            n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        else:
            n_bytes = 0
            for chunk in _chunk_numbers(array.shape, outer, start, stop):
                file = folder / array.metadata.encode_chunk_key(chunk)
                if not file.is_file():
                    raise CorruptBundleError(
                        f"{where} lacks the chunk {file.relative_to(self.path)}; if it was left "
                        "out because all its values are the fill value, give fill_missing=True"
                    )
                n_bytes += file.stat().st_size
        values = max(math.prod((stop - start, *array.shape[1:])), math.prod(outer))
        check_unpacked_size(self.path, values * array.dtype.itemsize, n_bytes, self._max_bytes)


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
    dtype = np.dtype("U1") if array.dtype.kind == "T" else array.dtype
    return Header(tuple(array.shape), dtype, fortran=False, offset=0)


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
        for value in packing.values():
            yield from _codec_names(value)
    elif isinstance(packing, list | tuple):
        for value in packing:
            yield from _codec_names(value)
