"""Tokens: read from files, compared in constant time, never shown."""

import hmac
from pathlib import Path

from acqh.errors import InvalidInputError
from acqh.serve._settings import Settings

_MIN_CHARS = 16
_HOW_TO_MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Tokens:
    """Who may read and who may write.

    `read`, `write`: the tokens. Without `read` everybody may read, without `write` nobody may
    write; who may write may also read.
    """

    def __init__(self, read: str | None = None, write: str | None = None) -> None:
        if read is not None and read == write:
            raise InvalidInputError(
                "the tokens for reading and for writing are the same; "
                "readers could then write: make two"
            )
        self._read = None if read is None else read.encode()
        self._write = None if write is None else write.encode()

    def __repr__(self) -> str:
        return f"Tokens(guards_reading={self.guards_reading}, allows_writing={self.allows_writing})"

    @property
    def guards_reading(self) -> bool:
        """Whether readers need a token."""
        return self._read is not None

    @property
    def allows_writing(self) -> bool:
        """Whether anybody may write."""
        return self._write is not None

    def may_write(self, given: str | None) -> bool:
        """Say whether who sends this token may add and remove items."""
        return _same(self._write, given)

    def may_read(self, given: str | None) -> bool:
        """Say whether who sends this token may search."""
        # Both are compared in every case, so that the time taken does not say which one is near.
        reads, writes = _same(self._read, given), _same(self._write, given)
        return self._read is None or reads or writes


def read_tokens(settings: Settings) -> Tokens:
    """Read the tokens that the settings name.

    Raises InvalidInputError: a token is too short or not plain, both are the same, other machines
    could read without a token. Raises OSError: a file cannot be read.
    """
    if not settings.is_loopback and settings.token_file is None:
        raise InvalidInputError(
            f"serving on {settings.host} lets other machines in, and no token guards the "
            f"collection; make one with {_HOW_TO_MAKE} > token.txt and give "
            "--token-file token.txt, or serve on 127.0.0.1"
        )
    return Tokens(_read(settings.token_file), _read(settings.write_token_file))


def _read(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_bytes().strip().decode("ascii")
    except UnicodeDecodeError:
        token = ""
    if len(token) < _MIN_CHARS or not token.isprintable() or " " in token:
        raise InvalidInputError(
            f"{path} must hold one token of at least {_MIN_CHARS} plain characters and nothing "
            f"else; make one with {_HOW_TO_MAKE}"
        )
    return token


def _same(token: bytes | None, given: str | None) -> bool:
    if token is None or given is None:
        return False
    return hmac.compare_digest(token, given.encode("utf-8", "surrogatepass"))
