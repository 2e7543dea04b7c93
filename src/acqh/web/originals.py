"""Original image files of items."""

from io import BytesIO
from pathlib import Path

from acqh._core.fields import IMAGE_FIELDS
from acqh.collection import Item
from acqh.collection.store.words import words_in_path
from acqh.encoders.images import first_bytes, is_too_large, open_image, read_image
from acqh.encoders.videos import video_type

# Formats that browsers show.
BROWSER_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
ORIGINAL_TYPES = (
    *(f"image/{name.lower()}" for name in BROWSER_FORMATS),
    *("video/mp4", "video/webm", "video/x-msvideo"),
)
# Photos of 12 megapixels keep their size.
_JPEG_SIDE = 4_096
# Images that can only be decoded reduced come with two to four times this side.
_LARGE_SIDE = 1_024
# Tiles are about 300 pixels wide; a JPEG of 12 megapixels is then decoded at a quarter of its side.
_PREVIEW_SIDE = 480
_JPEG_QUALITY = 85


def file_of(item: Item) -> str | None:
    """Return the name of an item's image file, relative to its table or folder."""
    names = (item.fields.get(column) for column in IMAGE_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), None)


def name_of(item: Item) -> str:
    """Return the words in the name of an item's image file, or else in its id."""
    return words_in_path((file_of(item) or item.id).rpartition("/")[2])


def original_of(root: Path, name: str) -> tuple[Path, str | None]:
    """Return the path and the media type of an image or video file in a folder.

    The media type is None if browsers do not show the format; see `to_jpeg`. Raises
    FileNotFoundError: it does not exist, lies outside the folder, or is neither an image nor
    a video.
    """
    missing = FileNotFoundError("the image file of this item does not exist")
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root.resolve()) or not path.is_file():
            raise missing
        if (video := video_type(first_bytes(path))) is not None:
            return path, video
        with open_image(path) as image:
            is_shown = image.format in BROWSER_FORMATS
            return path, str(image.get_format_mimetype()) if is_shown else None
    except Exception:  # damaged bytes make decoders raise anything
        raise missing from None


def to_jpeg(path: Path, max_pixels: int | None) -> bytes:
    """Return an image file of any format as an upright JPEG of at most 4,096 pixels a side.

    Raises ImageError: it cannot be read, or has more than `max_pixels` pixels.
    """
    try:
        with open_image(path) as opened:
            is_large = is_too_large(opened, max_pixels, _JPEG_SIDE)
    except Exception:  # damaged bytes make decoders raise anything; the next line says why
        is_large = False
    side = _LARGE_SIDE if is_large else _JPEG_SIDE
    return _jpeg(path, max_pixels, side, _JPEG_SIDE)


def preview_of(path: Path, max_pixels: int | None) -> bytes:
    """Return an image or video file as an upright JPEG of at most 480 pixels a side.

    Raises ImageError: it cannot be read, or has more than `max_pixels` pixels.
    """
    return _jpeg(path, max_pixels, _PREVIEW_SIDE, _PREVIEW_SIDE)


def _jpeg(path: Path, max_pixels: int | None, decoded_side: int, side: int) -> bytes:
    image = read_image(path, max_pixels=max_pixels, name="the original", side=decoded_side)
    image.thumbnail((side, side))
    file = BytesIO()
    image.save(file, "JPEG", quality=_JPEG_QUALITY, icc_profile=image.info.get("icc_profile"))
    return file.getvalue()
