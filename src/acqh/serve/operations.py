"""Operations of the API: each parses its request, answers it, and documents both in OpenAPI."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, TypeAdapter
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from acqh import __version__
from acqh.collection.types import MAX_ID_CHARACTERS
from acqh.serve.schemas import ERROR_TYPE, ErrorResponse, parse

JSON, FORM = "application/json", "multipart/form-data"
_REF = "#/components/schemas/{model}"
_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
_FILE = {"type": "string", "contentMediaType": "application/octet-stream"}


@dataclass(frozen=True)
class Operation:
    """One method of one address.

    The handler's arguments are the id of an item (`has_id`), a body, and of a form its images.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Response | bytes]]  # bytes are JSON
    tag: str
    answer: Any = None  # type of the JSON, or a tuple of media types
    has_id: bool = False
    body: type[BaseModel] | None = None
    form: str = ""  # the field of a form that holds the body in JSON
    max_images: int = 1
    status: int = 200
    may_use: Callable[[str | None], bool] | None = None  # by token; None for everybody

    async def respond(self, request: Request) -> Response:
        """Check the token, parse the request and answer it."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self.may_use and not self.may_use(token if scheme.lower() == "bearer" else None):
            detail = f"a token to {self.tag} is needed; send 'Authorization: Bearer TOKEN'"
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
        answer = await self.handler(*await self._arguments(request))
        if not isinstance(answer, Response):
            return Response(answer, self.status, media_type=JSON)
        tag = answer.headers.get("etag")
        if tag and tag == request.headers.get("if-none-match"):
            del answer.headers["content-length"], answer.headers["content-type"]
            return Response(status_code=304, headers=answer.headers)
        return answer

    async def _arguments(self, request: Request) -> tuple[Any, ...]:
        ids: tuple[str, ...] = ()
        if self.has_id:
            ids = (request.query_params.get("id", ""),)
            if not 0 < len(ids[0]) <= MAX_ID_CHARACTERS:
                raise HTTPException(422, f"id: send 1 to {MAX_ID_CHARACTERS:,} characters")
        if self.body is None:
            return ids
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != (FORM if self.form else JSON):
            raise HTTPException(415, f"set Content-Type to {FORM if self.form else JSON}")
        if not self.form:
            return *ids, parse(self.body, await request.body())
        async with request.form() as form:
            images, text = form.getlist("image"), form.get(self.form, "{}")
            files = [image for image in images if isinstance(image, UploadFile)]
            if len(files) < len(images) or isinstance(text, UploadFile):
                raise HTTPException(422, f"image: send files, and {self.form} as a text")
            if not 0 < len(files) <= self.max_images:
                detail = f"image: send 1 to {self.max_images} files, got {len(files)}"
                raise HTTPException(422, detail)
            # A browser sends an empty file if none was chosen.
            contents = [content for file in files if (content := await file.read())]
            return *ids, parse(self.body, text), contents

    def to_openapi(self) -> dict[str, Any]:
        """Return the operation in OpenAPI."""
        failures = {400, 403, 404, 429, 431, 500, 503} | ({401} if self.may_use else set())
        document: dict[str, Any] = {
            "tags": [self.tag],
            "summary": (self.handler.__doc__ or "").partition("\n")[0],
            "operationId": f"{self.method.lower()}{self.path.replace('/', '_')}",
        }
        if self.may_use:
            document["security"] = [{"bearer": []}]
        if self.has_id:
            failures.add(422)
            parameter = {"name": "id", "in": "query", "required": True, "schema": _ID}
            document["parameters"] = [parameter]
        if self.body is not None:
            failures |= {408, 413, 415, 422}
            content = {FORM: self._form_schema()} if self.form else _content(JSON, self.body)
            document["requestBody"] = {"required": True, "content": content}
        success: dict[str, Any] = {"description": "Success."}
        if isinstance(self.answer, tuple):
            success["content"] = {media_type: {} for media_type in self.answer}
        elif self.answer is not None:
            success["content"] = _content(JSON, self.answer)
        errors = {"content": _content(ERROR_TYPE, ErrorResponse)}
        document["responses"] = {str(self.status): success} | {
            str(status): {"description": HTTPStatus(status).phrase, **errors}
            for status in sorted(failures)
        }
        return document

    def _form_schema(self) -> dict[str, Any]:
        files = {"type": "array", "items": _FILE, "minItems": 1, "maxItems": self.max_images}
        text = {"type": "string", "contentMediaType": JSON, "contentSchema": _ref(self.body)}
        properties = {"image": _FILE if self.max_images == 1 else files, self.form: text}
        return {"schema": {"type": "object", "properties": properties, "required": ["image"]}}


def _ref(model: Any) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _content(media_type: str, model: Any) -> dict[str, Any]:
    return {media_type: {"schema": _ref(model)}}


def routes(operations: Sequence[Operation]) -> list[Route]:
    """Return one route per address, so that an answer 405 lists all methods of the address."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation

    def route(path: str, methods: dict[str, Operation]) -> Route:
        async def endpoint(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await methods[method].respond(request)

        return Route(path, endpoint, methods=list(methods))

    return [route(path, methods) for path, methods in by_path.items()]


def openapi(operations: Sequence[Operation], root_path: str) -> dict[str, Any]:
    """Return the OpenAPI document of operations."""
    bodies: set[Any] = {operation.body for operation in operations} - {None}
    answers = {op.answer for op in operations if not isinstance(op.answer, tuple | None)} | {
        ErrorResponse
    }
    adapters: list[Any] = [
        (model.__name__, "validation" if model in bodies else "serialization", TypeAdapter(model))
        for model in sorted(bodies | answers, key=lambda model: model.__name__)
    ]
    _, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = operation.to_openapi()
    bearer = {"type": "http", "scheme": "bearer", "description": "The token of acqh serve."}
    return {
        "openapi": "3.1.0",
        "info": {"title": "acqh", "version": __version__},
        **({"servers": [{"url": root_path}]} if root_path else {}),
        "paths": paths,
        "components": {"schemas": definitions["$defs"], "securitySchemes": {"bearer": bearer}},
    }
