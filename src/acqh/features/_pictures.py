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


def read_picture(
    picture: Picture, position: int = 0, max_pixels: int = MAX_PIXELS, *, name: str = ""
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
            return _opaque(picture, name, max_pixels)
        source = picture if isinstance(picture, str | PathLike) else BytesIO(picture)
        with image_module.open(source, formats=_FORMATS) as image:
            return _opaque(image, name, max_pixels)
    except PictureError:
        raise
    except Exception as error:  # damaged bytes make decoders raise anything
        raise PictureError(f"{name} cannot be read: {error}") from error


def _opaque(image: Any, name: str, max_pixels: int) -> Any:
    width, height = image.size
    if width * height > max_pixels:
        raise PictureError(
            f"{name} has {width} x {height} pixels, more than the {max_pixels} allowed; "
            "make it smaller or raise max_pixels"
        )
    image = require("PIL.ImageOps").exif_transpose(image).convert("RGBA")
    white = require("PIL.Image").new("RGBA", image.size, "white")
    white.alpha_composite(image)
    return white.convert("RGB")
