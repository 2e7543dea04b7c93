"""Encoders of a generation, and how it was built and trained."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.store import fits, pack, unpack
from acqh.collection.disk.generations import current_folder
from acqh.collection.disk.model import Encoders
from acqh.collection.types import BuildSettings
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError
from acqh.io import read_bundle, write_bundle
from acqh.methods.registry import HOMES

ENCODERS, MODEL, INDEX = "encoders", "model", "index"
_UNRELATED = "unrelated queries"


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """Facts about a generation: settings, encoders and training."""

    name: str
    generation: str
    site_key: str  # secret of published ids; retraining and overwriting keep it
    encoders: Encoders
    trained_on: str
    n_trained: int
    n_skipped: int
    asked_as: str  # how a few words are asked for; see `phrase`
    expected_error: float | None  # of items that are added; see `Drift`
    version: str
    settings: BuildSettings
    unrelated: Mapping[str, Floats]  # see `unrelated_queries`


# Those that the bundle has as they are.
_PLAIN = (
    *("generation", "site_key", "trained_on", "n_trained", "n_skipped", "asked_as"),
    "expected_error",
)


def check_parts(folder: Path) -> None:
    """Raise CorruptBundleError if a part of a generation is a link."""
    for part in (ENCODERS, MODEL, INDEX):
        if (folder / part).is_symlink():
            raise CorruptBundleError(
                f"{folder / part} is a link; a collection holds its parts itself"
            )


def write_facts(folder: Path, facts: Facts) -> None:
    """Write the encoders of a generation, and how it was built."""
    states = {view: pack(encoder, HOMES) for view, encoder in facts.encoders.items()}
    info = {
        "encoders": {view: description for view, (description, _) in states.items()},
        "acqh": facts.version,
        "settings": facts.settings.stored(),
        **{name: getattr(facts, name) for name in _PLAIN},
    }
    arrays = {view: state for view, (_, state) in states.items()}
    arrays[_UNRELATED] = dict(facts.unrelated)
    write_bundle(folder / ENCODERS, kind=ENCODERS, name=facts.name, info=info, arrays=arrays)


def read_facts(folder: Path) -> Facts:
    """Read what `write_facts` wrote; raise CorruptBundleError where it is damaged or missing."""
    try:
        bundle = read_bundle(folder / ENCODERS, kind=ENCODERS, mmap=False, verify=True)
    except (FileNotFoundError, InvalidInputError) as error:
        raise CorruptBundleError(f"{error}; build the collection again") from error
    kinds = get_type_hints(Facts)
    plain = {name: bundle.info.get(name) for name in _PLAIN}
    match bundle.info:
        case {
            "encoders": dict(descriptions),
            "acqh": str(version),
            "settings": dict(stored),
            "asked_as": "{}" | "a photo of a {}",
        } if all(fits(value, kinds[name]) for name, value in plain.items()):
            pass
        case _:
            raise CorruptBundleError(f"{folder} has no valid facts of a collection")
    try:
        encoders = {
            view: unpack(description, bundle.arrays(view), HOMES)
            for view, description in descriptions.items()
        }
    except InvalidInputError as error:
        raise CorruptBundleError(
            f"the encoders of {folder} cannot be read: {error}; where one is your own class, "
            "register it first with acqh.encoders.register_encoder"
        ) from error
    unrelated = bundle.arrays(_UNRELATED)
    if unrelated.keys() != {"items", "words"} or not all(
        rows.ndim == 2 and np.isfinite(rows).all() for rows in unrelated.values()
    ):
        raise CorruptBundleError(f"{folder} does not hold the queries that a collection has")
    try:
        settings = BuildSettings.from_stored(stored)
    except (InvalidInputError, AttributeError, TypeError) as error:
        raise CorruptBundleError(
            f"{folder} does not say how it was built, but {stored!r}"
        ) from error
    parts: dict[str, Any] = {**plain, "settings": settings, "unrelated": unrelated}
    return Facts(name=bundle.name, encoders=encoders, version=version, **parts)


def site_key_of(path: Path) -> str:
    """Return the site key of the collection at a path, or a new one if it has none."""
    try:
        bundle = read_bundle(current_folder(path) / ENCODERS, kind=ENCODERS)
        key = bundle.info.get("site_key")
    except (AcqhError, OSError):
        key = None
    return key if isinstance(key, str) else secrets.token_hex(16)
