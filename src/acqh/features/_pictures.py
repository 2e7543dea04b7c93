"""Reading pictures that anybody may have made: bounded, upright, opaque."""

from io import BytesIO
from os import PathLike, fspath
from typing import Any, TypeAlias

from acqh._core.optional import require
from acqh.errors import PictureError

# A path, the bytes of a picture file, or a Pillow image.
Picture: TypeAlias = Any

# Larger pictures are refused before they are decoded, unless the caller says otherwise.
MAX_PIXELS = 64_000_000
# Only formats whose decoders are part of Pillow: others may start outside programs.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# Reduced pictures keep this many times the side asked for, so that resizing them loses nothing.
_REDUCING_GAP = 2
# Pixels converted at once: colours and transparency take 16 bytes a pixel, a decoded one as few
# as 1, so that converting all of them together would take many times the memory.
_BAND_PIXELS = 1_000_000


def read_picture(
    picture: Picture,
    position: int = 0,
    max_pixels: int = MAX_PIXELS,
    *,
    name: str = "",
    side: int | None = None,
) -> Any:
    """Read one picture as an opaque RGB image.

    Transparent parts become white, a photograph is turned upright as its EXIF data says, and of
    an animation the first frame is taken.

    Parameters
    ----------
    picture : path, bytes or PIL.Image.Image
    position : int
        Its place among the pictures, for errors.
    max_pixels : int, default 64,000,000
        Larger pictures are refused before they are decoded.
    name : str, optional
        What to call it in errors, instead of its place.
    side : int, optional
        Longest side that is needed, in pixels. Much larger pictures come out smaller, but at
        least twice as long; a JPEG is then not even decoded in full.

    Returns
    -------
    PIL.Image.Image
        Mode RGB.

    Raises
    ------
    PictureError
        It cannot be read, or has more than `max_pixels` pixels; the message names it.

    Examples
    --------
    >>> from PIL import Image
    >>> read_picture(Image.new("L", (3, 2))).mode
    'RGB'
    """
    image_module = require("PIL.Image")
    if not name:
        name = f"picture {position}"
        if isinstance(picture, str | PathLike):
            name = f"{name} ({fspath(picture)})"
    accepted = str | PathLike | bytes | bytearray | memoryview | image_module.Image
    if not isinstance(picture, accepted):
        raise PictureError(
            f"{name} is a {type(picture).__name__}; give a path, bytes or a Pillow image"
        )
    try:
        if isinstance(picture, image_module.Image):
            return _opaque(picture, name, max_pixels, side)
        source = picture if isinstance(picture, str | PathLike) else BytesIO(picture)
        with image_module.open(source, formats=_FORMATS) as image:
            return _opaque(image, name, max_pixels, side)
    except PictureError:
        raise
    except Exception as error:  # damaged bytes make decoders raise anything
        raise PictureError(f"{name} cannot be read: {error}") from error


def _opaque(image: Any, name: str, max_pixels: int, side: int | None) -> Any:
    width, height = image.size
    if width * height > max_pixels:
        raise PictureError(
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
    """Return a decoded picture as RGB on white, reduced by a whole factor, band by band."""
    new = require("PIL.Image").new
    width, height = image.size
    n_rows = factor * max(1, _BAND_PIXELS // (width * factor))
    small = new("RGB", (-(-width // factor), -(-height // factor)))
    plain = "L" if image.mode in ("1", "L") else "RGB"
    for top in range(0, height, n_rows):
        band = image.crop((0, top, width, min(top + n_rows, height)))
        if image.has_transparency_data:
            white = new("RGBA", band.size, "white")
            white.alpha_composite(band.convert("RGBA"))
            band = white
        small.paste(band.convert(plain).reduce(factor), (0, top // factor))
    return small
