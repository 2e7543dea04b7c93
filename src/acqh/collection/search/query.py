"""From what a person gives to what is searched for: words to look up, and a vector."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple, get_args

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh.collection.disk.layout import Opened
from acqh.collection.sources.items import make_thumbnail, working_image
from acqh.collection.store.items import find_item
from acqh.collection.store.words import WordQuery, read_words
from acqh.collection.types import Mode
from acqh.errors import CollectionError

# How much an item that is not wanted counts, by default: less than what is wanted.
_UNLIKE_WEIGHT = 0.5


@dataclass(frozen=True, eq=False)
class FeatureRow:
    """A query of a view that is described already."""

    values: Any  # (n_features,)


class Question(NamedTuple):
    """What is searched for."""

    words: WordQuery | None  # the words to be looked up
    # (n_components,) float32, or None: what to search for by meaning; None where nothing of it is
    # known.
    vector: Floats | None
    own: set[int]  # items that the query names, which are not to be found
    # What the vector was made of: "text", "image", "item", "unlike" and views.
    given: frozenset[str]
    # Of the one image that is asked for, which may be stored already.
    thumbnail: bytes | None = None


def read_query(
    opened: Opened,
    connection: sqlite3.Connection,
    given: Mapping[str, Any],
    weights: Mapping[str, float],
    mode: str,
) -> Question:
    """Return what a query asks for; see `Collection.search`."""
    if mode not in get_args(Mode):
        raise CollectionError(f"`mode` must be one of {', '.join(get_args(Mode))}, got {mode!r}")
    if given:
        _check_weights(given, weights)
    words, meant = _words(opened, given, weights, mode)
    thumbnail = None
    is_image = meant.keys() == {"image"} and _is_raw(opened, "image", meant["image"])
    if mode == "auto" and is_image and len(images := _each(meant["image"])) == 1:
        meant["image"] = working_image(images[0])
        thumbnail = make_thumbnail(meant["image"])
    own: set[int] = set()
    vector = None
    if meant or words is None:
        vector = _vector(opened, connection, meant, weights, own)
    return Question(words, vector, own, frozenset(meant), thumbnail)


def _words(
    opened: Opened, given: Mapping[str, Any], weights: Mapping[str, float], mode: str
) -> tuple[WordQuery | None, dict[str, Any]]:
    """Return the words to be looked up, and what is to be searched for by meaning."""
    meant = dict(given)
    text = meant.get("text")
    if mode == "meaning" or not isinstance(text, str) or weights.get("text") == 0:
        if mode == "words":
            raise CollectionError("mode 'words' looks words up; give a text")
        return None, meant
    asked = read_words(text)
    encoder = opened.facts.encoders.by_view.get("text")
    is_word: Callable[[str], bool] | None = getattr(encoder, "is_word", None)
    if mode == "auto" and is_word is not None:
        # What words mean is found, and no word that looks alike.
        asked = replace(asked, no_typos=frozenset(filter(is_word, asked.terms)))
    if mode == "words" and len(meant) > 1:
        others = ", ".join(sorted(meant.keys() - {"text"}))
        raise CollectionError(
            f"mode 'words' looks words up alone, but {others} is given too; leave it out, or "
            "search in mode 'auto'"
        )
    meant["text"] = asked.plain or text
    is_only_unwanted = not asked.plain and asked.demanded is not None
    # An encoder that knows words has learnt nothing of symbols alone.
    is_unknown = is_word is not None and asked.is_symbols
    if mode == "words":
        meant = {}
    elif is_only_unwanted or encoder is None or is_unknown:
        del meant["text"]
    return asked, meant


def _vector(
    opened: Opened,
    connection: sqlite3.Connection,
    given: Mapping[str, Any],
    weights: Mapping[str, float],
    own: set[int],
) -> Floats | None:
    """Return the query's vector, or None where nothing of it is known; add the items it names."""
    if not given or given.keys() == {"unlike"}:
        raise CollectionError("there is nothing to search for; give text, image or item")
    vectors: list[Floats] = []
    total = 0.0
    for name, value in given.items():
        parts: list[Floats | None] = []
        if name in ("item", "unlike"):
            for identifier in _each(value):
                number, item = find_item(connection, identifier)
                own.add(number)
                parts.append(opened.coder.query_of(item.code))
        else:
            several = _each(value) if _is_raw(opened, name, value) else [value]
            parts = [_described(opened, name, each) for each in several]
        known = [part for part in parts if part is not None]
        if not known:
            continue
        weight = float(weights.get(name, _UNLIKE_WEIGHT if name == "unlike" else 1.0))
        vectors.append((-weight if name == "unlike" else weight) * np.mean(known, axis=0))
        total += weight * (name != "unlike")
    if not vectors or total == 0.0:
        return None
    return np.asarray(sum(vectors) / total, dtype=np.float32)


def _described(opened: Opened, view: str, value: Any) -> Floats | None:
    """Return the vector of a raw or described query, or None where nothing of it is known."""
    if view not in opened.coder.maps.widths:
        known = ", ".join(opened.coder.maps.widths)
        raise CollectionError(
            f"this collection has learnt nothing about {view!r}; search by {known} or item"
        )
    if not _is_raw(opened, view, value):
        return opened.coder.query(view, _row(opened, view, value))
    if view == "text" and not isinstance(value, str):
        raise CollectionError(f"text must be a str, got {type(value).__name__}")
    return opened.vector_of(view, working_image(value) if view == "image" else value)


def _is_raw(opened: Opened, view: str, value: Any) -> bool:
    """Whether a query of a view is yet to be described."""
    return view in opened.facts.encoders.by_view and not isinstance(value, FeatureRow)


def _row(opened: Opened, view: str, value: Any) -> Matrix:
    """Return features as the one row of a matrix."""
    values = value.values if isinstance(value, FeatureRow) else value
    if any(isinstance(each, str | bytes | PathLike) for each in _each(values)[:1]):
        if view in opened.facts.encoders.by_view:
            raise CollectionError(f"features of {view!r} are numbers; give {view}= instead")
        raise CollectionError(
            f"this collection was built from features and cannot describe a {view}; "
            "search by features or item"
        )
    rows = values if is_sparse(values) else np.atleast_2d(np.asarray(values, dtype=np.float32))
    if rows.shape[0] != 1:
        raise CollectionError(
            f"a query is one row of features, got {view!r} of shape {rows.shape}; search for "
            "one row at a time"
        )
    return rows


def _each(value: Any) -> list[Any]:
    """Return one or several parts of a query as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _check_weights(given: Mapping[str, Any], weights: Mapping[str, float]) -> None:
    for name, weight in weights.items():
        if name not in given:
            raise CollectionError(f"a weight is given for {name!r}, which is not searched by")
        if not np.isfinite(weight) or weight < 0:
            raise CollectionError(f"weights must be 0 or more, got {weight!r} for {name!r}")
