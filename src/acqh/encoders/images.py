"""Reading images that anybody may have made: bounded, upright, opaque."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from acqh._core.arrays import check_positive_int
from acqh._core.dates import parse_exif_date
from acqh._core.imports import require
from acqh.encoders.strips import has_strips, read_strips, regroup
from acqh.encoders.videos import read_frame, video_type
from acqh.errors import ImageError, MissingExtraError

# A path, the bytes of an image file, or a Pillow image.
ImageLike: TypeAlias = Any

# Larger images are rejected before they are decoded, unless the caller says otherwise.
MAX_PIXELS = 64_000_000
# Images that take at most a quarter of the memory per pixel may have this many times as many: those
# that are decoded reduced, and those of one byte per pixel. Phones make photos of 200 megapixels.
_LIGHTER = 4
_LIGHT_MODES = ("1", "L", "P")
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
# Longest side of images that are not reduced: longer than any.
_MAX_SIDE = 2**31
# Pixels converted at once: colours and transparency take 16 bytes per pixel, a decoded one as few
# as 1, so that converting all of them together would take many times the memory.
_BAND_PIXELS = 1_000_000
# Strips of TIFF files that have more pixels are not decoded one by one.
_STRIP_PIXELS = 16_000_000
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
    an animation the first frame is taken, and grey of more than 8 bits is scaled. Of a video file,
    one frame is read, in a process of its own.

    Parameters
    ----------
    image : path, bytes or PIL.Image.Image
    position : int
        Its place among the images, for errors.
    max_pixels : int, optional
        Larger images are rejected before they are decoded. Default: 64,000,000, or the limit set
        by `image_limit`. Images that need little memory may have four times as many pixels:
        images of one byte per pixel, and JPEG and most PNG and TIFF files that are at least four
        times as long as `side`.
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
        if not isinstance(image, bytes | bytearray | memoryview) and video_type(first_bytes(image)):
            longest = _MAX_SIDE if side is None else _REDUCING_GAP * side
            return read_frame(image, name, longest, max_pixels)
        raise ImageError(f"{name} cannot be read: {_what_it_is(image)}") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        why = "it is a folder" if isinstance(error, IsADirectoryError) else error.strerror
        raise ImageError(f"{name} cannot be read: {why}") from error
    except Exception as error:  # damaged bytes make decoders raise anything
        raise ImageError(f"{name} cannot be read: {error}") from error


def _what_it_is(image: Any) -> str:
    """Say of what is not an image of a known kind what it is instead."""
    if is_foreign(image):
        return "it is HEIC, which needs the package pillow-heif: pip install 'acqh[images]'"
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
    ...     read_image(Image.new("RGB", (3, 2)))
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
    prefix = first_bytes(image)
    for name in formats:
        factory, accepts = pillow.OPEN[name]
        if accepts is not None and accepts(prefix) is not True:
            continue
        with suppress(SyntaxError, IndexError, TypeError, struct.error):
            return factory(image if isinstance(image, str | PathLike) else BytesIO(image), "")
    raise pillow.UnidentifiedImageError(f"not an image in one of {', '.join(formats)}")


class Header(NamedTuple):
    """Metadata of an image file that are read without decoding it."""

    size: tuple[int, int]
    has_camera: bool  # whether its EXIF data have settings of a camera
    date: str | None  # when it was taken: ISO 8601, local time


def read_header(image: ImageLike) -> Header | None:
    """Return the size of an image and what its EXIF data say; None if it cannot be read.

    `image`: path or bytes.

    Examples
    --------
    >>> read_header("none.jpg") is None
    True
    """
    tags = require("PIL.ExifTags").Base
    try:
        with open_image(image) as opened:
            if opened.format == "PNG" and "exif" not in opened.info:
                return Header(opened.size, False, None)  # it would be decoded to look for EXIF data
            exif = opened.getexif()
            inner = _exif_ifd(exif)
            settings = (tags.ExposureTime, tags.FNumber, tags.FocalLength, tags.ISOSpeedRatings)
            names = (tags.DateTimeOriginal, tags.DateTimeDigitized)
            # Some programs write them outside the directory where they belong.
            dates = [part.get(name) for name in names for part in (inner, exif)]
            parsed = map(parse_exif_date, (*dates, exif.get(tags.DateTime)))
            date = next(filter(None, parsed), None)
            return Header(opened.size, any(name in inner for name in settings), date)
    except Exception:  # damaged bytes make decoders raise anything
        return None


def image_date(image: ImageLike) -> str | None:
    """Return when a photograph was taken, as its EXIF data say; None if they do not."""
    header = read_header(image)
    return None if header is None else header.date


def _exif_ifd(exif: Any) -> Any:
    """Return the directory of EXIF data that says how a photograph was taken; empty if damaged."""
    try:
        return exif.get_ifd(require("PIL.ExifTags").IFD.Exif)
    except Exception:  # damaged bytes make decoders raise anything
        return {}


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
    return first_bytes(image)[4:12].startswith(_HEIC_STARTS)


def first_bytes(image: ImageLike) -> bytes:
    """Return the first bytes of an image file."""
    if not isinstance(image, str | PathLike):
        return bytes(image[:_PREFIX_BYTES])
    with Path(image).open("rb") as file:
        return file.read(_PREFIX_BYTES)


def _opaque(image: Any, name: str, max_pixels: int, side: int | None) -> Any:
    width, height = image.size
    if is_too_large(image, max_pixels, side):
        raise ImageError(
            f"{name} has {width} x {height} pixels, more than the {max_pixels} allowed; "
            "make it smaller or raise max_pixels"
        )
    longest = max(width, height, 1) if side is None else _REDUCING_GAP * side
    share = min(1.0, longest / max(width, height, 1))
    # Of JPEG and, if there is a thumbnail that is large enough, of HEIC.
    image.draft(None, (max(1, int(share * width)), max(1, int(share * height))))
    factor = max(1, max(image.size) // longest)
    n_rows = factor * max(1, _BAND_PIXELS // (image.width * factor))
    if width * height > max_pixels and has_strips(image, _STRIP_PIXELS):
        bands = regroup(read_strips(image, _BAND_PIXELS), width, n_rows)
    else:
        image.load()
        bands = (
            image.crop((0, top, image.width, min(top + n_rows, image.height)))
            for top in range(0, image.height, n_rows)
        )
    small = _on_white(image, bands, factor)
    orientation = require("PIL.ExifTags").Base.Orientation
    if image.mode in ("RGB", "RGBA"):
        small.info["icc_profile"] = image.info.get("icc_profile")
    # Otherwise Pillow would decode a PNG to look behind the pixels.
    exif = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
    small.getexif()[orientation] = exif.get(orientation, 1)
    return require("PIL.ImageOps").exif_transpose(small)


def is_too_large(
    image: Any, max_pixels: int | None = None, side: int | None = _WORKING_SIDE
) -> bool:
    """Whether decoding an image that was opened takes more memory than the limit allows.

    The limit is `max_pixels` of RGB. Four times as many pixels take no more memory if there is one
    byte per pixel, or if an image is reduced to half its size or less while it is decoded. JPEG and
    most PNG and TIFF files can be, but not progressive JPEG.
    """
    is_reduced = side is not None and max(image.size) >= 2 * _REDUCING_GAP * side
    can_reduce = image.format == "JPEG" or has_strips(image, _STRIP_PIXELS)
    is_light = image.mode in _LIGHT_MODES or (is_reduced and can_reduce)
    is_light = is_light and not image.info.get("progressive")
    most = (_limit.get() if max_pixels is None else max_pixels) * (_LIGHTER if is_light else 1)
    return bool(image.width * image.height > most)


def _on_white(image: Any, bands: Iterable[Any], factor: int) -> Any:
    """Return the bands of an image as RGB on white, reduced by a whole factor."""
    new = require("PIL.Image").new
    width, height = image.size
    small = new("RGB", (-(-width // factor), -(-height // factor)))
    plain = "L" if image.mode in ("1", "L") else "RGB"
    is_deep = image.mode.startswith(_DEEP) or image.mode in _WHITES
    black, white_point = _range(image) if is_deep else (0.0, 255.0)
    top = 0
    for band in bands:
        if is_deep:
            band = _scaled(band, black, white_point)
        elif image.has_transparency_data:
            white = new("RGBA", band.size, "white")
            white.alpha_composite(band.convert("RGBA"))
            band = white
        reduced = band.convert(plain).reduce(factor)
        small.paste(reduced, (0, top))
        top += reduced.height
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
