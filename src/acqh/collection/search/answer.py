"""Answering queries: look words up, search by meaning, read what was found."""

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Floats, check_positive_int
from acqh.collection.disk.model import Encoders
from acqh.collection.search.meaning import Ranking, Selection, Shard
from acqh.collection.search.query import QueryReader, Question
from acqh.collection.search.rank import FUSED_PARTS, POOL, Place, WordPlace, fuse, order_words
from acqh.collection.search.same import SAME_POOL, find_same, put_first
from acqh.collection.store.filters import Condition, check_names, read_where
from acqh.collection.store.words import KnownWords, WordQuery
from acqh.collection.types import Answer, Explanation, Hit
from acqh.index.search.few import best_columns

# Items that other processes remove while a search runs make it start again, this many times.
_MAX_TRIES = 8

# Why items are there, by the position of their shard and their number.
Reasons = Mapping[tuple[int, int], tuple[str, ...]]


class Found(NamedTuple):
    """What a query has found in all shards: by meaning and by words, best first."""

    meaning: list[Place]
    words: list[WordPlace]
    known: list[KnownWords | None]  # the words of the query as each shard knows them
    rankings: list[Ranking]  # of each shard
    same: list[Place]  # items whose image is that of the query


class Searcher:
    """Searches the shards of a collection, of which most have one; any thread may call it.

    `shards`: coded with these encoders and one model. Equal scores are ordered by shard.
    """

    def __init__(self, encoders: Encoders, shards: Sequence[Shard]) -> None:
        self._queries = QueryReader(encoders, shards)
        self.shards = shards

    def search(
        self,
        given: Mapping[str, Any],
        weights: Mapping[str, float],
        k: int,
        where: Any,
        explain: bool,
        mode: str = "auto",
    ) -> Answer:
        """Answer a query; see `Searchable.search`."""
        k = check_positive_int(k, "k")
        conditions = read_where(where)
        started = time.perf_counter()
        asked = self._queries.read(given, weights, mode)
        encoded = time.perf_counter()
        for _ in range(_MAX_TRIES):
            found = self._rank(asked, max(k, _pool(asked)), conditions)
            best = found.meaning[:k]
            if asked.words is not None:
                best = fuse(found.meaning, found.words, k, words_first=asked.given <= {"text"})
            elif found.same:
                best = put_first(found.same, found.meaning, k)
            searched = time.perf_counter()
            hits = self._read(best, self._reasons(best, found, asked))
            if len(hits) == len(best):
                break
        explanation = None
        if explain:
            parts = None if asked.words is None else [place.parts for place in best]
            explanation = _explain(self.shards[0].cache.codebooks, asked.vector, hits, parts)
        return Answer(
            hits,
            sum(ranking.n_items for ranking in found.rankings),
            sum(ranking.n_candidates for ranking in found.rankings),
            sum(ranking.n_seen for ranking in found.rankings),
            _times(started, encoded, searched, time.perf_counter()),
            explanation,
        )

    def browse(
        self, where: Any, k: int, offset: int, order: str | None, descending: bool
    ) -> Answer:
        """Return items without searching; see `Searchable.browse`."""
        k, offset = check_positive_int(k, "k"), check_positive_int(offset, "offset", minimum=0)
        conditions = read_where(where)
        stores = [shard.store for shard in self.shards]
        check_names(stores, [], order)
        started = time.perf_counter()
        n_items = sum(map(len, self.shards))
        found = [store.browse(conditions, order, descending, offset + k) for store in stores]
        n_met = sum(n_met for _, n_met in found) if conditions else n_items
        if not n_met:
            check_names(stores, conditions)
        places = _in_order([rows for rows, _ in found], descending)
        hits = self._read(places[offset : offset + k], {})
        spent = {"encode": 0.0, "search": 0.0, "items": 1e3 * (time.perf_counter() - started)}
        return Answer(hits, n_items, n_met, 0, spent)

    def _rank(self, asked: Question, k: int, conditions: tuple[Condition, ...]) -> Found:
        """Return the best items of all shards by meaning and by words."""
        rankings: list[Ranking] = []
        words: list[WordPlace] = []
        known: list[KnownWords | None] = []
        chosen = self._select(conditions, asked.words)
        for at, (shard, selected) in enumerate(zip(self.shards, chosen, strict=True)):
            exclude = {number for home, number in asked.own if home is shard}
            rankings.append(shard.top(asked.vector, k, selected, exclude))
            known.append(shard.store.know_words(asked.words) if asked.words else None)
            if (there := known[-1]) is not None:
                hits = shard.store.find_words(there, k + len(exclude), selected.numbers)
                words += [(at, hit) for hit in hits if hit.number not in exclude]
        same = [] if asked.thumbnail is None else find_same(self.shards, rankings, asked.thumbnail)
        return Found(_merge(rankings, k), order_words(words), known, rankings, same)

    def _select(
        self, conditions: tuple[Condition, ...], asked: WordQuery | None = None
    ) -> list[Selection]:
        """Return the items of each shard that may be found; refuse columns that there are not."""
        chosen = [shard.select(conditions, asked) for shard in self.shards]
        if not any(each.numbers is None or each.numbers.size for each in chosen):
            check_names([shard.store for shard in self.shards], conditions)
        return chosen

    def _reasons(self, best: Sequence[Place], found: Found, asked: Question) -> Reasons:
        """Return why each of the best items is there."""
        why: dict[tuple[int, int], tuple[str, ...]] = {}
        for at, known in enumerate(found.known):
            if known is not None:
                numbers = [place.number for place in best if place.shard == at]
                stands = self.shards[at].store.reasons(known, numbers)
                why |= {(at, number): reasons for number, reasons in stands.items()}
        meant = ["content"] if asked.given - {"image", "unlike"} else []
        meant += ["image"] if "image" in asked.given else []
        for _, at, number, _ in found.meaning:
            why[at, number] = (*why.get((at, number), ()), *meant)
        return why | {(at, number): ("same image",) for _, at, number, _ in found.same}

    def _read(self, best: Sequence[Place], why: Reasons) -> tuple[Hit, ...]:
        """Read what was found; items that are gone by now are left out."""
        found = [
            shard.store.read([place.number for place in best if place.shard == position])
            for position, shard in enumerate(self.shards)
        ]
        return tuple(
            Hit(**vars(found[at][number]), score=score, why=why.get((at, number), ()))
            for score, at, number, _ in best
            if number in found[at]
        )


def _pool(asked: Question) -> int:
    """Return how many of the best by meaning other ways of finding items choose among."""
    if asked.words is not None:
        return POOL
    return 0 if asked.thumbnail is None else SAME_POOL


def _in_order(found: Sequence[Sequence[tuple[Any, int]]], descending: bool) -> list[Place]:
    """Return the places of the first items of all shards, in order."""
    known: list[tuple[tuple[bool, Any], Place]] = []
    unknown: list[Place] = []
    for at, rows in enumerate(found):
        for value, number in rows:
            place = Place(0.0, at, number)
            if value is None:
                unknown.append(place)
            else:
                known.append(((isinstance(value, str), value), place))
    known.sort(key=lambda pair: pair[0], reverse=descending)  # stable either way
    return [place for _, place in known] + unknown


def _merge(rankings: Sequence[Ranking], k: int) -> list[Place]:
    """Return the k best of the best of all shards."""
    places = [
        Place(score, at, number)
        for at, ranking in enumerate(rankings)
        for score, number in zip(ranking.scores, ranking.numbers, strict=True)
    ]
    scores = np.array([[place.score for place in places]])
    return [places[column] for column in best_columns(scores, k)[0]]


def _explain(
    codebooks: Floats,
    query: Floats | None,
    hits: Sequence[Hit],
    fused: Sequence[tuple[float, ...]] | None,
) -> Explanation:
    """Say how scores came about; `fused`: their parts, where words were looked up."""
    if query is None:
        codebooks, query = codebooks[:0, :, :0], np.zeros(0, dtype=np.float32)
    tables = codebooks @ query
    words = np.array([list(hit.code)[: len(tables)] for hit in hits], dtype=np.int64)
    words = words.reshape(len(hits), len(tables))
    entries = tables[np.arange(len(tables)), words]
    names: tuple[str, ...] = FUSED_PARTS
    if fused is not None:
        parts = np.array(fused, dtype=np.float64).reshape(len(hits), len(names))
        return Explanation(query, tables, words, entries, parts, names)
    names, parts = tuple(f"codebook {n + 1}" for n in range(len(tables))), entries.astype(float)
    if any("same image" in hit.why for hit in hits):
        scores = np.array([hit.score for hit in hits])
        first = np.where([hit.why == ("same image",) for hit in hits], scores - parts.sum(1), 0.0)
        names, parts = (*names, "same image"), np.column_stack([parts, first])
    return Explanation(query, tables, words, entries, parts, names)


def _times(*moments: float) -> dict[str, float]:
    spans = (1e3 * (after - before) for before, after in pairwise(moments))
    return dict(zip(("encode", "search", "items"), spans, strict=True))
