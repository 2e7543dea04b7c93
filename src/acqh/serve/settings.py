"""What a person may set about the service, what holds without being asked, and who may do what."""

import hmac
import ipaddress
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from acqh.errors import InvalidInputError

_MIN_CHARS = 16
_FEW = min(4, os.cpu_count() or 1)
_HOW_TO_MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Settings(BaseSettings):
    """Settings of the service; each may also come from the environment, as ``ACQH_PORT`` does.

    Parameters
    ----------
    collection : path
        The collection's folder.
    host : str, default "127.0.0.1"
        Address to listen on. Any but a loopback address needs `token_file`.
    port : int, default 8000
        Port to listen on; 0 takes a free one.
    token_file : path or None
        File with the token that readers must send; without it everybody on this machine may read.
    write_token_file : path or None
        File with the token that adds and removes items; without it the service is read-only.
    allowed_hosts : list of str
        Names by which clients may call the service, beside those of this machine; for a proxy.
    root_path : str
        What a proxy puts before every path, such as ``/photos``; needed only where it does not
        take it away again, or where programs follow the addresses in answers.
    image_root : path or None
        Folder that image files are named relative to, for the page to show the images as they
        were. Without it, it shows those of folders that the collection was built from, and only
        where `is_private` holds.
    examples : list of str
        What the page offers to try; by default names of some items, or what images without texts
        show.
    max_pixels : int
        Largest image, known from its header before it is decoded. A JPEG that can be decoded at
        a quarter of its size or less counts as a quarter. Bodies of requests may have half a byte
        for each, and 8 MiB in any case.
    query_encoder : {"default", "fast"}
        Encoder of query texts. "default": that of the collection. "fast": static token embeddings
        in place of MiniLM, which take microseconds and have a little less recall.
    n_threads : int
        Threads that search in each worker; the event loop never does. Images have as many of
        their own. Default: one per core, at most 4, divided by `workers`.
    workers : int
        Processes that answer requests. Default: one per core, at most 4.

    Examples
    --------
    >>> settings = Settings(collection="photos.acqh", port=9000)
    >>> settings.host, settings.is_loopback, settings.query_encoder
    ('127.0.0.1', True, 'default')
    """

    model_config = SettingsConfigDict(env_prefix="ACQH_", frozen=True, extra="forbid")

    collection: Path
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8000, ge=0, le=65535)
    token_file: Path | None = None
    write_token_file: Path | None = None
    allowed_hosts: list[str] = Field(default_factory=list)
    root_path: str = Field(default="", pattern=r"^(/[^/?#%]+)*$")
    image_root: Path | None = None
    examples: list[str] = Field(default_factory=list)
    max_pixels: int = Field(default=16_000_000, ge=1)
    query_encoder: Literal["default", "fast"] = "default"
    workers: int = Field(default_factory=lambda: _FEW, ge=1)
    n_threads: int = Field(default_factory=lambda data: -(-_FEW // data.get("workers", 1)), ge=1)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_private(self) -> bool:
        """Whether only this machine is served, and no proxy hands it on."""
        return self.is_loopback and not self.allowed_hosts and not self.root_path

    @property
    def limits(self) -> "Limits":
        """What clients may ask for."""
        return Limits(max(Limits.max_body_bytes, self.max_pixels // 2))


@dataclass(frozen=True)
class Limits:
    """What holds for every service: chosen so that no client can hold up the others."""

    max_body_bytes: int = 8 * 2**20
    # Longest body in JSON, and longest field of a form that is not a file.
    max_json_bytes: int = 2**20
    # Most bytes of all bodies that are arriving or worked on, and most bytes of all answers that
    # were not read yet. Beyond, the slowest clients are cut off.
    max_buffered_bytes: int = 64 * 2**20
    max_requests: int = 64  # worked on at once; one more is answered with 429
    max_work_seconds: float = 10.0  # from the queue to the result; then it is 503
    max_body_seconds: float = 30.0  # for a request's header, and for its body, to arrive
    max_answer_seconds: float = 30.0  # for a client to take an answer
    # Fewer where the process has too few file descriptors. For one more, the one is cut off that
    # has waited longest for its client.
    max_connections: int = 512
    max_connections_per_address: int = 128
    reload_seconds: float = 1.0  # how often to look whether the collection was built again

    def divided(self, n: int) -> "Limits":
        """Return the part of one of several workers; times and sizes of one request stay."""
        shared = ("max_buffered_bytes", "max_requests", "max_connections")
        parts = {name: max(1, getattr(self, name) // n) for name in shared}
        # All connections of one address may come to one worker.
        return replace(self, **parts)


@dataclass(frozen=True)
class Tokens:
    """Who may read and who may write.

    `read`, `write`: the tokens. Without `read` everybody may read, without `write` nobody may
    write; who may write may also read.
    """

    read: str | None = field(default=None, repr=False)
    write: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.read is not None and self.read == self.write:
            raise InvalidInputError(
                "the tokens for reading and for writing are the same; "
                "readers could then write: make two"
            )

    def may_write(self, given: str | None) -> bool:
        """Say whether who sends this token may add and remove items."""
        return _same(self.write, given)

    def may_read(self, given: str | None) -> bool:
        """Say whether who sends this token may search."""
        # Both are compared in every case, so that the time taken does not say which one is near.
        reads, writes = _same(self.read, given), _same(self.write, given)
        return self.read is None or reads or writes


def read_tokens(settings: Settings) -> Tokens:
    """Read the tokens that the settings name.

    Raises InvalidInputError: a token is too short or not plain, both are the same, or other
    machines could read without a token. Raises OSError: a file cannot be read.
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


def _same(token: str | None, given: str | None) -> bool:
    if token is None or given is None:
        return False
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "surrogatepass"))
