"""Images from clients: known by their header before a pixel is decoded."""

import base64
import binascii
from io import BytesIO
from pathlib import Path

from acqh._core.imports import require
from acqh.encoders.images import image_formats, is_foreign
from acqh.serve._problems import ProblemError

# What browsers show; fewer decoders than Pillow has.
_SHOWN = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
# An image that can be decoded at reduced size may have this many times the pixels of another.
_REDUCED = 4


def most_pixels(max_pixels: int) -> int:
    """Return the most pixels that any image may have, and let Pillow read them."""
    images, most = require("PIL.Image"), _REDUCED * max_pixels
    if images.MAX_IMAGE_PIXELS is not None:  # above it, Pillow warns; above twice as many it raises
        images.MAX_IMAGE_PIXELS = max(images.MAX_IMAGE_PIXELS, most)
    return most


def decode_base64(text: str) -> bytes:
    """Return the bytes that a text in base64 stands for."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProblemError(422, "image: this is not base64; send the file's bytes so") from None


def check_image(content: bytes, max_pixels: int) -> None:
    """Raise `ProblemError` unless an image has a header that can be read and few enough pixels."""
    images = require("PIL.Image")
    # What telephones make is taken, too, where its decoder is installed.
    taken = [name for name in image_formats() if name in (*_SHOWN, "HEIF")]
    too_large = ProblemError(
        413, f"the image has more than {max_pixels:,} pixels; send a smaller one"
    )
    try:
        with images.open(BytesIO(content), formats=taken) as image:
            width, height = image.size
            # Decoded at reduced size; but a progressive one is kept whole while it is decoded.
            is_reduced = image.format == "JPEG" and not image.info.get("progressive")
    except (images.DecompressionBombError, images.DecompressionBombWarning):
        raise too_large from None
    except Exception:  # damaged bytes make decoders raise anything
        detail = f"image: this is not an image in one of {', '.join(taken)}, or is damaged"
        if is_foreign(content):
            detail = "image: this service has no decoder for HEIC (pillow-heif); send it as JPEG"
        raise ProblemError(422, detail) from None
    if width * height > (_REDUCED if is_reduced else 1) * max_pixels:
        raise too_large


def original_file(root: Path, name: str) -> tuple[Path, str]:
    """Return the path and the media type of an image that a manifest names.

    Raises ProblemError: 404: it does not exist, lies outside the folder, or is not an image that
    browsers show.
    """
    missing = ProblemError(404, "the image file of this item does not exist")
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root.resolve()) or not path.is_file():
            raise missing
        with require("PIL.Image").open(path, formats=_SHOWN) as image:
            return path, str(image.get_format_mimetype())
    except ProblemError:
        raise
    except Exception:  # damaged bytes make decoders raise anything
        raise missing from None
