"""What requests and answers look like: schemas at the edge, arrays inside."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from acqh.collection import MAX_NAME_CHARACTERS, CollectionStats, Mode
from acqh.serve._settings import Settings

# More make no sense, and SQLite takes only this many in one statement.
_MAX_CONDITIONS = 8
_MAX_VALUES = 32
_MAX_LABELS = 100
_MAX_COLUMNS = 100
_MAX_IMAGES = 8
_MAX_IDS = 32
_MAX_NUMBERS = 65_536
MAX_ID_CHARS = 1000

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
# Names of columns or, in a filter, the word label; the collection refuses others.
_KEYS: dict[str, Any] = {"minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
# Whole numbers as SQLite holds them.
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Value = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)] | bool | Int64 | float
Values = Annotated[list[Value], Field(min_length=1, max_length=_MAX_VALUES)]
Where = Annotated[
    dict[Name, Value | Values],
    Field(
        max_length=_MAX_CONDITIONS,
        description="All must hold. Of several labels an item has all, of several values one.",
        examples=[{"label": "dog"}],
        json_schema_extra={"propertyNames": _KEYS},
    ),
]
_BASE64 = "Bytes of an image file (JPEG, PNG, WebP, GIF, BMP, maybe HEIC) in base64."
InlineImage = Annotated[
    str, Field(min_length=1, description=_BASE64, json_schema_extra={"contentEncoding": "base64"})
]


def _one_of(**given: dict[str, Any]) -> dict[str, Any]:
    """Say in a schema that one of some fields must be there, which may be null or left out."""
    return {
        "anyOf": [{"required": [name], "properties": {name: kind}} for name, kind in given.items()]
    }


class _Request(BaseModel):
    """What clients send: exact types, finite numbers, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


Images = Annotated[list[InlineImage], Field(min_length=1, max_length=_MAX_IMAGES)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=_MAX_IDS)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]  # as float32 holds them
Vector = Annotated[list[Number], Field(min_length=1, max_length=_MAX_NUMBERS)]
Weight = Annotated[float, Field(ge=0, le=1e6)]


class SearchRequest(_Request):
    """A query: a text, images, items to find more of, vectors, or several of these."""

    model_config = ConfigDict(
        json_schema_extra=_one_of(
            text={"type": "string"},
            image={"type": ["string", "array"]},
            item={"type": ["string", "array"]},
            vector={"type": "object"},
        )
    )

    text: str | None = Field(default=None, min_length=1)
    image: InlineImage | Images | None = Field(default=None, description=_BASE64)
    item: Id | Ids | None = Field(default=None, description="Ids of items: find more like them.")
    unlike: Ids | None = Field(default=None, description="Ids of items that are not wanted.")
    vector: dict[Name, Vector] | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_CONDITIONS,
        description="Features by view: a query that is described already.",
        examples=[{"image": [0.1, 0.7, 0.2]}],
    )
    weights: dict[Name, Weight] | None = Field(
        default=None,
        max_length=_MAX_CONDITIONS,
        description="How much text, image, item, unlike or a view counts; 1, of unlike 0.5.",
        examples=[{"text": 1, "image": 2}],
    )
    where: Where | None = None
    k: int = Field(default=10, ge=1, description="How many hits.")
    explain: bool = Field(default=False, description="Also say how the scores came about.")
    mode: Mode = Field(
        default="auto", description="Look up the words of a text, its meaning, or both."
    )


class BrowseRequest(_Request):
    """Items without a query: all, or those of a filter."""

    where: Where | None = None
    k: int = Field(default=10, ge=1, description="How many items.")
    offset: int = Field(default=0, ge=0, lt=2**31, description="How many to pass over.")
    order: Name | None = Field(default=None, description="A column to sort by.")
    descending: bool = Field(default=False, description="Largest values first.")


class ItemRequest(_Request):
    """An item to be added: a text, an image, or both."""

    model_config = ConfigDict(
        json_schema_extra=_one_of(
            text={"type": "string", "pattern": r"\S"}, image={"type": "string"}
        )
    )

    id: Id | None = Field(default=None, description="A number is given where there is none.")
    text: str = ""
    image: InlineImage | None = None
    labels: Annotated[list[Name], FailFast()] = Field(default_factory=list, max_length=_MAX_LABELS)
    columns: dict[Name, Value | None] = Field(
        default_factory=dict,
        max_length=_MAX_COLUMNS,
        json_schema_extra={"propertyNames": {**_KEYS, "not": {"enum": ["label", "labels"]}}},
    )


class AddRequest(_Request):
    """Items to be added."""

    items: Annotated[list[ItemRequest], FailFast()] = Field(min_length=1)
    replace: bool = Field(default=False, description="Replace items that have these ids.")


def limited_search(settings: Settings) -> type[SearchRequest]:
    """Return the schema of a query with the limits of one service."""

    class Query(SearchRequest):
        """A query: a text, images, items to find more of, vectors, or several of these."""

        text: str | None = Field(default=None, min_length=1, max_length=settings.max_text_chars)
        k: int = Field(
            default=min(10, settings.max_k), ge=1, le=settings.max_k, description="How many hits."
        )

    return Query


def limited_browse(settings: Settings) -> type[BrowseRequest]:
    """Return the schema of items without a query, with the limits of one service."""

    class Browse(BrowseRequest):
        """Items without a query: all, or those of a filter."""

        k: int = Field(
            default=min(10, settings.max_k), ge=1, le=settings.max_k, description="How many items."
        )

    return Browse


def limited_add(settings: Settings) -> tuple[type[AddRequest], type[ItemRequest]]:
    """Return the schemas of items to be added, many or one, with the limits of one service."""

    class NewItem(ItemRequest):
        """An item to be added: a text, an image, or both."""

        text: str = Field(default="", max_length=settings.max_text_chars)

    class NewItems(AddRequest):
        """Items to be added."""

        items: Annotated[list[NewItem], FailFast()] = Field(  # type: ignore[assignment]
            min_length=1, max_length=settings.max_items
        )

    return NewItems, NewItem


class Item(BaseModel):
    """An item of the collection."""

    id: str
    text: str
    labels: list[str]
    columns: dict[str, Any]
    file: str | None = Field(description="The image file's name, where it is known.")
    thumbnail: str | None = Field(description="Where its small image is, if it has one.")
    original: str | None = Field(description="Where its image is as it was, if it is served.")


class Hit(Item):
    """An item that was found."""

    score: float
    why: list[str] = Field(
        description="Why it is there: words, content, image, same image, labels."
    )
    code: list[int] = Field(description="The bytes by which it was found.")


class Milliseconds(BaseModel):
    """Where the time went."""

    encode: float = Field(description="Turning the query into a vector.")
    search: float = Field(description="In the index alone.")
    items: float = Field(description="Reading what was found.")
    total: float = Field(description="All of it, and waiting for a thread.")


class HitParts(BaseModel):
    """How one hit's score came about."""

    words: list[int] = Field(description="Its word in each codebook.")
    entries: list[float] = Field(description="Their entries in the tables; the sum is its meaning.")
    parts: list[float] = Field(description="What adds up to its score.")


class Explanation(BaseModel):
    """How scores came about."""

    query: list[float] = Field(description="The query as a vector; empty for words alone.")
    tables: list[list[float]] = Field(description="Its inner product with every codeword.")
    names: list[str] = Field(description="What each part of a score is.")
    hits: list[HitParts]


class SearchAnswer(BaseModel):
    """What a search found, best first."""

    hits: list[Hit]
    n_items: int = Field(description="Items in the collection.")
    n_candidates: int = Field(description="Items that the filter leaves to choose from.")
    n_seen: int = Field(description="Codes that were scored; items of one code count once.")
    bytes_per_item: float
    milliseconds: Milliseconds
    explanation: Explanation | None


class MapPoint(BaseModel):
    """An item on the map."""

    id: str
    name: str
    x: float = Field(description="Between 0 and 1.")
    y: float
    label: str | None = Field(description="The first of its labels.")
    thumbnail: str | None


class Map(BaseModel):
    """Where items lie: those that are alike near each other."""

    points: list[MapPoint]
    n_items: int = Field(description="Items in the collection, of which these are a sample.")


class Skipped(BaseModel):
    """An item that was not added."""

    where: str
    why: str


class AddAnswer(BaseModel):
    """What became of the items to be added."""

    ids: list[str]
    skipped: list[Skipped]


class Label(BaseModel):
    """A label and how many items have it."""

    name: str
    count: int


class Labels(BaseModel):
    """All labels, the most frequent first."""

    labels: list[Label]


class Limits(BaseModel):
    """What a request may ask for."""

    max_body_bytes: int
    max_json_bytes: int
    max_pixels: int
    max_text_chars: int
    max_k: int


@dataclass(frozen=True, kw_only=True)
class Stats(CollectionStats):
    """Facts about the collection and the service."""

    modes: Annotated[
        list[str], Field(description="What texts may be searched by; the first is the default.")
    ]
    limits: Limits
    writable: Annotated[
        bool, Field(description="Whether a token lets clients add and remove items.")
    ]


class Health(BaseModel):
    """Whether the service answers, and from what."""

    status: Literal["ok", "stale"] = Field(
        description="Stale: the collection on disk is damaged, and the one before it is served."
    )
    detail: str
