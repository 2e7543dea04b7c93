"""Operations of the API: each reads its request, answers it, and describes both in OpenAPI."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from acqh import __version__
from acqh.collection.types import MAX_ID_CHARACTERS
from acqh.serve.schemas import MEANINGS, MEDIA_TYPE, Problem, ProblemError, invalid

JSON, FORM = "application/json", "multipart/form-data"
_REF = "#/components/schemas/{model}"
_BODY_FAILURES = (408, 413, 415, 422)
_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
_FILE = {"type": "string", "contentMediaType": "application/octet-stream"}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "The token in the file given to acqh serve.",
}


class Nothing:
    """A request without input."""

    model: type[BaseModel] | None = None
    failures: tuple[int, ...] = ()

    async def read(self, request: Request) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the arguments of the handler."""
        return ()

    def described(self) -> dict[str, Any]:
        """Return the parameters or the body in OpenAPI."""
        return {}


class Id(Nothing):
    """A request about an item, whose id is a query parameter: it may contain anything."""

    failures = (404, 422)

    async def read(self, request: Request) -> tuple[Any, ...]:
        """Return the id."""
        identifier = request.query_params.get("id", "")
        if not 0 < len(identifier) <= MAX_ID_CHARACTERS:
            raise ProblemError(422, f"id: give an id of 1 to {MAX_ID_CHARACTERS:,} characters")
        return (identifier,)

    def described(self) -> dict[str, Any]:
        """Return the parameter in OpenAPI."""
        return {"parameters": [{"name": "id", "in": "query", "required": True, "schema": _ID}]}


class IdAndTag(Id):
    """A request about an item of which the client may have a copy."""

    async def read(self, request: Request) -> tuple[Any, ...]:
        """Return the id and the tag of the copy."""
        return *await super().read(request), request.headers.get("if-none-match")


class Json(Nothing):
    """A request whose body is a model in JSON."""

    failures = _BODY_FAILURES

    def __init__(self, model: type[BaseModel]) -> None:
        self.model: type[BaseModel] = model

    async def read(self, request: Request) -> tuple[Any, ...]:
        """Return the model."""
        _check_type(request, JSON)
        return (_parsed(self.model, await request.body()),)

    def described(self) -> dict[str, Any]:
        """Return the body in OpenAPI."""
        return _body(JSON, {"$ref": _REF.format(model=self.model.__name__)})


class Form(Nothing):
    """A request whose body is a form: at most so many images, and a model in JSON in a field."""

    failures = _BODY_FAILURES

    def __init__(self, field: str, model: type[BaseModel], most: int) -> None:
        self.field = field
        self.model: type[BaseModel] = model
        self.most = most

    async def read(self, request: Request) -> tuple[Any, ...]:
        """Return the contents of the images, and the model."""
        _check_type(request, FORM)
        async with request.form() as form:
            files, text = form.getlist("image"), form.get(self.field, "{}")
            if not all(isinstance(file, UploadFile) for file in files) or isinstance(
                text, UploadFile
            ):
                raise ProblemError(422, f"image: send files, and {self.field} as a text")
            if not 0 < len(files) <= self.most:
                raise ProblemError(422, f"image: send 1 to {self.most} files, got {len(files)}")
            model = _parsed(self.model, text)
            contents = [await file.read() for file in files if isinstance(file, UploadFile)]
        # What a browser leaves empty was not chosen.
        return list(filter(None, contents)), model

    def described(self) -> dict[str, Any]:
        """Return the body in OpenAPI."""
        files = {"type": "array", "items": _FILE, "minItems": 1, "maxItems": self.most}
        content = {"$ref": _REF.format(model=self.model.__name__)}
        text = {"type": "string", "contentMediaType": JSON, "contentSchema": content}
        fields = {"image": _FILE if self.most == 1 else files, self.field: text}
        return _body(FORM, {"type": "object", "properties": fields, "required": ["image"]})


def _check_type(request: Request, wanted: str) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != wanted:
        raise ProblemError(415, f"set Content-Type to {wanted}")


def _parsed(model: type[BaseModel], content: str | bytes) -> BaseModel:
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise invalid(error.errors()) from None


def _body(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    method: str
    path: str
    handler: Callable[..., Awaitable[Response | bytes]]  # bytes are JSON
    tag: str
    takes: Nothing = field(default_factory=Nothing)
    # A model that is answered in JSON, or a description of another response.
    answer: Any = None
    status: int = 200
    failures: tuple[int, ...] = (429, 500, 503)
    # Returns whether the sender of a token may use it; None for everybody.
    may_use: Callable[[str | None], bool] | None = None

    async def __call__(self, request: Request) -> Response:
        """Check the token, read the request and answer it."""
        if self.may_use is not None and not self.may_use(_token(request)):
            detail = f"a token to {self.tag} is needed; send 'Authorization: Bearer TOKEN'"
            raise ProblemError(401, detail, {"WWW-Authenticate": "Bearer"})
        answer = await self.handler(*await self.takes.read(request))
        if isinstance(answer, Response):
            return answer
        return Response(answer, self.status, media_type=JSON)

    def described(self) -> dict[str, Any]:
        """Return the operation in OpenAPI."""
        failures = {400, 403, *self.failures, *self.takes.failures}
        failures |= {401} if self.may_use else set()
        answer = self.answer if isinstance(self.answer, dict) else {"description": "Success."}
        if isinstance(self.answer, type):
            schema = {"$ref": _REF.format(model=self.answer.__name__)}
            answer = {**answer, "content": {JSON: {"schema": schema}}}
        problem = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=Problem.__name__)}}}
        return {
            "tags": [self.tag],
            "summary": (self.handler.__doc__ or "").partition("\n")[0],
            "operationId": self.handler.__name__,
            **({"security": [{"bearer": []}]} if self.may_use else {}),
            **self.takes.described(),
            "responses": {str(self.status): answer}
            | {
                str(status): {"description": MEANINGS[status], "content": problem}
                for status in sorted(failures)
            },
        }


def _token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else None


def routes(operations: Iterable[Operation]) -> list[Route]:
    """Return one route per address, so that an unknown method is told all that there are."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation

    def route(path: str, methods: Mapping[str, Operation]) -> Route:
        async def endpoint(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await methods[method](request)

        return Route(path, endpoint, methods=list(methods))

    return [route(path, methods) for path, methods in by_path.items()]


def described(operations: Sequence[Operation], root_path: str) -> dict[str, Any]:
    """Return the OpenAPI document of operations."""
    inputs = {op.takes.model for op in operations if op.takes.model is not None}
    answers = {op.answer for op in operations if isinstance(op.answer, type)} | {Problem}
    kinds = sorted(inputs | answers, key=lambda kind: kind.__name__)
    adapters: list[Any] = [
        (kind.__name__, "validation" if kind in inputs else "serialization", TypeAdapter(kind))
        for kind in kinds
    ]
    _, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = operation.described()
    return {
        "openapi": "3.1.0",
        "info": {"title": "acqh", "version": __version__},
        **({"servers": [{"url": root_path}]} if root_path else {}),
        "paths": paths,
        "components": {"schemas": definitions["$defs"], "securitySchemes": {"bearer": _BEARER}},
    }
