"""What requests, answers and errors look like: schemas at the edge, arrays inside."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator
from starlette.exceptions import HTTPException
from starlette.responses import Response

from acqh.collection import CollectionStats
from acqh.collection.types import MAX_ID_CHARACTERS, MAX_NAME_CHARACTERS, Mode

# More make no sense, and SQLite takes only this many in one statement.
_MAX_CONDITIONS = 8
_MAX_VALUES = 32
_MAX_LABELS = 100
_MAX_COLUMNS = 100
_MAX_IDS = 32
_MAX_NUMBERS = 65_536
# Any object has fewer fields of its own: each that is unknown would be an error.
_MAX_FIELDS = 32
MAX_IMAGES = 8
# Most hits that a search may ask for.
MAX_K = 1_000
MAX_TEXT_CHARS = 10_000
MAX_ITEMS = 100

# --- what clients send ---------------------------------------------------------------------------

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
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
Images = Annotated[list[InlineImage], Field(min_length=1, max_length=MAX_IMAGES)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=_MAX_IDS)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]  # as float32 holds them
Vector = Annotated[list[Number], Field(min_length=1, max_length=_MAX_NUMBERS)]
Weight = Annotated[float, Field(ge=0)]


def _one_of(**given: dict[str, Any]) -> dict[str, Any]:
    """Say in a schema that one of some fields must be there, which may be null or left out."""
    return {
        "anyOf": [{"required": [name], "properties": {name: kind}} for name, kind in given.items()]
    }


class _Request(BaseModel):
    """What clients send: exact types, finite numbers, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > _MAX_FIELDS:
            raise ValueError(f"an object has {len(given):,} fields, of at most {_MAX_FIELDS}")
        return given


class Query(_Request):
    """A query: a text, images, items to find more of, vectors, or several of these."""

    model_config = ConfigDict(
        json_schema_extra=_one_of(
            text={"type": "string"},
            image={"type": ["string", "array"]},
            item={"type": ["string", "array"]},
            vector={"type": "object"},
        )
    )

    text: str | None = Field(default=None, min_length=1, max_length=MAX_TEXT_CHARS)
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
    k: int = Field(default=10, ge=1, le=MAX_K, description="How many hits.")
    explain: bool = Field(default=False, description="Also say how the scores came about.")
    mode: Mode = Field(
        default="auto", description="Look up the words of a text, its meaning, or both."
    )


class ImagesQuery(Query):
    """What is asked for beside the images of a form."""

    model_config = ConfigDict(json_schema_extra={})


class Browse(_Request):
    """Items without a query: all, or those of a filter."""

    where: Where | None = None
    k: int = Field(default=10, ge=1, le=MAX_K, description="How many items.")
    offset: int = Field(default=0, ge=0, lt=2**31, description="How many to pass over.")
    order: Name | None = Field(default=None, description="A column to sort by.")
    descending: bool = Field(default=False, description="Largest values first.")


class NewItem(_Request):
    """An item to be added: a text, an image, or both."""

    model_config = ConfigDict(
        json_schema_extra=_one_of(
            text={"type": "string", "pattern": r"\S"}, image={"type": "string"}
        )
    )

    id: Id | None = Field(default=None, description="One is made where there is none.")
    text: str = Field(default="", max_length=MAX_TEXT_CHARS)
    image: InlineImage | None = None
    labels: Annotated[list[Name], FailFast()] = Field(default_factory=list, max_length=_MAX_LABELS)
    columns: dict[Name, Value | None] = Field(
        default_factory=dict,
        max_length=_MAX_COLUMNS,
        json_schema_extra={"propertyNames": {**_KEYS, "not": {"enum": ["label", "labels"]}}},
    )


class ImageItem(NewItem):
    """What is said of the image of a form."""

    model_config = ConfigDict(json_schema_extra={})


class NewItems(_Request):
    """Items to be added."""

    items: Annotated[list[NewItem], FailFast()] = Field(min_length=1, max_length=MAX_ITEMS)
    replace: bool = Field(default=False, description="Replace items that have these ids.")


# --- what they get -------------------------------------------------------------------------------


class Item(BaseModel):
    """An item of the collection."""

    id: str
    name: str = Field(description="The words in its file's name or id; maybe none.")
    text: str
    labels: list[str]
    columns: dict[str, Any]
    has_thumbnail: bool
    file: str | None = Field(description="The image file's name, where it is known.")
    thumbnail: str | None = Field(description="Where its small image is, if it has one.")
    original: str | None = Field(description="Where its image is as it was, if it is served.")


class Hit(Item):
    """An item that was found."""

    score: float = Field(description="Higher is better; comparable within one answer.")
    match: float = Field(
        description="From 0 to 1, comparable between queries; above 0.5 the hit stands out."
    )
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
    stands_out: int = Field(
        description="How many hits stand out of what queries about something absent get."
    )
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


class RequestLimits(BaseModel):
    """What a request may ask for."""

    max_body_bytes: int
    max_json_bytes: int
    max_pixels: int
    max_text_chars: int
    max_k: int


@dataclass(frozen=True, kw_only=True)
class Stats(CollectionStats):
    """Facts about the collection and the service."""

    name: Annotated[str, Field(description="What the collection is called.")]
    modes: Annotated[
        list[str], Field(description="What texts may be searched by; the first is the default.")
    ]
    examples: Annotated[list[str], Field(description="What the page offers to try.")]
    limits: RequestLimits
    writable: Annotated[
        bool, Field(description="Whether a token lets clients add and remove items.")
    ]


class Health(BaseModel):
    """The server is alive."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """The server answers queries."""

    status: Literal["ready", "stale"] = Field(
        description="Stale: the collection on disk is damaged; the previous one is served."
    )
    detail: str


# --- what goes wrong -----------------------------------------------------------------------------

MEDIA_TYPE = "application/problem+json"
MEANINGS = {
    400: "The request is not HTTP as it should be, or names a host that is not served here.",
    401: "A token is needed, or the one given is wrong.",
    403: "The request came through a proxy that the server is not set up for.",
    404: "There is no such thing.",
    408: "The request's body came too slowly.",
    413: "The body is too long, or the image has too many pixels.",
    415: "The body is of a type that is not taken, or is compressed.",
    422: "The request can be read but not followed; the detail says why.",
    429: "Too many requests at once; try again.",
    500: "Something failed in the service; its log says what.",
    503: "No answer in time; try again.",
}


class Problem(BaseModel):
    """The body of every error, with nothing of our insides."""

    type: str = Field(default="about:blank", description="Kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, what was given, and what to do.")


class ProblemError(HTTPException):
    """A request that is answered with a problem.

    `status`: HTTP status. `detail`: what is wrong, what was given, and what to do; it is sent to
    the client. `headers`: further headers of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, dict(headers or {}))

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status_code).phrase

    def response(self) -> Response:
        """Return the answer for this problem."""
        problem = Problem(title=self.title, status=self.status_code, detail=self.detail)
        return Response(problem.model_dump_json(), self.status_code, self.headers, MEDIA_TYPE)


def invalid(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return the problem for fields that do not validate, naming each but quoting none.

    What was given is not sent back: it may be long, and it may not be text.
    """
    lines = []
    for error in errors:
        where = ".".join(str(part) for part in error["loc"] if part not in ("body", "query"))
        lines.append(f"{where}: {error['msg']}" if where else str(error["msg"]))
    shown = "; ".join(lines[:5])
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    return ProblemError(422, f"the request cannot be used: {shown[:2000]}{more}")
