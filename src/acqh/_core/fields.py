"""Names with a fixed meaning: metadata fields, their synonyms and types; languages."""

from typing import Final, Literal, NamedTuple, get_args


class Field(NamedTuple):
    """A metadata field with a fixed meaning."""

    names: tuple[str, ...]  # in tables; the first is its name in a collection
    kind: str  # of its values
    is_title: bool = False  # whether it is a title or name of the item
    is_of_file: bool = False  # whether it is a property of the item's tracked file


# Synonyms are those of Hugging Face's ImageFolder and of img2dataset.
FIELDS: Final = {
    "id": Field(("id", "ids"), "text"),
    "image": Field(("image", "file_name"), "path or bytes"),
    "text": Field(("text", "caption"), "text"),
    "labels": Field(("labels", "label"), "several texts"),
    "name": Field(("name",), "text", is_title=True),
    "title": Field(("title",), "text", is_title=True),
    "keywords": Field(("keywords",), "text", is_title=True),
    "description": Field(("description",), "text", is_title=True),
    "file": Field(("file",), "path in the tracked folder", is_title=True, is_of_file=True),
    "date": Field(("date",), "ISO 8601, local time", is_of_file=True),
    "bytes": Field(("bytes",), "integer", is_of_file=True),
    "modified": Field(("modified",), "ISO 8601, UTC", is_of_file=True),
    "sha256": Field(("sha256",), "hexadecimal", is_of_file=True),
}
IMAGE, FILE, DATE = "image", "file", "date"
BYTES, MODIFIED, DIGEST = "bytes", "modified", "sha256"
# Of the tracked file of an item.
FILE_FIELDS: Final = tuple(name for name, field in FIELDS.items() if field.is_of_file)
# Keyword search covers these like captions.
TITLE_FIELDS: Final = tuple(name for name, field in FIELDS.items() if field.is_title)
# Metadata that acqh detects in images and files, apart from what people give; see `Item`.
DATE_SOURCE, KIND, TAGS, TEXT_IN_IMAGE = "date_source", "kind", "tags", "text_in_image"
DETECTED: Final = (DATE, DATE_SOURCE, KIND, TAGS, TEXT_IN_IMAGE)
# Of images; that of a video is "video".
KINDS: Final = ("photo", "screenshot", "document", "drawing")
PHOTO: Final = KINDS[0]
# Filters name one of the suggested tags.
TAG: Final = "tag"
# Names of the image file of an item: in a table, or in a tracked folder.
IMAGE_FIELDS: Final = (IMAGE, FILE)
# Languages of texts, as codes of ISO 639-1.
Language = Literal[
    "auto", "ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"
]
LANGUAGES: tuple[str, ...] = get_args(Language)[1:]
