"""Bodies of requests, as JSON or as a form, become checked schemas and bytes of pictures."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json
from starlette.datastructures import UploadFile
from starlette.requests import Request

from acqh.serve._problems import ProblemError, invalid

M = TypeVar("M", bound=BaseModel)

JSON = "application/json"
FORM = "multipart/form-data"
# Fields of a form that hold JSON: numbers, yes or no, and objects.
IN_JSON = frozenset({"k", "explain", "weights", "where", "labels", "columns", "replace"})
_MAX_FIELDS = 16


def media_type(request: Request) -> str:
    """Return which of the two kinds of body a request has, or raise `ProblemError` 415."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in (JSON, FORM):
        raise ProblemError(415, f"send {JSON} or {FORM}, and say so in Content-Type")
    return given


async def read_json(request: Request, schema: type[M]) -> M:
    """Read a JSON body."""
    return _checked(await request.body(), schema)


async def read_form(request: Request, schema: type[M]) -> tuple[M, bytes | None]:
    """Read a form; return its fields, and the bytes of its picture where it has one."""
    fields: dict[str, Any] = {}
    picture: bytes | None = None
    limits = {"max_files": 1, "max_fields": _MAX_FIELDS, "max_part_size": 2**62}
    async with request.form(**limits) as form:  # the body as a whole is limited
        for name, value in form.multi_items():
            if name in fields or (name == "image" and picture is not None):
                raise ProblemError(422, "the form has a field twice")
            if isinstance(value, UploadFile):
                if name != "image":
                    raise ProblemError(422, "only the field image may be a file")
                picture = await value.read() or None
            elif value:  # what a browser leaves empty was not filled in
                fields[name] = _read_field(name, value)
    return _checked(to_json(fields), schema), picture


def _read_field(name: str, value: str) -> Any:
    if name not in IN_JSON:
        return value
    try:
        return from_json(value, allow_inf_nan=False)
    except ValueError:
        raise ProblemError(422, f"{name}: in a form this field holds JSON") from None


def _checked(body: bytes, schema: type[M]) -> M:
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False)) from None
