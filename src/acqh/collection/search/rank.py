"""Rankings of the allowed items: semantic, by keywords, and by identical images."""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.collection.opened import Opened
from acqh.collection.search.same_image import Picture, compare
from acqh.collection.store.file import as_numbers
from acqh.collection.store.filters import Condition, check_names, meeting
from acqh.collection.store.items import (
    StoredItem,
    numbers_showing,
    thumbnails_of,
)
from acqh.collection.store.words import (
    WordHit,
    WordQuery,
    is_sign,
    numbers_allowed,
    plain_words,
)

if TYPE_CHECKING:
    from acqh.index import CodeIndex

# Of sentences, not of what is called so: "dog?" is a dog, "C++" is not C.
_PUNCTUATION = ".,;:!?()[]{}\"'"
# Highest score of some of the words; all of them count 1, and so does the most similar item.
# Chosen on halves of COCO captions, with a word that does not occur. Of 250 others, of Flickr8k,
# 88 % find their photograph first, as many by keywords alone, and 62 % by similarity alone.
_SOME_WORDS = 0.5
# Score of all words, if suggested tags or text in the image are needed for some: below what people
# wrote, above some of the words. And the least `match` then.
_DETECTED_WORDS, _DETECTED_MATCH = 0.6, 0.75
# Added if the name or caption equals the query, and if the words have the forms that were typed.
_CALLED_SO, _AS_TYPED = 1.0, 0.25
# The most that `match` is where not every word is there, nor the same image.
_UNCERTAIN = 0.99
# Both rankings are read this far at least, so that what is good in both comes up.
POOL = 100
# Of items that have some of the words, those of the best BM25.
SOME_POOL = 30
# Of the most similar items, the share of screenshots, scans and drawings up to which photos come
# first: above it, such as among emoji, they are what is searched for.
_MOST_OTHERS = 0.75
# The parts of an item's score in a hybrid search.
FUSED_PARTS = ("keywords", "semantic")
# Of the most similar items, how many are searched for the identical image, and for one that was
# scaled or compressed again, which needs their thumbnails.
SAME_POOL = 1_000
_NEAR_POOL = 32
# Selections of items kept, since pages ask for the same few labels again and again.
_KEPT_SELECTIONS = 32


def select(
    opened: Opened,
    connection: sqlite3.Connection,
    cache: "OrderedDict[Any, tuple[Ints, CodeIndex | None]]",
    conditions: tuple[Condition, ...],
    words: WordQuery | None,
) -> "tuple[Ints | None, CodeIndex | None]":
    """Return the numbers of the items that meet conditions and the filters of words; None for all.

    If they are few, also an index of them alone. It gives the same scores in the same order.
    `cache`: see `State`.

    Raises CollectionError: no item has a field of the conditions.
    """
    filters = None if words is None else (words.phrases, words.without)
    if not conditions and not any(filters or ()):
        return None, None
    key = conditions, filters
    selection = cache.pop(key, None)
    if selection is None:
        sets = [as_numbers(connection.execute(*meeting(conditions)))] if conditions else []
        sets += [numbers_allowed(connection, words)] if words and any(filters or ()) else []
        numbers = reduce(np.intersect1d, sets)
        if not numbers.size:
            check_names(connection, conditions)
        selection = numbers, opened.index.part(connection, numbers)
    cache[key] = selection
    while len(cache) > _KEPT_SELECTIONS:
        cache.popitem(last=False)
    return selection


def rate(
    opened: Opened,
    query: Floats | None,
    scores: Mapping[int, float],
    codes: Mapping[int, bytes],
    *,
    is_text: bool,
) -> dict[int, float]:
    """Return the confidence of items by their semantic similarity, from 0 to 1, by number.

    `scores`: of items that are scored already. `codes`: of the others.
    """
    if query is None:
        return {}
    if codes:
        table = np.frombuffer(b"".join(codes.values()), np.uint8).reshape(len(codes), -1)
        vectors = opened.index.codebooks[np.arange(table.shape[1]), table].sum(axis=1)
        scores = {**scores, **dict(zip(codes, (vectors @ query).tolist(), strict=True))}
    levels = opened.levels_of(is_fast=opened.is_fast)
    limit = float(levels.limits(query, is_text=is_text))
    return {number: match_of(score, limit) for number, score in scores.items()}


def match_of(score: float, limit: float) -> float:
    """Return the confidence of a score, from 0 to 1; above one half it is a confident match.

    `limit`: see `Levels`. Twice that gives three quarters, four times it seven eighths.

    Examples
    --------
    >>> [match_of(score, 0.2) for score in (-1.0, 0.1, 0.2, 0.4, 0.8)]
    [0.0, 0.25, 0.5, 0.75, 0.875]
    """
    if score <= 0:
        return 0.0
    return 0.5 * score / limit if score <= limit else min(_UNCERTAIN, 1 - 0.5 * limit / score)


def match_of_both(words: float, content: float) -> float:
    """Return the confidence of an item from its scores by keywords and by semantic similarity.

    With all words it is 1, and with all words in detected metadata at least 0.75. Some words count
    half: at full weight, three in five queries for absent things would have a confident match,
    because a caption has some of their words.
    """
    if words >= 1:
        return 1.0
    match = words / 2 + content
    return min(_UNCERTAIN, max(_DETECTED_MATCH, match) if words >= _DETECTED_WORDS else match)


def no_photos(
    other_kinds: frozenset[int], nearest: Iterable[int], with_words: Sequence[int]
) -> frozenset[int]:
    """Return the items that are no photos, and whose confidence is halved if it is weak.

    Screenshots, scans and drawings are a little similar to any word that the model does not know.
    Those with words of the query keep theirs, and all do if few of the items are photos.
    """
    pool = {*nearest, *with_words}
    others = other_kinds & pool
    is_usual = len(others) <= _MOST_OTHERS * len(pool)
    return others.difference(with_words) if is_usual else frozenset()


# Number and score of an item; what adds up to the score, if that is not the entries of its code.
Ranked = tuple[int, float, tuple[float, ...]]


def compare_words(
    query: WordQuery, hits: Sequence[WordHit], items: Mapping[int, StoredItem]
) -> list[WordHit]:
    """Return hits with the share of the words that they have as typed.

    Also whether those with all words have all of them as typed, and are called exactly so, by their
    name or their whole caption.
    """
    parts = (*query.phrases, *query.terms)
    name, has_signs = " ".join(parts).casefold(), any(map(is_sign, parts))
    terms = [term for term in query.terms if not is_sign(term)]
    typed = plain_words(*terms)
    n_typed = max(1, len(typed))
    spelt = [term.strip(_PUNCTUATION).casefold() for term in terms if not term.isalnum()]
    compared = []
    for number, rank, complete, _, _, _, is_detected in hits:
        item = items[number]
        full_text, words = item.forms
        if is_detected:
            words |= item.detected_words
        share = (len(typed & words) or 1) / n_typed
        is_named = is_typed = False
        if is_detected:
            complete = complete or share == 1.0
        elif complete:
            is_named = item.is_called(name, by_any_field=has_signs)
            is_typed = typed <= words and all(form in full_text for form in spelt)
        compared.append(WordHit(number, rank, complete, is_named, is_typed, share, is_detected))
    return compared


def with_files(hits: Sequence[WordHit], files: Mapping[int, bool]) -> list[WordHit]:
    """Return hits, with those first whose file has the name, or begins with it.

    `files`: whether it is the whole name, by number.
    """
    named = [WordHit(number, 0.0, True, is_whole, True) for number, is_whole in files.items()]
    return [*named, *(hit for hit in hits if hit.number not in files)]


def with_detected(words: Sequence[WordHit], detected: Sequence[WordHit]) -> list[WordHit]:
    """Return hits by what people wrote, and by detected metadata, those with all words first.

    Examples
    --------
    >>> has_all, has_some = WordHit(7, -2.0, True), WordHit(8, -1.0, False)
    >>> tagged = WordHit(8, -2.0, True, is_detected=True)
    >>> with_detected([has_all, has_some], [tagged]) == [has_all, tagged]
    True
    """
    has_all = {hit.number for hit in words if hit.complete}
    added = {hit.number: hit for hit in detected if hit.number not in has_all}
    hits = [*(hit for hit in words if hit.number not in added), *added.values()]
    return sorted(hits, key=lambda hit: not hit.complete)


def fuse(
    content: Mapping[int, float], words: Sequence[WordHit], k: int, *, words_first: bool
) -> list[Ranked]:
    """Return the k best items, by semantic confidence plus keyword score.

    `content`: by number, from 0 to 1. All words count 1, another 1 if the name or caption equals
    the query, and 0.25 if the words are as typed. Some words count 0.5 times their share, times
    their BM25 relative to the best. With detected metadata, all words count 0.6, and some words
    half. Without `words_first`, all words are scored like some.

    Examples
    --------
    >>> has_all, has_some = WordHit(7, -2.0, True), WordHit(8, -1.0, False)
    >>> [number for number, *_ in fuse({8: 0.7, 7: 0.1}, [has_all, has_some], 2, words_first=True)]
    [7, 8]
    """
    lowest: dict[bool, float] = {}  # of what people wrote, and of detected metadata
    for hit in words:
        lowest[hit.is_detected] = min(hit.rank, lowest.get(hit.is_detected, 0.0))
    # Stable: of equal scores, the better by words comes first.
    parts = {}
    for hit in sorted(words, key=lambda hit: (not hit.complete, hit.rank)):
        best = lowest[hit.is_detected]
        score = _SOME_WORDS * hit.share * (hit.rank / best if best < 0 else 1.0)
        if hit.is_detected:
            score = _DETECTED_WORDS if words_first and hit.complete else score / 2
        elif words_first and hit.complete:
            score = 1.0 + _CALLED_SO * hit.is_named + _AS_TYPED * hit.is_typed
        parts[hit.number] = score, content.get(hit.number, 0.0)
    for number, near in content.items():
        parts.setdefault(number, (0.0, near))
    ranked: list[Ranked] = [
        (number, score + near, (score, near)) for number, (score, near) in parts.items()
    ]
    return sorted(ranked, key=lambda row: -row[1])[:k]


def find_same(
    connection: sqlite3.Connection, best: Sequence[int], thumbnail: bytes
) -> list[tuple[int, float]]:
    """Return the items whose image is that of the query, among the best, and their similarity.

    `thumbnail`: of the query, made as those of items are. Returns equal thumbnails or, if there are
    none, those of copies, the most similar first. The similarity is 1 or less.
    """
    same = [(number, 1.0) for number in numbers_showing(connection, thumbnail, best)]
    if same:
        return same
    query = Picture.of_thumbnail(thumbnail)
    for number, stored in thumbnails_of(connection, best[:_NEAR_POOL]).items():
        if (copy := compare(query, Picture.of_thumbnail(stored))) is not None:
            same.append((number, 1.0 - copy.difference / 255))
    return sorted(same, key=lambda pair: -pair[1])


def put_first(
    same: Sequence[tuple[int, float]], nearest: Mapping[int, float], k: int
) -> list[Ranked]:
    """Return the k best; items that show the same image come first.

    Their scores are above all others. `nearest`: scores by number, best first.

    Examples
    --------
    >>> put_first([(7, 1.0)], {8: 0.5, 7: 0.25}, 2)
    [(7, 1.5, ()), (8, 0.5, ())]
    """
    highest = next(iter(nearest.values()), 0.0)
    scores = {number: highest + similarity for number, similarity in same}
    scores |= {number: score for number, score in nearest.items() if number not in scores}
    return [(number, score, ()) for number, score in [*scores.items()][:k]]
