"""A store of documents as a bundle: JSON lines, vectors or codes, and the quantizer."""

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Array
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.io import Bundle, read_bundle, write_bundle
from acqh.quantize import AdditiveQuantizer

_KIND = "documents"
_ITEMS, _QUANTIZER = "items", "quantizer"


class Stored(NamedTuple):
    """What a bundle holds."""

    records: list[tuple[str, Mapping[str, Any]]]  # by id
    rows: Array  # (n, n_components) float32, or (n, n_codebooks) uint8 with a quantizer
    quantizer: AdditiveQuantizer | None
    settings: dict[str, Any]  # further arguments of the store's constructor


def write_store(path: str | PathLike[str], stored: Stored) -> None:
    """Write a bundle in place of the one that the path held; raise InvalidInputError, OSError."""
    lines = b"".join(_line(*record) for record in stored.records)
    items = {"lines": np.frombuffer(lines, dtype=np.uint8), "rows": stored.rows}
    arrays: dict[str, Mapping[str, Array]] = {_ITEMS: items}
    info: dict[str, Any] = {"n_items": len(stored.records), "settings": stored.settings}
    if stored.quantizer is not None:
        info["quantizer"], arrays[_QUANTIZER] = stored.quantizer.to_state()
    write_bundle(path, kind=_KIND, info=info, arrays=arrays)


def read_store(path: str | PathLike[str]) -> Stored:
    """Read what `write_store` wrote; raise CorruptBundleError."""
    bundle = read_bundle(path, kind=_KIND, verify=True)
    try:
        return _read(bundle)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptBundleError(f"{path} holds no store of documents: {error}") from error


def _read(bundle: Bundle) -> Stored:
    items = bundle.arrays(_ITEMS)
    rows, n_items = np.array(items["rows"]), bundle.info["n_items"]
    records = [
        (each["id"], each["document"])
        for each in map(json.loads, items["lines"].tobytes().splitlines())
    ]
    quantizer = None
    if "quantizer" in bundle.info:
        quantizer = AdditiveQuantizer.from_state(
            bundle.info["quantizer"], bundle.arrays(_QUANTIZER)
        )
    dtype = np.float32 if quantizer is None else np.uint8
    if rows.ndim != 2 or rows.dtype != dtype or not len(rows) == len(records) == n_items:
        raise CorruptBundleError(f"{bundle.path}: vectors and documents contradict each other")
    if len({each for each, _ in records if isinstance(each, str)}) != n_items:
        raise CorruptBundleError(f"{bundle.path}: ids occur twice or are not texts")
    return Stored(records, rows, quantizer, dict(bundle.info["settings"]))


def _line(identifier: str, document: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps({"id": identifier, "document": document}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"document {identifier!r} has metadata that JSON cannot hold ({error}); nothing was "
            "saved"
        ) from error
    return text.encode() + b"\n"
