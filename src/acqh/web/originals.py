"""Original image files of items."""

from pathlib import Path

from acqh._core.fields import IMAGE_FIELDS
from acqh.collection import Item
from acqh.collection.store.words import words_in_path
from acqh.encoders.images import open_image

# Formats that browsers show.
BROWSER_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")


def file_of(item: Item) -> str | None:
    """Return the name of an item's image file, relative to its table or folder."""
    names = (item.fields.get(column) for column in IMAGE_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), None)


def name_of(item: Item) -> str:
    """Return the words in the name of an item's image file, or else in its id."""
    return words_in_path((file_of(item) or item.id).rpartition("/")[2])


def original_of(root: Path, name: str) -> tuple[Path, str]:
    """Return the path and the media type of an image file in a folder.

    Raises FileNotFoundError: it does not exist, lies outside the folder, or is not an image that
    browsers show.
    """
    missing = FileNotFoundError("the image file of this item does not exist")
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root.resolve()) or not path.is_file():
            raise missing
        with open_image(path, BROWSER_FORMATS) as image:
            return path, str(image.get_format_mimetype())
    except Exception:  # damaged bytes make decoders raise anything
        raise missing from None
