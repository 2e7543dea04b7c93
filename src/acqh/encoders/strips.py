"""Large PNG and TIFF images, decoded strip by strip.

Pillow decodes such files whole. So each strip becomes a small file of the same format, whose bytes
are copied, not decoded, and which Pillow decodes.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, BinaryIO

from acqh._core.imports import require

# Channels of the types of PNG that are decoded in strips, by their numbers.
_PNG_CHANNELS = {2: 3, 4: 2, 6: 4}
_PNG_START = b"\x89PNG\r\n\x1a\n"
_READ_BYTES = 2**20
_TIFF_STARTS = {b"II": b"II*\0\0\0\0\0", b"MM": b"MM\0*\0\0\0\0"}
# Tags of TIFF: those that say how strips and tiles are encoded, and where they are.
_TIFF_ENCODING = (258, 259, 262, 266, 277, 284, 317, 338, 339, 347, 530, 532)
_WIDTH, _LENGTH, _OFFSETS, _ROWS_PER_STRIP, _BYTE_COUNTS = 256, 257, 273, 278, 279
_COMPRESSION, _PLANAR = 259, 284
_TILE_WIDTH, _TILE_LENGTH, _TILE_OFFSETS, _TILE_BYTE_COUNTS = 322, 323, 324, 325


def has_strips(image: Any, most_pixels: int) -> bool:
    """Whether an image that was opened can be decoded in strips of at most so many pixels."""
    if image.format == "PNG":
        return image.mode in ("RGB", "RGBA", "LA") and _png_layout(image.fp) is not None
    if image.format != "TIFF" or image.mode not in ("RGB", "RGBA", "CMYK", "YCbCr"):
        return False
    n_rows, n_columns, *_ = _tiff_layout(image, most_pixels)
    n_pixels = n_rows * max(n_columns, image.width)
    return bool(
        image.tag_v2.get(_PLANAR, 1) == 1 and n_rows > 0 < n_columns and n_pixels <= most_pixels
    )


def read_strips(image: Any, n_pixels: int) -> Iterator[Any]:
    """Yield the strips of an image from top to bottom, as images of about `n_pixels`."""
    return _png_strips(image, n_pixels) if image.format == "PNG" else _tiff_strips(image, n_pixels)


def _png_layout(file: BinaryIO) -> tuple[int, int] | None:
    """Return the type and the channels of a PNG of 8 bits that is not interlaced, or None."""
    file.seek(len(_PNG_START) + 16)
    depth, kind, _, _, is_interlaced = file.read(5)
    channels = _PNG_CHANNELS.get(kind)
    return (kind, channels) if channels and depth == 8 and not is_interlaced else None


def _png_strips(image: Any, n_pixels: int) -> Iterator[Any]:
    width, height = image.size
    kind, channels = _png_layout(image.fp) or (0, 0)
    stride = channels * width
    n_rows = max(1, n_pixels // width)
    last = bytes(stride)  # rows are differences from the row above
    rows = _png_rows(image.fp, n_rows * (1 + stride))
    for top in range(0, height, n_rows):
        n_here = min(n_rows, height - top)
        content = next(rows)[: n_here * (1 + stride)]
        if len(content) < n_here * (1 + stride):
            raise OSError("the image file is truncated")
        header = struct.pack(">IIBBBBB", width, n_here + 1, 8, kind, 0, 0, 0)
        parts = {b"IHDR": header, b"IDAT": zlib.compress(b"\0" + last + content, 0), b"IEND": b""}
        strip = _decoded(
            _PNG_START
            + b"".join(
                struct.pack(">I", len(part))
                + name
                + part
                + struct.pack(">I", zlib.crc32(name + part))
                for name, part in parts.items()
            )
        )
        last = strip.crop((0, n_here, width, n_here + 1)).tobytes()
        yield strip.crop((0, 1, width, n_here + 1))


def _png_rows(file: BinaryIO, n_bytes: int) -> Iterator[bytes]:
    """Yield the decompressed rows of a PNG, so many bytes at a time; the last may be fewer."""
    inflate, rows = zlib.decompressobj(), bytearray()
    file.seek(len(_PNG_START))
    while len(head := file.read(8)) == 8 and head[4:] != b"IEND":
        (length,) = struct.unpack(">I", head[:4])
        if head[4:] != b"IDAT":
            file.seek(length + 4, 1)
            continue
        while length and (content := file.read(min(length, _READ_BYTES))):
            length -= len(content)
            while content:
                rows += inflate.decompress(content, n_bytes)
                content = inflate.unconsumed_tail
                while len(rows) >= n_bytes:
                    yield bytes(rows[:n_bytes])
                    del rows[:n_bytes]
        file.seek(4, 1)
    yield bytes(rows)


def _tiff_layout(image: Any, n_pixels: int) -> tuple[int, int, Any, Any]:
    """Return rows and columns of strips or tiles, and their offsets and lengths in the file."""
    tags, (width, height) = image.tag_v2, image.size
    if _TILE_LENGTH in tags:
        sizes = tags[_TILE_LENGTH], tags[_TILE_WIDTH]
        return *sizes, tags[_TILE_OFFSETS], tags[_TILE_BYTE_COUNTS]
    offsets, counts = tags[_OFFSETS], tags[_BYTE_COUNTS]
    n_rows = min(tags.get(_ROWS_PER_STRIP, height), height)
    if tags.get(_COMPRESSION, 1) == 1 and len(offsets) == 1:  # cut it anywhere
        n_rows = min(height, max(1, n_pixels // width))
        stride = counts[0] // height
        starts = range(0, height, n_rows)
        counts = [min(n_rows, height - top) * stride for top in starts]
        offsets = [offsets[0] + top * stride for top in starts]
    return n_rows, width, offsets, counts


def _tiff_strips(image: Any, n_pixels: int) -> Iterator[Any]:
    width, height = image.size
    n_rows, n_columns, offsets, counts = _tiff_layout(image, n_pixels)
    places = iter(zip(offsets, counts, strict=True))
    for top in range(0, height, n_rows):
        n_here = min(n_rows, height - top)
        strip = require("PIL.Image").new(image.mode, (width, n_here))
        for left in range(0, width, n_columns):
            offset, n_bytes = next(places)
            image.fp.seek(offset)
            size = n_columns, (n_rows if _TILE_LENGTH in image.tag_v2 else n_here)
            strip.paste(_decoded(_tiff_of(image, size, image.fp.read(n_bytes))), (left, 0))
        yield strip


def _tiff_of(image: Any, size: tuple[int, int], content: bytes) -> bytes:
    """Return a TIFF file of one strip."""
    plugin = require("PIL.TiffImagePlugin")
    tags = plugin.ImageFileDirectory_v2(_TIFF_STARTS[image.tag_v2.prefix])
    for tag in _TIFF_ENCODING:
        if tag in image.tag_v2:
            tags.tagtype[tag] = image.tag_v2.tagtype[tag]
            tags[tag] = image.tag_v2[tag]
    tags.tagtype[_OFFSETS] = 4  # LONG; Pillow adds the length of the header
    tags[_WIDTH], tags[_LENGTH] = size
    tags[_ROWS_PER_STRIP], tags[_OFFSETS], tags[_BYTE_COUNTS] = size[1], 0, len(content)
    file = BytesIO()
    tags.save(file)
    return file.getvalue() + content


def _decoded(content: bytes) -> Any:
    is_png = content.startswith(_PNG_START)
    plugin = require("PIL.PngImagePlugin" if is_png else "PIL.TiffImagePlugin")
    strip = (plugin.PngImageFile if is_png else plugin.TiffImageFile)(BytesIO(content))
    strip.load()
    return strip


def regroup(strips: Iterable[Any], width: int, n_rows: int) -> Iterator[Any]:
    """Yield strips of any height again as bands of so many rows; the last may have fewer.

    The next band overwrites the last one.
    """
    band, n_filled = None, 0
    for strip in strips:
        top = 0
        while top < strip.height:
            band = band or require("PIL.Image").new(strip.mode, (width, n_rows))
            n_here = min(n_rows - n_filled, strip.height - top)
            band.paste(strip.crop((0, top, width, top + n_here)), (0, n_filled))
            top, n_filled = top + n_here, n_filled + n_here
            if n_filled == n_rows:
                yield band
                n_filled = 0
    if band is not None and n_filled:
        yield band.crop((0, 0, width, n_filled))
