"""What requests and answers look like: schemas at the edge, arrays inside."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from acqh.collection import MAX_NAME_CHARACTERS
from acqh.serve._settings import Settings

# More make no sense, and SQLite takes only so many in one statement.
_MAX_CONDITIONS = 8
_MAX_VALUES = 32
_MAX_LABELS = 100
_MAX_COLUMNS = 100
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
Picture = Annotated[
    str,
    Field(
        min_length=1,
        description="Bytes of a picture file (JPEG, PNG, WebP, GIF or BMP) in base64.",
        json_schema_extra={"contentEncoding": "base64"},
    ),
]


def _one_of(*names: str, **patterns: str) -> dict[str, Any]:
    """Say in a schema that one of some texts must be there, which may be null or left out."""
    given = [
        {"type": "string", **({"pattern": patterns[n]} if n in patterns else {})} for n in names
    ]
    ways = zip(names, given, strict=True)
    return {"anyOf": [{"required": [name], "properties": {name: text}} for name, text in ways]}


class _Request(BaseModel):
    """What clients send: exact types, finite numbers, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Weights(_Request):
    """How much each part of a query counts."""

    text: float = Field(default=1.0, ge=0, le=1e6)
    image: float = Field(default=1.0, ge=0, le=1e6)
    item: float = Field(default=1.0, ge=0, le=1e6)


class SearchRequest(_Request):
    """A query: a text, a picture, both, or an item to find more of."""

    model_config = ConfigDict(json_schema_extra=_one_of("text", "image", "item"))

    text: str | None = Field(default=None, min_length=1)
    image: Picture | None = None
    item: Id | None = Field(default=None, description="Id of an item: find more like it.")
    weights: Weights | None = None
    where: Where | None = None
    k: int = Field(default=10, ge=1, description="How many hits.")
    explain: bool = Field(default=False, description="Also say how the scores came about.")


class ItemRequest(_Request):
    """An item to be added: a text, a picture, or both."""

    model_config = ConfigDict(json_schema_extra=_one_of("text", "image", text=r"\S"))

    id: Id | None = Field(default=None, description="A number is given where there is none.")
    text: str = ""
    image: Picture | None = None
    labels: Annotated[list[Name], FailFast()] = Field(default_factory=list, max_length=_MAX_LABELS)
    columns: dict[Name, Value | None] = Field(
        default_factory=dict,
        max_length=_MAX_COLUMNS,
        json_schema_extra={"propertyNames": {**_KEYS, "not": {"const": "label"}}},
    )


class AddRequest(_Request):
    """Items to be added."""

    items: Annotated[list[ItemRequest], FailFast()] = Field(min_length=1)
    replace: bool = Field(default=False, description="Replace items that have these ids.")


def limited_search(settings: Settings) -> type[SearchRequest]:
    """Return the schema of a query with the limits of one service."""

    class Query(SearchRequest):
        """A query: a text, a picture, both, or an item to find more of."""

        text: str | None = Field(default=None, min_length=1, max_length=settings.max_text_chars)
        k: int = Field(
            default=min(10, settings.max_k), ge=1, le=settings.max_k, description="How many hits."
        )

    return Query


def limited_add(settings: Settings) -> tuple[type[AddRequest], type[ItemRequest]]:
    """Return the schemas of items to be added, many or one, with the limits of one service."""

    class NewItem(ItemRequest):
        """An item to be added: a text, a picture, or both."""

        text: str = Field(default="", max_length=settings.max_text_chars)

    class NewItems(AddRequest):
        """Items to be added."""

        items: Annotated[list[NewItem], FailFast()] = Field(  # type: ignore[assignment]
            min_length=1, max_length=settings.max_items
        )

    return NewItems, NewItem


class Hit(BaseModel):
    """An item that was found."""

    id: str
    score: float
    text: str
    labels: list[str]
    columns: dict[str, Any]
    thumbnail: str | None = Field(description="Where its small picture is, if it has one.")
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
    parts: list[float] = Field(description="Their entries in the tables; their sum is the score.")


class Explanation(BaseModel):
    """How scores came about."""

    query: list[float] = Field(description="The query as a vector.")
    tables: list[list[float]] = Field(description="Its inner product with every codeword.")
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


class Item(BaseModel):
    """An item of the collection."""

    id: str
    text: str
    labels: list[str]
    columns: dict[str, Any]
    thumbnail: str | None


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


class Stats(BaseModel):
    """Facts about the collection and the service."""

    n_items: int
    n_labelled: int
    n_labels: int
    n_thumbnails: int
    bytes_per_item: float
    code_bytes: int
    size_on_disk: int
    encoders: dict[str, str]
    method: str
    n_components: int
    n_codebooks: int
    n_trained: int
    trained_on: str
    coded_by: dict[str, int]
    n_skipped: int
    generation: str
    change: int
    version: str
    limits: Limits
    writable: bool = Field(description="Whether a token lets clients add and remove items.")


class Health(BaseModel):
    """Whether the service answers, and from what."""

    status: Literal["ok", "stale"] = Field(
        description="Stale: the collection on disk is damaged, and the one before it is served."
    )
    detail: str
