"""Settings of the server, limits on clients, and tokens."""

import hmac
import ipaddress
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from acqh._core.fields import Language
from acqh.errors import InvalidInputError

_MIN_CHARS = 16
_FEW = min(4, os.cpu_count() or 1)
_HOW_TO_MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Settings(BaseSettings):
    """Settings of the server; the environment may set each, for example ``ACQH_PORT``.

    Parameters
    ----------
    collection : path
        The collection's folder.
    host : str, default "127.0.0.1"
        Address to listen on. Any other than a loopback address needs `token_file`.
    port : int, default 8000
        Port to listen on; 0 takes a free one.
    token_file : path or None
        File with the token that readers must send. Default: everybody on this machine may read.
    write_token_file : path or None
        File with the token to add and remove items. Default: the server is read-only.
    allowed_hosts : list of str
        Host names of the server in addition to those of this machine; for a proxy.
    root_path : str
        Prefix of every path behind a proxy, such as ``/photos``. Needed if the proxy does not
        remove it, or if programs follow the addresses in answers.
    originals : path or None
        Folder of the original images, which the web interface then shows. Default: the folders
        that the collection was built from, if `is_private`.
    examples : list of str
        Queries that the web interface suggests. Default: names of some items, or things that
        images without captions show.
    max_megapixels : float
        Largest image of a request, by its header. A JPEG that is decoded at reduced size may have
        four times as many. Bodies may have half a byte per pixel, and at least 8 MiB. Default: 16.
    query_encoder : {"default", "fast"}
        Encoder of query texts. "default": that of the collection. "fast": static token embeddings
        in place of MiniLM, which take microseconds and have a little less recall.
    language : str
        Language of query texts as an ISO 639-1 code, such as "de". "auto" detects texts that are
        not English. All but English need the extra ``languages``. Default: "auto".
    n_threads : int
        Threads for images in each worker, and as many for other requests. Texts have one, which
        the others help if it is slow. Default: one per core, at most 4, divided by `workers`.
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
    originals: Path | None = None
    examples: list[str] = Field(default_factory=list)
    max_megapixels: float = Field(default=16.0, gt=0, allow_inf_nan=False)
    query_encoder: Literal["default", "fast"] = "default"
    language: Language = "auto"
    workers: int = Field(default_factory=lambda: _FEW, ge=1)
    n_threads: int = Field(default_factory=lambda data: -(-_FEW // data.get("workers", 1)), ge=1)

    @property
    def max_pixels(self) -> int:
        """Most pixels of an image."""
        return max(1, round(1e6 * self.max_megapixels))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
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
        """Limits on requests and connections."""
        return Limits(max(Limits.max_body_bytes, self.max_pixels // 2))


@dataclass(frozen=True)
class Limits:
    """Limits of every server, so that no client can hold up the others."""

    max_body_bytes: int = 8 * 2**20
    # Longest body in JSON, and longest field of a form that is not a file.
    max_json_bytes: int = 2**20
    # Most bytes of all bodies that are arriving or worked on, and most bytes of all answers that
    # were not read yet. Beyond, the slowest clients are cut off.
    max_buffered_bytes: int = 64 * 2**20
    # Worked on at once; one more is answered with 429. Workers have equal parts, but their clients
    # are never quite as many: with 64, two workers rejected some of 64 connections.
    max_requests: int = 128
    max_work_seconds: float = 10.0  # from the queue to the result; then it is 503
    # For a request's header, and for its body, to arrive, and between two requests.
    max_body_seconds: float = 30.0
    max_answer_seconds: float = 30.0  # for a client to take an answer
    # Fewer where the process has too few file descriptors. For one more, the one is cut off that
    # has waited longest for its client.
    max_connections: int = 512
    max_connections_per_address: int = 128
    reload_seconds: float = 1.0  # between checks whether the collection was rebuilt

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

    def may_write(self, token: str | None) -> bool:
        """Return whether a client with this token may add and remove items."""
        return _same(self.write, token)

    def may_read(self, token: str | None) -> bool:
        """Return whether a client with this token may search."""
        # Both are always compared, so that the time does not reveal which one is close.
        reads, writes = _same(self.read, token), _same(self.write, token)
        return self.read is None or reads or writes


def read_tokens(settings: Settings) -> Tokens:
    """Read the tokens that the settings name.

    Raises InvalidInputError: a token is too short or not plain, both are the same, or other
    machines could read without a token. Raises OSError: a file cannot be read.
    """
    if not settings.is_loopback and settings.token_file is None:
        raise InvalidInputError(
            f"serving on {settings.host} lets other machines in, and no token guards the "
            "collection; pass --token to make one, or --token-file FILE, or serve on 127.0.0.1"
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


def _same(token: str | None, sent: str | None) -> bool:
    if token is None or sent is None:
        return False
    return hmac.compare_digest(token.encode(), sent.encode("utf-8", "surrogatepass"))
