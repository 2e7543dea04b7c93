"""Who may use a route: what FastAPI checks before it, and what OpenAPI says of that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from acqh.serve._problems import ProblemError
from acqh.serve._tokens import Tokens

_BEARER = HTTPBearer(auto_error=False, description="The token in the file given to acqh serve.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


@dataclass(frozen=True)
class Guard:
    """What stands before routes: dependencies, and the statuses with which they refuse."""

    dependencies: list[Any] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


def reading(tokens: Tokens) -> Guard:
    """Return what stands before routes that read: nothing, where no token guards them."""
    return _guard(tokens.may_read, "reading") if tokens.guards_reading else Guard()


def writing(tokens: Tokens) -> Guard:
    """Return what stands before routes that change the collection."""
    return _guard(tokens.may_write, "changing the collection")


def _guard(may_pass: Callable[[str | None], bool], what: str) -> Guard:
    async def check(credentials: Credentials) -> None:
        if not may_pass(credentials.credentials if credentials else None):
            detail = f"{what} needs a token; send it as 'Authorization: Bearer TOKEN'"
            raise ProblemError(401, detail, {"WWW-Authenticate": "Bearer"})

    return Guard([Depends(check)], [401])
