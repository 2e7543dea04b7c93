"""Find texts for an image and images for a text, from a few bytes per item.

The public names below are loaded on first use, so that ``import acqh`` stays quick.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"

# Public name -> the room that defines it.
_HOMES: dict[str, str] = {
    "ACQH": "acqh.methods.acqh",
    "CodeIndex": "acqh.index",
    "Collection": "acqh.collection",
    "HammingIndex": "acqh.index",
    "MultiViewData": "acqh.data",
    "SearchResult": "acqh.index",
    "Target": "acqh.methods.acqh",
    "compress": "acqh.scale",
    "list_datasets": "acqh.data",
    "load": "acqh._load",
    "load_dataset": "acqh.data",
    "make_like": "acqh.data",
    "make_multiview": "acqh.data",
    "verify": "acqh._load",
}
_ROOMS = frozenset(
    {
        "bench",
        "collection",
        "data",
        "deep",
        "encoders",
        "errors",
        "export",
        "features",
        "index",
        "integrations",
        "io",
        "methods",
        "metrics",
        "quantize",
        "scale",
        "stats",
    }
)
# Needs an extra, so that ``from acqh import *`` must not load it.
_OPTIONAL_ROOMS = frozenset({"serve"})

__all__ = ["__version__", *sorted(_HOMES), *sorted(_ROOMS)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS | _OPTIONAL_ROOMS:
        value = import_module(f"acqh.{name}")
    else:
        raise AttributeError(f"module 'acqh' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_OPTIONAL_ROOMS})
