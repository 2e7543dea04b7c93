"""Errors as clients see them: ``application/problem+json``, with nothing of our insides."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"

_MEANINGS = {
    400: "The request is not HTTP as it should be, or names a host that is not served here.",
    401: "A token is needed, or the one given is wrong.",
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
    """The body of every error."""

    type: str = Field(default="about:blank", description="Kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, what was given, and what to do.")


class ProblemError(Exception):
    """A request that is answered with a problem.

    `status`: HTTP status. `detail`: what is wrong, what was given, and what to do; it is sent to
    the client. `headers`: further headers of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    def response(self) -> Response:
        """Return the answer for this problem."""
        problem = Problem(title=self.title, status=self.status, detail=self.detail)
        return Response(problem.model_dump_json(), self.status, self.headers, MEDIA_TYPE)


def invalid(errors: Iterable[Mapping[str, Any]]) -> ProblemError:
    """Return the problem for fields that do not validate, naming each but quoting none.

    What was given is not sent back: it may be long, and it may not be text.
    """
    lines = []
    for error in errors:
        where = ".".join(str(part) for part in error["loc"])
        lines.append(f"{where}: {error['msg']}" if where else str(error["msg"]))
    shown = "; ".join(lines[:5])
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    return ProblemError(422, f"the request cannot be used: {shown[:2000]}{more}")


def documented(statuses: Sequence[int]) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of the statuses with which an operation may fail."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": _MEANINGS[status], "content": {MEDIA_TYPE: schema}}
        for status in sorted(statuses)
    }
