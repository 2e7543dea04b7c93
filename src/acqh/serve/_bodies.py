"""Bodies of requests, as JSON or as a form, become checked schemas and bytes of images."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request

from acqh.serve._problems import ProblemError, invalid

M = TypeVar("M", bound=BaseModel)

JSON = "application/json"
FORM = "multipart/form-data"
# Fields of a form that hold JSON: numbers, yes or no, and objects.
IN_JSON = frozenset(
    {"k", "explain", "weights", "where", "labels", "columns", "replace", "vector", "unlike"}
)
# Fields that a form may have several times.
_REPEATED = frozenset({"item"})
_MAX_FIELDS = 48
_MAX_FILES = 8
# Anything that we take has fewer fields in one object, and fewer values in all.
_MAX_KEYS = 128
_MAX_VALUES = 100_000


def media_type_of(headers: Headers) -> str:
    """Return the media type of a body, without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def media_type(request: Request) -> str:
    """Return which of the two kinds of body a request has, or raise `ProblemError` 415."""
    given = media_type_of(request.headers)
    if given not in (JSON, FORM):
        raise ProblemError(415, f"send {JSON} or {FORM}, and say so in Content-Type")
    return given


# What a form sends: texts, or several texts under one name.
Fields = dict[str, str | list[str]]


async def read_form(request: Request, max_bytes: int) -> tuple[Fields, list[bytes]]:
    """Read a form; return its fields as they are, and the bytes of its images."""
    fields: Fields = {}
    images: list[bytes] = []
    async with request.form(
        max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=max_bytes
    ) as form:
        for name, value in form.multi_items():
            if name in fields and name not in _REPEATED:
                raise ProblemError(422, "the form has a field twice")
            if isinstance(value, UploadFile):
                if name != "image":
                    raise ProblemError(422, "only the field image may be a file")
                if content := await value.read():
                    images.append(content)
            elif value and name in fields:
                fields[name] = [*listed(fields[name]), value]
            elif value:  # what a browser leaves empty was not filled in
                fields[name] = value
    return fields, images


def check_json(body: bytes, schema: type[M]) -> M:
    """Return what a body in JSON says; this may take a while."""
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid([{"loc": (), "msg": f"Invalid JSON: {error}"}]) from None
    return _checked(value, schema)


def check_fields(fields: Fields, schema: type[M]) -> M:
    """Return what the fields of a form say; this may take a while."""
    return _checked({name: _read_field(name, value) for name, value in fields.items()}, schema)


def listed(given: str | list[str] | None) -> list[str]:
    """Return one, several or no texts as a list."""
    return [given] if isinstance(given, str) else given or []


def _read_field(name: str, value: str | list[str]) -> Any:
    if name not in IN_JSON or isinstance(value, list):
        return value
    try:
        return from_json(value, allow_inf_nan=False)
    except ValueError:
        raise ProblemError(422, f"{name}: in a form this field holds JSON") from None


def _checked(value: Any, schema: type[M]) -> M:
    _check_size(value)
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False)) from None


def _check_size(value: Any) -> None:
    """Refuse what has more parts than anything we take, before each of them is an error."""
    waiting, n_values = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if len(one) > _MAX_KEYS:
                detail = f"an object has {len(one):,} fields, of at most {_MAX_KEYS}"
                raise ProblemError(422, f"the request cannot be used: {detail}")
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        n_values += 1
        if n_values + len(waiting) > _MAX_VALUES:
            detail = f"it has more than {_MAX_VALUES:,} values"
            raise ProblemError(422, f"the request cannot be used: {detail}")
