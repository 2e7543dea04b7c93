"""The server: an HTTP API to search a collection, and the web interface."""

from acqh._core.imports import require

for _package in (
    "starlette",
    "uvicorn",
    "httptools",
    "pydantic_settings",
    "python_multipart",
    "prometheus_client",
):
    require(_package)

from acqh.serve.app import create_app  # noqa: E402
from acqh.serve.run import run  # noqa: E402
from acqh.serve.settings import Settings  # noqa: E402

__all__ = ["Settings", "create_app", "run"]
