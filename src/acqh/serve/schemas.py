"""Schemas of requests, answers and error responses."""

from collections.abc import Mapping
from dataclasses import fields
from http import HTTPStatus
from types import GenericAlias
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from acqh._core.fields import Language
from acqh.collection import types
from acqh.collection.types import MAX_ID_CHARACTERS, MAX_NAME_CHARACTERS, Mode

# More make no sense, and SQLite takes only this many in one statement.
_MAX_CONDITIONS = 8
_MAX_VALUES = 32
_MAX_LABELS = 100
_MAX_COLUMNS = 100
_MAX_IDS = 32
_MAX_NUMBERS = 65_536
# Objects have fewer fields; every unknown one would be listed as an error.
_MAX_FIELDS = 32
MAX_IMAGES = 8
# Most hits that a search may ask for.
MAX_K = 1_000
MAX_TEXT_CHARS = 10_000
MAX_ITEMS = 100

# --- requests ------------------------------------------------------------------------------------

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
# Names of fields or, in a filter, the word label; the collection rejects others.
_KEYS: dict[str, Any] = {"minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
_FIELD_NAMES = {**_KEYS, "not": {"enum": ["label", "labels"]}}
# Whole numbers as SQLite holds them.
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Value = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)] | bool | Int64 | float
Values = Annotated[list[Value], Field(min_length=1, max_length=_MAX_VALUES)]
Where = Annotated[
    dict[Name, Value | Values],
    Field(
        max_length=_MAX_CONDITIONS,
        description="All conditions must hold: all of several labels, one of several values. Names "
        "may end in an operator: !=, <, <=, >, >= or ~ (contains). Detected: date, kind, tag.",
        examples=[{"label": "dog"}, {"date>=": "2023-01", "kind": "photo"}],
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


def _one_of(**alternatives: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that requires at least one of some optional fields."""
    return {
        "anyOf": [
            {"required": [name], "properties": {name: kind}} for name, kind in alternatives.items()
        ]
    }


class _Request(BaseModel):
    """Body of a request: exact types, finite numbers, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, body: Any) -> Any:
        if isinstance(body, dict) and len(body) > _MAX_FIELDS:
            raise ValueError(f"an object has {len(body):,} fields, of at most {_MAX_FIELDS}")
        return body


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
    unlike: Ids | None = Field(default=None, description="Ids of items: find less like them.")
    vector: dict[Name, Vector] | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_CONDITIONS,
        description="Precomputed embeddings by modality.",
        examples=[{"image": [0.1, 0.7, 0.2]}],
    )
    weights: dict[Name, Weight] | None = Field(
        default=None,
        max_length=_MAX_CONDITIONS,
        description="Weights of text, image, item, unlike or a modality. Default: 1, unlike 0.5.",
        examples=[{"text": 1, "image": 2}],
    )
    where: Where | None = None
    k: int = Field(default=10, ge=1, le=MAX_K, description="Number of hits.")
    dates: bool = Field(
        default=True, description='Understand dates such as "march 2022" in the text as a filter.'
    )
    explain: bool = Field(default=False, description="Also return the parts of each score.")
    mode: Mode = Field(
        default="hybrid",
        description="Search a text by keywords, by semantic similarity, or by both.",
    )
    language: Language | None = Field(
        default=None, description="Language of the text. Default: that of the server."
    )


class ImagesQuery(Query):
    """The query that goes with the images of a form."""

    model_config = ConfigDict(json_schema_extra={})


class Browse(_Request):
    """Items without a query: all, or those of a filter."""

    where: Where | None = None
    k: int = Field(default=10, ge=1, le=MAX_K, description="Number of items.")
    offset: int = Field(default=0, ge=0, lt=2**31, description="Number of items to skip.")
    order: Name | None = Field(default=None, description="A field to sort by, or date.")
    descending: bool = Field(default=False, description="Largest values first.")


class NewItem(_Request):
    """An item to be added: a text, an image, or both."""

    model_config = ConfigDict(
        json_schema_extra=_one_of(
            text={"type": "string", "pattern": r"\S"}, image={"type": "string"}
        )
    )

    id: Id | None = Field(default=None, description="Default: a new id.")
    text: str = Field(default="", max_length=MAX_TEXT_CHARS)
    image: InlineImage | None = None
    labels: Annotated[list[Name], FailFast()] = Field(default_factory=list, max_length=_MAX_LABELS)
    fields: dict[Name, Value | None] = Field(
        default_factory=dict,
        max_length=_MAX_COLUMNS,
        json_schema_extra={"propertyNames": _FIELD_NAMES},
    )


class ImageItem(NewItem):
    """The metadata of the image of a form."""

    model_config = ConfigDict(json_schema_extra={})


class NewItems(_Request):
    """Items to be added."""

    items: Annotated[list[NewItem], FailFast()] = Field(min_length=1, max_length=MAX_ITEMS)
    replace: bool = Field(default=False, description="Replace items that have these ids.")


class Annotation(_Request):
    """New metadata of an item; what is missing stays as it is."""

    text: str | None = Field(default=None, max_length=MAX_TEXT_CHARS, description="The caption.")
    labels: list[Name] | None = Field(default=None, max_length=_MAX_LABELS)
    fields: dict[Name, Value | None] = Field(
        default_factory=dict,
        max_length=_MAX_COLUMNS,
        description="Fields to set; null removes one.",
        json_schema_extra={"propertyNames": _FIELD_NAMES},
    )


# --- answers -------------------------------------------------------------------------------------


def _answer(title: str, /, **types: Any) -> Any:
    """Return a model of a JSON object with fields of these types; [a type] is a list of it."""
    definitions: Any = {
        name: (GenericAlias(list, kind[0]) if isinstance(kind, list) else kind, ...)
        for name, kind in types.items()
    }
    return create_model(title, **definitions)


def _derived(example: Any, **types: Any) -> Any:
    """Return a model of ``example.to_dict()``, with the types of its class.

    `types`: others, for JSON, and those of fields that the server adds.
    """
    kind = type(example)
    declared = {field.name: field.type for field in fields(kind)}
    hints: dict[str, Any] = {}
    for name in example.to_dict():
        hints[name] = declared.get(name) or get_type_hints(getattr(kind, name).fget)["return"]
    return _answer(kind.__name__, **{**hints, **types})


# Added by the server: words of the file name, and addresses of images.
_ADDED = {"id": str, "name": str} | dict.fromkeys(("file", "thumbnail", "original"), str | None)
_PARTS = _answer("HitParts", codes=[int], entries=[float], parts=[float])
_TABLES = {"query": [float], "tables": [list[float]], "names": [str], "hits": [_PARTS]}
Item = _derived(types.Item(id=""), **_ADDED)
Hit = _derived(types.Hit(id="", score=0.0), code=[int], **_ADDED)
Answer = _derived(
    types.Answer((), 0, 0, 0, {}),
    hits=[Hit],
    explanation=_answer("Explanation", **_TABLES) | None,
    filters=[_answer("TextFilter", text=str, where=dict[str, str])],
    unmatched_phrases=[str],
    bytes_per_item=float,
)
_POINT = {"id": str, "name": str, "x": float, "y": float, "label": str | None, "tag": str | None}
_MapPoint = _answer("MapPoint", **_POINT, thumbnail=str | None)
Map = _answer("Map", points=[_MapPoint], n_items=int)
Added = _answer("Added", ids=[str], skipped=[_answer("Skipped", item=str, reason=str)])
_Label = _answer("Label", name=str, count=int)
Labels = _answer("Labels", labels=[_Label], tags=[_Label], kinds=[_Label], months=[_Label])
Health = _answer("Health", status=Literal["ok"])
Readiness = _answer("Readiness", status=Literal["ready", "stale"], detail=str)
ErrorResponse = _answer("ErrorResponse", type=str, title=str, status=int, detail=str)


_SERVED = {"name": str, "modes": [str], "examples": [str], "limits": dict[str, float]}
# Without the folders of the machine.
_FACTS = {
    name: kind for name, kind in get_type_hints(types.CollectionInfo).items() if name != "folders"
}
Info = _answer("Info", **_FACTS, **_SERVED, writable=bool, flags=dict[str, int])


# --- errors --------------------------------------------------------------------------------------

ERROR_TYPE = "application/problem+json"
RETRY = {"Retry-After": "1"}


def error_response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response. `detail`: what failed, with which value, and one fix."""
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Response(to_json(body), status, headers, ERROR_TYPE)


def parse(model: type[BaseModel], content: str | bytes) -> BaseModel:
    """Return a request from JSON; raise 422 that names invalid fields but quotes no values.

    Values are not sent back: they may be long, and they may not be text.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        lines = [
            ": ".join(filter(None, [".".join(map(str, line["loc"])), line["msg"]]))
            for line in error.errors()
        ]
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    detail = f"the request cannot be used: {'; '.join(lines[:5])[:2000]}{more}"
    raise HTTPException(422, detail)
