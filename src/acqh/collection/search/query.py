"""From what a person gives to what is searched for: words to look up, and a vector."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh.collection.disk.model import Encoders, describe
from acqh.collection.search.meaning import Shard, home_of
from acqh.collection.search.rank import check_mode
from acqh.collection.sources.check import make_thumbnail, working_image
from acqh.collection.store.words import WordQuery, read_words
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
    own: list[tuple[Shard, int]]  # items that the query names, which are not to be found
    # What the vector was made of: "text", "image", "item", "unlike" and views.
    given: frozenset[str]
    # Of the one image that is asked for, which may be stored already.
    thumbnail: bytes | None = None


class QueryReader:
    """Reads queries for the shards of a collection; any thread may call it."""

    def __init__(self, encoders: Encoders, shards: Sequence[Shard]) -> None:
        self._encoders = encoders
        self._coder = shards[0].coder
        self._shards = shards

    def read(self, given: Mapping[str, Any], weights: Mapping[str, float], mode: str) -> Question:
        """Return what a query asks for; see `Searchable.search`."""
        words, meant = self._words(given, weights, mode)
        thumbnail = None
        is_image = meant.keys() == {"image"} and self._is_raw("image", meant["image"])
        if mode == "auto" and is_image and len(images := _each(meant["image"])) == 1:
            meant["image"] = working_image(images[0])
            thumbnail = make_thumbnail(meant["image"])
        vector, own = self._mean(meant, weights) if meant or words is None else (None, [])
        return Question(words, vector, own, frozenset(meant), thumbnail)

    def _words(
        self, given: Mapping[str, Any], weights: Mapping[str, float], mode: str
    ) -> tuple[WordQuery | None, dict[str, Any]]:
        """Return the words to be looked up, and what is to be searched for by meaning."""
        check_mode(mode)
        if given:
            _check_weights(given, weights)
        meant = dict(given)
        text = meant.get("text")
        if mode == "meaning" or not isinstance(text, str) or weights.get("text") == 0:
            if mode == "words":
                raise CollectionError("mode 'words' looks words up; give a text")
            return None, meant
        asked = self._spelt(read_words(text), mode)
        meant["text"] = asked.plain or text
        is_only_unwanted = not asked.plain and asked.demanded is not None
        if mode == "words":
            meant = {}
        elif is_only_unwanted or "text" not in self._coder.maps.widths or self._is_unknown(asked):
            del meant["text"]
        return asked, meant

    def _is_unknown(self, asked: WordQuery) -> bool:
        """Whether a query is of symbols alone, none of which the encoder of texts has learnt."""
        said = "".join((*asked.phrases, *asked.terms))
        return bool(said) and not any(map(str.isalnum, said)) and self._knows_words is not None

    @property
    def _knows_words(self) -> Callable[[str], bool] | None:
        return getattr(self._encoders.by_view.get("text"), "is_word", None)

    def _spelt(self, asked: WordQuery, mode: str) -> WordQuery:
        """Note which terms are words: what they mean is found, and no word that looks alike."""
        is_word = self._knows_words
        if mode != "auto" or is_word is None:
            return asked
        return replace(asked, no_typos=frozenset(filter(is_word, asked.terms)))

    def _mean(
        self, given: Mapping[str, Any], weights: Mapping[str, float]
    ) -> tuple[Floats | None, list[tuple[Shard, int]]]:
        """Return the query's vector, or None where nothing of it is known; and its own items."""
        if not given or given.keys() == {"unlike"}:
            raise CollectionError("there is nothing to search for; give text, image or item")
        vectors: list[Floats] = []
        total = 0.0
        own: list[tuple[Shard, int]] = []
        for name, value in given.items():
            if name in ("item", "unlike"):
                found = [self._stored(each) for each in _each(value)]
                own += [place for place, _ in found]
                parts: list[Floats | None] = [vector for _, vector in found]
            elif self._is_raw(name, value):
                parts = [self._vector(name, each) for each in _each(value)]
            else:
                parts = [self._vector(name, value)]
            known = [part for part in parts if part is not None]
            if not known:
                continue
            weight = float(weights.get(name, _UNLIKE_WEIGHT if name == "unlike" else 1.0))
            vectors.append((-weight if name == "unlike" else weight) * np.mean(known, axis=0))
            total += weight * (name != "unlike")
        if not vectors or total == 0.0:
            return None, own
        return np.asarray(sum(vectors) / total, dtype=np.float32), own

    def _stored(self, identifier: str) -> tuple[tuple[Shard, int], Floats]:
        """Return where a stored item is, and the vector that stands for it."""
        shard = home_of(identifier, self._shards)
        number, item = shard.store.find(identifier)
        return (shard, number), self._coder.query_of(item.code)

    def _vector(self, view: str, value: Any) -> Floats | None:
        """Return the vector of a raw or described query, or None where nothing of it is known."""
        known_views = self._coder.maps.widths
        if view not in known_views:
            known = ", ".join(known_views)
            raise CollectionError(
                f"this collection has learnt nothing about {view!r}; search by {known} or item"
            )
        if not self._is_raw(view, value):
            return self._coder.query(view, self._row(view, value))
        if view == "text" and not isinstance(value, str):
            raise CollectionError(f"text must be a str, got {type(value).__name__}")
        raw = working_image(value) if view == "image" else value
        matrix, present = describe(self._encoders.by_view[view], view, [raw])
        return self._coder.query(view, matrix) if present[0] else None

    def _is_raw(self, view: str, value: Any) -> bool:
        """Whether a query of a view is yet to be described."""
        return view in self._encoders.by_view and not isinstance(value, FeatureRow)

    def _row(self, view: str, value: Any) -> Matrix:
        """Return features as the one row of a matrix."""
        values = value.values if isinstance(value, FeatureRow) else value
        if any(isinstance(each, str | bytes | PathLike) for each in _each(values)[:1]):
            if view in self._encoders.by_view:
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
