"""Answering queries: encode, search, read what was found."""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Floats, Ints, check_positive_int
from acqh.collection._cache import IndexCache
from acqh.collection._coder import Coder, Encoders, describe
from acqh.collection._fuse import POOL, Place, WordPlace, check_mode, fuse, order_words
from acqh.collection._prepare import working_image
from acqh.collection._store import Store
from acqh.collection._types import Answer, Explanation, Hit
from acqh.collection._where import Condition, check_columns, read_where
from acqh.collection._words import WordQuery, read_words
from acqh.errors import CollectionError
from acqh.index import CodeIndex

# Selections of items kept, since pages ask for the same few labels again and again.
_KEPT_SELECTIONS = 32
# Where at most one item in so many is selected, the selection gets an index of its own.
_SMALL_PART = 16
# Items that other processes remove while a search runs make it start again, so many times.
_MAX_TRIES = 8
# How much an item that is not wanted counts, by default: less than what is wanted.
_UNLIKE_WEIGHT = 0.5


class Shard:
    """The items that one store and its index hold; any thread may search them."""

    def __init__(self, store: Store, coder: Coder, cache: IndexCache) -> None:
        self.store = store
        self.cache = cache
        self._coder = coder
        self._selections: OrderedDict[tuple[Any, int], Selection] = OrderedDict()
        # The first search of a process loads compiled code; nobody should have to wait for that.
        nothing = np.zeros(coder.model.n_components, dtype=np.float32)
        _top(cache.current(), nothing, 1, None, frozenset())

    def top(self, query: Floats, k: int, selected: "Selection", exclude: Set[int]) -> "Ranking":
        """Return the best of the selected items, but some."""
        index = self.cache.current()
        if selected.index is not None:
            found = _top(selected.index, query, k, None, exclude)
        else:
            found = _top(index, query, k, selected.numbers, exclude)
        n_candidates = len(index) if selected.numbers is None else len(selected.numbers)
        return Ranking(*found, len(index), n_candidates)

    def select(
        self, conditions: tuple[Condition, ...], asked: WordQuery | None = None
    ) -> "Selection":
        """Return the items that may be found: that meet the conditions and have the phrases."""
        strict = (asked.phrases, asked.without) if asked is not None else ((), ())
        if not conditions and not any(strict):
            return Selection()
        key = ((conditions, strict), self.store.change)
        selected = self._selections.get(key)
        if selected is None:
            numbers = self.store.numbers_where(conditions) if conditions else None
            allowed = self.store.numbers_allowed(asked) if asked is not None else None
            if numbers is None or allowed is None:
                numbers = allowed if numbers is None else numbers
            else:
                numbers = np.intersect1d(numbers, allowed)
            if numbers is None:
                return Selection()
            index = None
            if len(numbers) * _SMALL_PART <= len(self.cache.current()):
                numbers, codes = self.store.codes_of(numbers, self._coder.code_bytes)
                index = CodeIndex(self._coder.model.codebooks_).add(codes, ids=numbers)
            selected = self._selections[key] = Selection(numbers, index)
            while len(self._selections) > _KEPT_SELECTIONS:
                self._selections.popitem(last=False)
        return selected


class Searcher:
    """Searches the shards of a collection, of which most have one; any thread may call it.

    Parameters
    ----------
    encoders : Encoders
    coder : Coder
    shards : sequence of Shard
        Coded with these encoders and this coder. Equal scores are ordered by shard.
    """

    def __init__(self, encoders: Encoders, coder: Coder, shards: Sequence[Shard]) -> None:
        self._encoders = encoders
        self._coder = coder
        self._shards = shards

    def search(
        self,
        given: Mapping[str, Any],
        weights: Mapping[str, float],
        k: int,
        where: Any,
        explain: bool,
        mode: str = "auto",
    ) -> Answer:
        """Answer a query; see `Collection.search`."""
        k = check_positive_int(k, "k")
        conditions = read_where(where)
        started = time.perf_counter()
        asked, given = self._asked(given, weights, mode)
        query, own = self._query(given, weights) if given or asked is None else (None, [])
        encoded = time.perf_counter()
        pool = k if asked is None else max(k, POOL)
        for _ in range(_MAX_TRIES):
            found = self._rank(query, own, asked, pool, conditions)
            best = found.meaning[:k]
            if asked is not None:
                best = fuse(found.meaning, found.words, k, words_first=given.keys() <= {"text"})
            searched = time.perf_counter()
            hits = self._read(best, self._reasons(best, found, asked, given))
            if len(hits) == len(best):
                break
        return Answer(
            hits,
            found.n_items,
            found.n_candidates,
            found.n_seen,
            _times(started, encoded, searched, time.perf_counter()),
            _explain(self._shards[0].cache.current(), query, hits)
            if explain and query is not None
            else None,
        )

    def _asked(
        self, given: Mapping[str, Any], weights: Mapping[str, float], mode: str
    ) -> tuple[WordQuery | None, dict[str, Any]]:
        """Return the words to be looked up, and what is to be searched for by meaning."""
        check_mode(mode)
        if given:
            _check_weights(given, weights)
        given = dict(given)
        text = given.get("text")
        if mode == "meaning" or not isinstance(text, str) or weights.get("text") == 0:
            if mode == "words":
                raise CollectionError("mode 'words' looks words up; give a text")
            return None, given
        if mode == "words" and not all(shard.store.has_words for shard in self._shards):
            raise CollectionError(
                "this collection was made without an index of words, which it gets when it is "
                "opened where it may be written to; search with mode='meaning' until then"
            )
        asked = read_words(text)
        given["text"] = asked.plain or text
        if mode == "words":
            given = {}
        elif "text" not in self._coder.model.n_features_in_:
            del given["text"]
        return asked, given

    def _rank(
        self,
        query: Floats | None,
        own: Sequence[tuple[Shard, int]],
        asked: WordQuery | None,
        k: int,
        conditions: tuple[Condition, ...],
    ) -> "Found":
        """Return the best items of all shards by meaning and by words."""
        rankings = []
        words: list[WordPlace] = []
        chosen = self._select(conditions, asked)
        for at, (shard, selected) in enumerate(zip(self._shards, chosen, strict=True)):
            exclude = {number for home, number in own if home is shard}
            if query is not None:
                rankings.append(shard.top(query, k, selected, exclude))
            else:
                n_items = len(shard.cache.current())
                n_candidates = n_items if selected.numbers is None else len(selected.numbers)
                rankings.append(Ranking([], [], 0, n_items, n_candidates))
            if asked is not None:
                hits = shard.store.find_words(asked, k + len(exclude), selected.numbers)
                words += [WordPlace(at, hit) for hit in hits if hit.number not in exclude]
        return Found(
            _merge(rankings, k),
            order_words(words),
            sum(ranking.n_items for ranking in rankings),
            sum(ranking.n_candidates for ranking in rankings),
            sum(ranking.n_seen for ranking in rankings),
        )

    def _select(
        self, conditions: tuple[Condition, ...], asked: WordQuery | None = None
    ) -> list["Selection"]:
        """Return the items of each shard that may be found; refuse columns that there are not."""
        chosen = [shard.select(conditions, asked) for shard in self._shards]
        if not any(each.numbers is None or each.numbers.size for each in chosen):
            check_columns([shard.store for shard in self._shards], [name for name, _ in conditions])
        return chosen

    def _reasons(
        self,
        best: Sequence[Place],
        found: "Found",
        asked: WordQuery | None,
        given: Mapping[str, Any],
    ) -> dict[tuple[int, int], tuple[str, ...]]:
        """Return why each of the best items is there."""
        why: dict[tuple[int, int], tuple[str, ...]] = {}
        if asked is not None:
            for at, shard in enumerate(self._shards):
                numbers = [number for _, home, number in best if home == at]
                for number, stands in shard.store.reasons(asked, numbers).items():
                    why[at, number] = stands
        meant = ["content"] if given.keys() - {"image", "unlike"} else []
        meant += ["image"] if "image" in given else []
        for _, at, number in found.meaning:
            why[at, number] = (*why.get((at, number), ()), *meant)
        return why

    def browse(
        self, where: Any, k: int, offset: int, order: str | None, descending: bool
    ) -> Answer:
        """Return items without searching; see `Searchable.browse`."""
        k, offset = check_positive_int(k, "k"), check_positive_int(offset, "offset", minimum=0)
        conditions = read_where(where)
        started = time.perf_counter()
        chosen = [selected.numbers for selected in self._select(conditions)]
        places = browse(self._shards, chosen, order, descending)
        hits = self._read(places[offset : offset + k])
        spent = {"encode": 0.0, "search": 0.0, "items": 1e3 * (time.perf_counter() - started)}
        n_items = sum(len(shard.cache.current()) for shard in self._shards)
        return Answer(hits, n_items, len(places), 0, spent)

    def _read(
        self,
        best: Sequence[Place],
        why: Mapping[tuple[int, int], tuple[str, ...]] | None = None,
    ) -> tuple[Hit, ...]:
        """Read what was found; items that are gone by now are left out."""
        why = why or {}
        found = [
            shard.store.read([number for _, at, number in best if at == position])
            for position, shard in enumerate(self._shards)
        ]
        return tuple(
            Hit(
                item.id,
                score,
                item.text,
                item.labels,
                item.columns,
                item.has_thumbnail,
                code,
                why.get((at, number), ()),
            )
            for score, at, number in best
            if number in found[at]
            for item, code in [found[at][number]]
        )

    def _query(
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
                likes = []
                for each in _each(value):
                    shard = shard_of(self._shards, each)
                    number, _, code = shard.store.find(each)
                    own.append((shard, number))
                    likes.append(self._coder.query_of(code))
                vector: Floats | None = np.mean(likes, axis=0)
            elif name in self._encoders.by_view:
                known = [self._vector(name, each) for each in _each(value)]
                heard = [each for each in known if each is not None]
                vector = np.mean(heard, axis=0) if heard else None
            else:
                vector = self._vector(name, value)
            if vector is None:
                continue
            if name == "unlike":
                vectors.append(-float(weights.get(name, _UNLIKE_WEIGHT)) * vector)
                continue
            weight = float(weights.get(name, 1.0))
            vectors.append(weight * vector)
            total += weight
        if not vectors or total == 0.0:
            return None, own
        return np.asarray(sum(vectors) / total, dtype=np.float32), own

    def _vector(self, view: str, value: Any) -> Floats | None:
        """Return the vector of a raw or described query, or None where nothing of it is known."""
        model = self._coder.model
        if view not in model.n_features_in_:
            known = ", ".join(model.n_features_in_)
            raise CollectionError(
                f"this collection has learnt nothing about {view!r}; search by {known} or item"
            )
        if view not in self._encoders.by_view:
            if any(isinstance(each, str | bytes | PathLike) for each in _each(value)[:1]):
                raise CollectionError(
                    f"this collection was built from features and cannot describe a {view}; "
                    "search by features or item"
                )
            rows = np.atleast_2d(np.asarray(value, dtype=np.float32))
            if len(rows) != 1:
                raise CollectionError(
                    f"a query is one row of features, got {view!r} of shape {rows.shape}; search "
                    "for one row at a time"
                )
            return self._coder.query(view, rows)
        if view == "text" and not isinstance(value, str):
            raise CollectionError(f"text must be a str, got {type(value).__name__}")
        raw = working_image(value) if view == "image" else value
        matrix, present = describe(self._encoders.by_view[view], view, [raw])
        return self._coder.query(view, matrix) if present[0] else None


def browse(
    shards: Sequence[Shard],
    chosen: Sequence[Ints | None],
    order: str | None,
    descending: bool,
) -> list[Place]:
    """Return the places of all chosen items, or of all there are, in order."""
    known: list[tuple[tuple[bool, Any], Place]] = []
    unknown: list[Place] = []
    for at, (shard, numbers) in enumerate(zip(shards, chosen, strict=True)):
        wanted = None if numbers is None else set(numbers.tolist())
        for number, value in shard.store.values_of(order):
            if wanted is not None and number not in wanted:
                continue
            place = (0.0, at, number)
            if value is None:
                unknown.append(place)
            else:
                known.append(((isinstance(value, str), value), place))
    known.sort(key=lambda pair: pair[0], reverse=descending)  # stable either way
    return [place for _, place in known] + unknown


def _each(value: Any) -> list[Any]:
    """Return one or several parts of a query as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def shard_of(shards: Sequence[Shard], identifier: str) -> Shard:
    """Return the shard that has an item; the last where none has it."""
    return next((shard for shard in shards if shard.store.has(identifier)), shards[-1])


class Found(NamedTuple):
    """What a query has found in all shards: by meaning and by words, best first."""

    meaning: list[Place]
    words: list[WordPlace]
    n_items: int
    n_candidates: int
    n_seen: int


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best items of a shard, and among how many they were chosen.

    Attributes
    ----------
    numbers : list of int
    scores : list of float
    n_seen : int
        Codes that were scored.
    n_items, n_candidates : int
    """

    numbers: list[int]
    scores: list[float]
    n_seen: int
    n_items: int
    n_candidates: int


def _merge(rankings: Sequence[Ranking], k: int) -> list[Place]:
    """Return the k best of the best of all shards."""
    places = [
        (score, position, number)
        for position, ranking in enumerate(rankings)
        for score, number in zip(ranking.scores, ranking.numbers, strict=True)
    ]
    # Stable, so that equal scores stay in the order of shards.
    return sorted(places, key=lambda place: -place[0])[:k]


@dataclass(frozen=True, eq=False)
class Selection:
    """Items among which a search chooses.

    Attributes
    ----------
    numbers : int64 (n_selected,) or None
        None for all items.
    index : CodeIndex or None
        An index of these alone, where they are few: it gives the same scores in the same order,
        and spares the large one picking them out for every search.
    """

    numbers: Ints | None = None
    index: CodeIndex | None = None


def _check_weights(given: Mapping[str, Any], weights: Mapping[str, float]) -> None:
    for name, weight in weights.items():
        if name not in given:
            raise CollectionError(f"a weight is given for {name!r}, which is not searched by")
        if not np.isfinite(weight) or weight < 0:
            raise CollectionError(f"weights must be 0 or more, got {weight!r} for {name!r}")


def _top(
    index: CodeIndex, query: Floats, k: int, selected: Ints | None, exclude: Set[int]
) -> tuple[list[int], list[float], int]:
    """Return numbers and scores of the best items but some, and how many codes were scored."""
    if len(index) == 0:
        return [], [], 0
    wanted = k + len(exclude)
    result = index.search(query[np.newaxis], min(wanted, len(index)), filter=selected, n_threads=1)
    n_found = int(result.counts[0])
    pairs = [
        (int(number), float(score))
        for number, score in zip(result.ids[0, :n_found], result.scores[0, :n_found], strict=True)
        if number not in exclude
    ][:k]
    numbers, scores = [number for number, _ in pairs], [score for _, score in pairs]
    return numbers, scores, int(result.scored[0])


def _explain(index: CodeIndex, query: Floats, hits: Sequence[Hit]) -> Explanation:
    tables = index.codebooks @ query
    words = np.array([list(hit.code) for hit in hits], dtype=np.int64)
    words = words.reshape(len(hits), len(tables))
    return Explanation(query, tables, words, tables[np.arange(len(tables)), words])


def _times(*moments: float) -> dict[str, float]:
    names = ("encode", "search", "items")
    spans = [1e3 * (after - before) for before, after in pairwise(moments)]
    return dict(zip(names, [*spans, 0.0, 0.0], strict=False))
