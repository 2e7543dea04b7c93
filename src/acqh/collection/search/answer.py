"""Answering queries, each in one read transaction: words, meaning, and what was found."""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, check_positive_int
from acqh.collection.disk.layout import Opened
from acqh.collection.search.query import Question, read_query
from acqh.collection.search.rank import (
    FUSED_PARTS,
    POOL,
    SAME_POOL,
    SOME_POOL,
    Place,
    compare_words,
    find_same,
    fuse,
    put_first,
    rank_by_meaning,
    rate,
    select,
)
from acqh.collection.store.filters import (
    Condition,
    check_names,
    count_meeting,
    first_in_order,
    read_where,
)
from acqh.collection.store.items import read_items
from acqh.collection.store.words import find_words, reasons
from acqh.collection.types import Answer, Explanation, Hit, Item

# The index may know of items that were added since the transaction began; then it begins again.
_MAX_TRIES = 8


def search(
    opened: Opened,
    given: Mapping[str, Any],
    weights: Mapping[str, float],
    k: int,
    where: Any,
    explain: bool,
    mode: str,
) -> Answer:
    """Answer a query; see `Collection.search`. `given`: its parts, none of them None."""
    k = check_positive_int(k, "k")
    conditions = read_where(where)
    for _ in range(_MAX_TRIES):
        with opened.store.reading() as connection:
            started = time.perf_counter()
            asked = read_query(opened, connection, given, weights, mode)
            answer, is_whole = _answer(opened, connection, asked, k, conditions, explain, started)
        if is_whole:
            break
    return answer


def _answer(
    opened: Opened,
    connection: sqlite3.Connection,
    asked: Question,
    k: int,
    conditions: tuple[Condition, ...],
    explain: bool,
    started: float,
) -> tuple[Answer, bool]:
    """Return the answer, and whether all that was found could be read."""
    encoded = time.perf_counter()
    words, image = asked.words, asked.thumbnail
    pool = max(k, POOL if words is not None else SAME_POOL if image is not None else 0)
    selected = select(opened, connection, conditions, words)
    ranking = rank_by_meaning(opened, connection, asked.vector, pool, selected, asked.own)
    meaning = [number for number, _ in ranking.best]
    why: dict[int, tuple[str, ...]] = {}
    items: dict[int, Item] = {}
    if words is not None:
        n_wanted = pool + len(asked.own)
        found, expression = find_words(connection, words, n_wanted, selected.numbers)
        found = [hit for hit in found if hit.number not in asked.own]
        found = found[: sum(hit.complete for hit in found) + max(k, SOME_POOL)]
        # No more than the k best by meaning can be among the best of all, unless words find them.
        items = read_items(connection, [*(hit.number for hit in found), *meaning[:k]])
        by_words = compare_words(words, found, items)
        match = rate(opened, asked, ranking.best, {hit.number: items[hit.number] for hit in found})
        best = fuse(match, by_words, k, words_first=asked.given <= {"text"})
        # Words are certain, where all of them are there.
        match |= {place.number: min(1.0, max(place.parts)) for place in best}
        why = reasons(connection, expression, [place.number for place in best])
    else:
        same = [] if image is None else find_same(connection, meaning, image)
        best = put_first(same, ranking.best, k) if same else [Place(*it) for it in ranking.best[:k]]
        why = {number: ("same image",) for number, _ in same}
        match = rate(opened, asked, ranking.best[:k]) | {number: 1.0 for number, _ in same}
    meant = ["content"] if asked.given - {"image", "unlike"} else []
    meant += ["image"] if "image" in asked.given else []
    for number in meaning:
        if why.get(number) != ("same image",):
            why[number] = (*why.get(number, ()), *meant)
    searched = time.perf_counter()
    if unread := [place.number for place in best if place.number not in items]:
        items |= read_items(connection, unread)
    read = [place for place in best if place.number in items]
    shown = tuple(
        Hit(
            **vars(items[number]),
            score=score,
            match=match.get(number, 0.0),
            why=why.get(number, ()),
        )
        for number, score, _ in read
    )
    explanation = None
    if explain:
        parts = None if words is None else [place.parts for place in read]
        explanation = _explain(opened.index.codebooks, asked.vector, shown, parts)
    moments = pairwise((started, encoded, searched, time.perf_counter()))
    spans = (1e3 * (after - before) for before, after in moments)
    spent = dict(zip(("encode", "search", "items"), spans, strict=True))
    counts = ranking.n_items, ranking.n_candidates, ranking.n_seen
    return Answer(shown, *counts, spent, explanation), len(read) == len(best)


def browse(
    opened: Opened, where: Any, k: int, offset: int, order: str | None, descending: bool
) -> Answer:
    """Return items without searching; see `Collection.browse`."""
    k, offset = check_positive_int(k, "k"), check_positive_int(offset, "offset", minimum=0)
    conditions = read_where(where)
    started = time.perf_counter()
    with opened.store.reading() as connection:
        n_items = len(opened.index.at(connection))
        n_met = count_meeting(connection, conditions) if conditions else n_items
        check_names(connection, conditions if not n_met else (), order)
        numbers = first_in_order(connection, conditions, order, descending, offset + k)[offset:]
        items = read_items(connection, numbers)
    hits = tuple(Hit(**vars(items[number]), score=0.0) for number in numbers)
    spent = {"encode": 0.0, "search": 0.0, "items": 1e3 * (time.perf_counter() - started)}
    return Answer(hits, n_items, n_met, 0, spent)


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
