"""What a person may set about the service, and what holds if nothing is set."""

import ipaddress
import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


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
        Folder that image files are named relative to. Where it is given, the page links to the
        images as they were.
    max_body_bytes : int
        Longest body of a request.
    max_json_bytes : int
        Longest body in JSON, and longest field of a form that is not a file.
    max_buffered_bytes : int
        Most bytes of all bodies that are arriving or worked on, and most bytes of all answers
        that were not read yet. Beyond, the slowest clients are cut off.
    max_pixels : int
        Largest image, known from its header before it is decoded. A JPEG that can be decoded at
        a quarter of its size or less counts as a quarter.
    max_text_chars : int
        Longest text of a query or an item.
    max_k : int
        Most hits a search may ask for.
    max_items : int
        Most items one request may add.
    max_requests : int
        Requests worked on at once; one more is answered with 429.
    max_work_seconds : float
        Longest wait for an answer, from the queue to the result; then it is 503.
    max_body_seconds : float
        Longest time for a request's header, and for its body, to arrive.
    max_answer_seconds : float
        Longest time for a client to take an answer.
    max_connections : int
        Most connections; fewer where the process has too few file descriptors. For one more,
        the one is cut off that has waited longest for its client.
    max_connections_per_address : int
        Most connections of one address; raise it behind a proxy that opens more.
    n_threads : int
        Threads that search; the event loop never does. Images have as many of their own.
    reload_seconds : float
        How often to look whether the collection was built again.

    Examples
    --------
    >>> settings = Settings(collection="photos.acqh", port=9000)
    >>> settings.host, settings.is_loopback, settings.max_k
    ('127.0.0.1', True, 1000)
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
    max_body_bytes: int = Field(default=8 * 2**20, ge=1)
    max_json_bytes: int = Field(default=2**20, ge=1)
    max_buffered_bytes: int = Field(default=64 * 2**20, ge=1)
    max_pixels: int = Field(default=16_000_000, ge=1)
    max_text_chars: int = Field(default=10_000, ge=1)
    max_k: int = Field(default=1000, ge=1)
    max_items: int = Field(default=100, ge=1)
    max_requests: int = Field(default=64, ge=1)
    max_work_seconds: float = Field(default=10.0, gt=0)
    max_body_seconds: float = Field(default=30.0, gt=0)
    max_answer_seconds: float = Field(default=30.0, gt=0)
    max_connections: int = Field(default=512, ge=1)
    max_connections_per_address: int = Field(default=128, ge=1)
    n_threads: int = Field(default_factory=lambda: min(4, os.cpu_count() or 1), ge=1)
    reload_seconds: float = Field(default=1.0, gt=0)

    @property
    def paths(self) -> list[Path]:
        """The folder of the collection."""
        return [self.collection]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
