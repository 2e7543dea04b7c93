"""Reading images that anybody may have made: bounded, upright, opaque."""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh._core.imports import require
from acqh.errors import ImageError, MissingExtraError

# A path, the bytes of an image file, or a Pillow image.
ImageLike: TypeAlias = Any

# Larger images are rejected before they are decoded, unless the caller says otherwise.
MAX_PIXELS = 64_000_000
_limit = ContextVar("max_pixels", default=MAX_PIXELS)
# Only formats whose decoders are part of Pillow: others may start outside programs.
_PLUGINS = ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP")
_FORMATS = tuple(name.upper() for name in _PLUGINS)
# Bytes by which Pillow's decoders recognise a file.
_PREFIX_BYTES = 16
# How a file in the format of telephones begins, from its fifth byte on.
_HEIC_STARTS = tuple(b"ftyp" + brand for brand in (b"heic", b"heix", b"heim", b"heis", b"mif1"))
# Whole numbers and fractions of more than 8 bits are as bright as their share of one of these,
# the least that holds them all; images of 16 bits always of the last.
_WHITES = {"I": (255.0, 65_535.0), "F": (1.0, 255.0, 65_535.0)}
_DEEP = "I;16"
# Reduced images keep this many times the side asked for, so that resizing them loses nothing.
_REDUCING_GAP = 2
# Pixels converted at once: colours and transparency take 16 bytes per pixel, a decoded one as few
# as 1, so that converting all of them together would take many times the memory.
_BAND_PIXELS = 1_000_000
# Longest side of what encoders get to see: more than any of them uses, and a batch stays small.
_WORKING_SIDE = 512
# Longest side of the small images that collections keep.
THUMBNAIL_SIDE = 128


def read_image(
    image: ImageLike,
    position: int = 0,
    max_pixels: int | None = None,
    *,
    name: str = "",
    side: int | None = None,
) -> Any:
    """Read one image as an opaque RGB image.

    Transparent parts become white, a photograph is turned upright as its EXIF data says, of
    an animation the first frame is taken, and grey of more than 8 bits is scaled. HEIC is read
    where the package pillow-heif is installed.

    Parameters
    ----------
    image : path, bytes or PIL.Image.Image
    position : int
        Its place among the images, for errors.
    max_pixels : int, optional
        Larger images are rejected before they are decoded; 64,000,000 by default, or what
        `image_limit` says.
    name : str, optional
        What to call it in errors, instead of its place.
    side : int, optional
        Longest side that is needed, in pixels. Much larger images come out smaller, but at
        least twice as long; a JPEG is then not even decoded in full.

    Returns
    -------
    PIL.Image.Image
        Mode RGB.

    Raises
    ------
    ImageError
        It cannot be read, or has more than `max_pixels` pixels; the message names it.

    Examples
    --------
    >>> from PIL import Image
    >>> read_image(Image.new("L", (3, 2))).mode
    'RGB'
    """
    image_module = require("PIL.Image")
    max_pixels = _limit.get() if max_pixels is None else max_pixels
    if not name:
        name = f"image {position}"
        if isinstance(image, str | PathLike):
            name = f"{name} ({fspath(image)})"
    accepted = str | PathLike | bytes | bytearray | memoryview | image_module.Image
    if not isinstance(image, accepted):
        raise ImageError(
            f"{name} is a {type(image).__name__}; give a path, bytes or a Pillow image"
        )
    try:
        if isinstance(image, image_module.Image):
            return _opaque(image, name, max_pixels, side)
        with open_image(image) as opened:
            return _opaque(opened, name, max_pixels, side)
    except ImageError:
        raise
    except image_module.UnidentifiedImageError as error:
        raise ImageError(f"{name} cannot be read: {_what_it_is(image)}") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        why = "it is a folder" if isinstance(error, IsADirectoryError) else error.strerror
        raise ImageError(f"{name} cannot be read: {why}") from error
    except Exception as error:  # damaged bytes make decoders raise anything
        raise ImageError(f"{name} cannot be read: {error}") from error


def _what_it_is(image: Any) -> str:
    """Say of what is not an image of a known kind what it is instead."""
    if is_foreign(image):
        return "it is HEIC, which needs the package pillow-heif: pip install 'acqh[heic]'"
    n_bytes = Path(image).stat().st_size if isinstance(image, str | PathLike) else len(image)
    return "it is not an image of a known kind" if n_bytes else "it is empty"


def working_image(source: ImageLike, known_as: str = "") -> Any:
    """Read an image, no larger than encoders need it; raise ImageError.

    `known_as`: prefix of the error message.
    """
    name = "the image"
    if isinstance(source, str | PathLike):
        path = Path(source)
        name = "it" if known_as and path.as_posix().endswith(known_as) else str(path)
    image = read_image(source, name=name, side=_WORKING_SIDE)
    image.thumbnail((_WORKING_SIDE, _WORKING_SIDE), require("PIL.Image").Resampling.BICUBIC)
    return image


def make_thumbnail(image: Any, side: int = THUMBNAIL_SIDE, quality: int = 80) -> bytes:
    """Return a small WebP image."""
    small = image.copy()
    small.thumbnail((side, side), require("PIL.Image").Resampling.LANCZOS)
    file = BytesIO()
    small.save(file, "WEBP", quality=quality)
    return file.getvalue()


@contextmanager
def image_limit(max_pixels: int | None) -> Iterator[None]:
    """Set the default pixel limit of images that are read in a block, in this thread.

    The limit also holds for collections that are built, extended or searched in the block.
    Pillow's own limit, which is one for the whole process, stays as it is.

    Parameters
    ----------
    max_pixels : int or None
        None keeps the current limit.

    Examples
    --------
    >>> from PIL import Image
    >>> with image_limit(4):
    ...     read_image(Image.new("L", (3, 2)))
    Traceback (most recent call last):
    acqh.errors.ImageError: image 0 has 3 x 2 pixels, more than the 4 allowed; ...
    """
    if max_pixels is None:
        yield
        return
    token = _limit.set(check_positive_int(max_pixels, "max_pixels"))
    try:
        yield
    finally:
        _limit.reset(token)


def open_image(image: ImageLike, formats: Sequence[str] | None = None) -> Any:
    """Open an image file without decoding it; return Pillow's image.

    ``PIL.Image.open`` compares the size with a limit that is one for the whole process. This
    function does not: check ``size`` before you decode.

    Parameters
    ----------
    image : path or bytes
    formats : sequence of str, optional
        Formats to try, by Pillow's names. Default: `image_formats`.

    Returns
    -------
    PIL.ImageFile.ImageFile

    Raises
    ------
    PIL.UnidentifiedImageError
        The file has none of the formats. Damaged files raise whatever their decoder raises.

    Examples
    --------
    >>> open_image(b"no image")
    Traceback (most recent call last):
    PIL.UnidentifiedImageError: not an image in one of BMP, GIF, JPEG, ...
    """
    formats = formats or image_formats()
    pillow = require("PIL.Image")
    for name in _PLUGINS:
        require(f"PIL.{name}ImagePlugin")
    if isinstance(image, str | PathLike):
        with Path(image).open("rb") as file:
            prefix = file.read(_PREFIX_BYTES)
    else:
        prefix = bytes(image[:_PREFIX_BYTES])
    for name in formats:
        factory, accepts = pillow.OPEN[name]
        if accepts is not None and accepts(prefix) is not True:
            continue
        with suppress(SyntaxError, IndexError, TypeError, struct.error):
            return factory(image if isinstance(image, str | PathLike) else BytesIO(image), "")
    raise pillow.UnidentifiedImageError(f"not an image in one of {', '.join(formats)}")


def image_date(image: ImageLike) -> str | None:
    """Return when a photograph was taken, as its EXIF data says.

    Parameters
    ----------
    image : path or bytes

    Returns
    -------
    str or None
        Local time in ISO format, such as ``"2014-07-01T12:30:00"``; None where the file does not
        say, or cannot be read.

    Examples
    --------
    >>> image_date("none.jpg") is None
    True
    """
    tags = require("PIL.ExifTags")
    try:
        with open_image(image) as opened:
            if opened.format == "PNG" and "exif" not in opened.info:
                return None  # it would be decoded to look behind the pixels
            exif = opened.getexif()
            inner = exif.get_ifd(tags.IFD.Exif)
            date = inner.get(tags.Base.DateTimeOriginal) or exif.get(tags.Base.DateTime)
        return datetime.strptime(str(date)[:19], "%Y:%m:%d %H:%M:%S").isoformat()
    except Exception:  # damaged bytes make decoders raise anything
        return None


@cache
def image_formats() -> tuple[str, ...]:
    """Return the formats that are read, by Pillow's names."""
    try:
        heif = require("pillow_heif")
    except MissingExtraError:
        return _FORMATS
    heif.register_heif_opener()
    return (*_FORMATS, "HEIF")


def is_foreign(image: ImageLike) -> bool:
    """Whether an image is HEIC, and the package that reads it is not installed."""
    if "HEIF" in image_formats():
        return False
    if isinstance(image, str | PathLike):
        with Path(image).open("rb") as file:
            image = file.read(12)
    return bytes(image[4:12]).startswith(_HEIC_STARTS)


def _opaque(image: Any, name: str, max_pixels: int, side: int | None) -> Any:
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            f"{name} has {width} x {height} pixels, more than the {max_pixels} allowed; "
            "make it smaller or raise max_pixels"
        )
    longest = max(width, height, 1) if side is None else _REDUCING_GAP * side
    image.draft(None, (longest, longest))  # only JPEG can do this; for others it does nothing
    image.load()
    small = _on_white(image, max(1, max(image.size) // longest))
    orientation = require("PIL.ExifTags").Base.Orientation
    small.getexif()[orientation] = image.getexif().get(orientation, 1)
    return require("PIL.ImageOps").exif_transpose(small)


def _on_white(image: Any, factor: int) -> Any:
    """Return a decoded image as RGB on white, reduced by a whole factor, band by band."""
    new = require("PIL.Image").new
    width, height = image.size
    n_rows = factor * max(1, _BAND_PIXELS // (width * factor))
    small = new("RGB", (-(-width // factor), -(-height // factor)))
    plain = "L" if image.mode in ("1", "L") else "RGB"
    is_deep = image.mode.startswith(_DEEP) or image.mode in _WHITES
    black, white_point = _range(image) if is_deep else (0.0, 255.0)
    for top in range(0, height, n_rows):
        band = image.crop((0, top, width, min(top + n_rows, height)))
        if is_deep:
            band = _scaled(band, black, white_point)
        elif image.has_transparency_data:
            white = new("RGBA", band.size, "white")
            white.alpha_composite(band.convert("RGBA"))
            band = white
        small.paste(band.convert(plain).reduce(factor), (0, top // factor))
    return small


def _range(image: Any) -> tuple[float, float]:
    """Return the values that are black and white in grey of more than 8 bits."""
    if image.mode.startswith(_DEEP):
        return 0.0, 65_535.0
    values = np.asarray(image)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if low >= 0:
        for white in _WHITES[image.mode]:
            if high <= white:
                return 0.0, white
    return low, max(high, low + 1)


def _scaled(band: Any, black: float, white: float) -> Any:
    """Return grey of any depth with 8 bits; what is not a number is black."""
    values = (np.nan_to_num(np.asarray(band, dtype=np.float64), nan=black) - black) / (
        white - black
    )
    grey = np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8)
    return require("PIL.Image").fromarray(grey)
