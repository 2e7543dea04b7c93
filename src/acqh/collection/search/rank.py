"""Rankings: by meaning among what may be found, with words, and images that are the same."""

import re
import sqlite3
import unicodedata
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.collection.disk.opened import Opened
from acqh.collection.search.same_image import Picture, compare
from acqh.collection.store.file import as_numbers, read_revision
from acqh.collection.store.filters import Condition, check_names, meeting
from acqh.collection.store.items import numbers_showing, thumbnails_of
from acqh.collection.store.words import (
    WordHit,
    WordQuery,
    is_sign,
    names_in,
    numbers_allowed,
    plain,
)

if TYPE_CHECKING:
    from acqh.index import CodeIndex

# Of sentences, not of what is called so: "dog?" is a dog, "C++" is not C.
_PUNCTUATION = ".,;:!?()[]{}\"'"
_WORD = re.compile(r"\w+")
# Highest score of some of the words; all of them count 1, and so does the most similar item.
# Chosen on halves of COCO captions, with a word that does not occur; of 250 others,
# of Flickr8k, 88 % find their photograph first, by words alone as many, by meaning alone 62 %.
_SOME_WORDS = 0.5
# Added if the name or caption equals the query, and if the words have the forms that were typed.
_CALLED_SO, _AS_TYPED = 1.0, 0.25
# The most that `match` is where not every word is there, nor the same image.
_UNCERTAIN = 0.99
# Both rankings are read this far at least, so that what is good in both comes up.
POOL = 100
# Of items that have some of the words, those of the best BM25.
SOME_POOL = 30
# What the score of an item adds up to, where words are looked up.
FUSED_PARTS = ("keywords", "semantic")
# The best by meaning among which the very same image is looked for, and one that was scaled or
# compressed again, for which thumbnails must be read.
SAME_POOL = 1_000
_NEAR_POOL = 32
# Selections of items kept, since pages ask for the same few labels again and again.
_KEPT_SELECTIONS = 32


def select(
    opened: Opened,
    connection: sqlite3.Connection,
    conditions: tuple[Condition, ...],
    words: WordQuery | None,
) -> "tuple[Ints | None, CodeIndex | None]":
    """Return the numbers of the items that meet conditions and the filters of words; None for all.

    If they are few, also an index of them alone. It gives the same scores in the same order.

    Raises CollectionError: no item has a field of the conditions.
    """
    filters = None if words is None else (words.phrases, words.without)
    if not conditions and not any(filters or ()):
        return None, None
    cache = opened.selections
    key = conditions, filters, read_revision(connection)
    selection: tuple[Ints, CodeIndex | None] | None = cache.pop(key, None)
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
    is_text: bool,
    scores: Mapping[int, float],
    items: Mapping[int, Mapping[str, Any]],
) -> dict[int, float]:
    """Return the confidence of items by their semantic similarity, from 0 to 1, by number.

    `scores`: of items that are scored already. `items`: fields of all.
    """
    if query is None:
        return {}
    unscored = {number: item["code"] for number, item in items.items() if number not in scores}
    if unscored:
        codes = np.frombuffer(b"".join(unscored.values()), np.uint8).reshape(len(unscored), -1)
        vectors = opened.index.codebooks[np.arange(codes.shape[1]), codes].sum(axis=1)
        scores = {**scores, **dict(zip(unscored, (vectors @ query).tolist(), strict=True))}
    limit = float(opened.index.levels.limits(query, is_text=is_text))
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

    With all words it is 1. Some words count half: at full weight, three in five queries for absent
    things would have a confident match, because a caption has some of their words.
    """
    return 1.0 if words >= 1 else min(_UNCERTAIN, words / 2 + content)


# Number and score of an item; what adds up to the score, if that is not the entries of its code.
Ranked = tuple[int, float, tuple[float, ...]]


def compare_words(
    query: WordQuery, hits: Sequence[WordHit], items: Mapping[int, Mapping[str, Any]]
) -> list[WordHit]:
    """Return hits with whether they are called exactly so, and have which words as they were typed.

    Called so are also items that have it as their whole caption. `items`: their fields.
    """
    parts = (*query.phrases, *query.terms)
    name, has_signs = " ".join(parts).casefold(), any(map(is_sign, parts))
    terms = [term for term in query.terms if not is_sign(term)]
    typed = plain_words(*terms)
    spelt = [term.strip(_PUNCTUATION).casefold() for term in terms if not term.isalnum()]
    compared = []
    for hit in hits:
        item = items[hit.number]
        text, fields = item["text"], item["fields"]
        names = names_in(fields)
        called = {text, *names}
        if has_signs:
            called |= {value for value in fields.values() if isinstance(value, str)}
        full_text = plain(" ".join((text, *names, *item["labels"]))).casefold()
        words = plain_words(full_text)
        compared.append(
            WordHit(
                *hit[:3],
                is_named=name in {plain(form).casefold() for form in called},
                is_typed=typed <= words and all(form in full_text for form in spelt),
                share=max(1, len(typed & words)) / max(1, len(typed)),
            )
        )
    return compared


def plain_words(*texts: str) -> frozenset[str]:
    """Return the words of texts, without case and diacritics but with their endings.

    Examples
    --------
    >>> sorted(plain_words("Two Cafés", "horse-riding"))
    ['cafes', 'horse', 'riding', 'two']
    """
    plain = " ".join(texts).casefold()
    if not plain.isascii():
        letters = unicodedata.normalize("NFKD", plain)
        plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return frozenset(_WORD.findall(plain))


def fuse(
    content: Mapping[int, float], words: Sequence[WordHit], k: int, *, words_first: bool
) -> list[Ranked]:
    """Return the k best items, by semantic confidence plus keyword score.

    `content`: by number, from 0 to 1. All words count 1, another 1 if the name or caption equals
    the query, and 0.25 if the words are as typed. Some words count 0.5 times their share, times
    their BM25 relative to the best. Without `words_first`, all words are scored like some.

    Examples
    --------
    >>> has_all, has_some = WordHit(7, -2.0, True), WordHit(8, -1.0, False)
    >>> [number for number, *_ in fuse({8: 0.7, 7: 0.1}, [has_all, has_some], 2, words_first=True)]
    [7, 8]
    """
    best = min((hit.rank for hit in words), default=-1.0)
    # Stable: of equal scores, the better by words comes first.
    parts = {}
    for hit in sorted(words, key=lambda hit: (not hit.complete, hit.rank)):
        score = _SOME_WORDS * hit.share * (hit.rank / best if best < 0 else 1.0)
        if words_first and hit.complete:
            score = 1.0 + _CALLED_SO * hit.is_named + _AS_TYPED * hit.is_typed
        parts[hit.number] = score, content.get(hit.number, 0.0)
    for number, near in content.items():
        parts.setdefault(number, (0.0, near))
    ranked = sorted(parts.items(), key=lambda pair: -sum(pair[1]))
    return [(number, sum(shares), shares) for number, shares in ranked[:k]]


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
    same: Sequence[tuple[int, float]], meaning: Sequence[tuple[int, float]], k: int
) -> list[Ranked]:
    """Return the k best; items that show the same image come first.

    Their scores are above all others.

    Examples
    --------
    >>> put_first([(7, 1.0)], [(8, 0.5), (7, 0.25)], 2)
    [(7, 1.5, ()), (8, 0.5, ())]
    """
    scores = {number: meaning[0][1] + similarity for number, similarity in same}
    scores |= {number: score for number, score in meaning if number not in scores}
    return [(number, score, ()) for number, score in [*scores.items()][:k]]
