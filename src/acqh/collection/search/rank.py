"""Rankings: by meaning among what may be found, with words, and images that are the same."""

import re
import sqlite3
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.collection.disk.opened import Opened
from acqh.collection.search.same_image import Picture, compare
from acqh.collection.store.file import as_numbers, read_change
from acqh.collection.store.filters import Condition, check_names, meeting
from acqh.collection.store.items import numbers_showing, thumbnails_of
from acqh.collection.store.words import (
    WordHit,
    WordQuery,
    names_in,
    numbers_allowed,
    plain,
)

if TYPE_CHECKING:
    from acqh.index import CodeIndex

# Of sentences, not of what is called so: "dog?" is a dog, "C++" is not C.
_PUNCTUATION = ".,;:!?()[]{}\"'"
_WORD = re.compile(r"\w+")
# What some of the words are worth at most, beside 1 for all of them and for the nearest content.
# Chosen on captions of COCO of which half is typed, with a word that is not there; of 250 others,
# of Flickr8k, 88 % find their photograph first, by words alone as many, by meaning alone 62 %.
_SOME_WORDS = 0.5
# What it is worth besides to be called so, and to have the words in the forms that were typed.
_CALLED_SO, _AS_TYPED = 1.0, 0.25
# The most that `match` is where not every word is there, nor the same image.
_UNCERTAIN = 0.99
# Both rankings are read this far at least, so that what is good in both comes up.
POOL = 100
# Of items that have some of the words, those of the best BM25.
SOME_POOL = 30
# What the score of an item adds up to, where words are looked up.
FUSED_PARTS = ("words", "content")
# The best by meaning among which the very same image is looked for, and one that was scaled or
# compressed again, for which thumbnails must be read.
SAME_POOL = 1_000
_NEAR_POOL = 32
# Selections of items kept, since pages ask for the same few labels again and again.
_KEPT_SELECTIONS = 32


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


@dataclass(frozen=True, eq=False)
class Selection:
    """Items among which a search chooses."""

    numbers: Ints | None = None  # int64 (n_selected,) or None: None for all items
    # An index of these alone, where they are few: it gives the same scores in the same order, and
    # spares the large one picking them out for every search.
    part: "CodeIndex | None" = None


class Ranking(NamedTuple):
    """The best items, and among how many they were chosen."""

    n_items: int
    n_candidates: int
    best: list[tuple[int, float]]  # number and score, best first
    n_seen: int  # codes that were scored


def select(
    opened: Opened,
    connection: sqlite3.Connection,
    conditions: tuple[Condition, ...],
    asked: WordQuery | None,
) -> Selection:
    """Return the items that may be found: that meet the conditions and what words demand.

    Raises CollectionError: no item has a column of the conditions.
    """
    demanded = None if asked is None else asked.demanded
    if not conditions and demanded is None:
        return Selection()
    kept = opened.selections
    key = conditions, demanded, read_change(connection)
    selected: Selection | None = kept.pop(key, None)
    if selected is None:
        found = [as_numbers(connection.execute(*meeting(conditions)))] if conditions else []
        found += [numbers_allowed(connection, asked)] if asked and demanded else []
        numbers = reduce(np.intersect1d, found)
        if not numbers.size:
            check_names(connection, conditions)
        selected = Selection(numbers, opened.index.part(connection, numbers))
    kept[key] = selected
    while len(kept) > _KEPT_SELECTIONS:
        kept.popitem(last=False)
    return selected


def rank_by_meaning(
    opened: Opened,
    connection: sqlite3.Connection,
    query: Floats | None,
    k: int,
    selected: Selection,
    exclude: set[int],
) -> Ranking:
    """Return the k best of the selected items, but some; none where there is no query."""
    index = opened.index.at(connection)
    n_items, chosen = len(index), selected.numbers
    n_candidates = n_items if chosen is None else len(chosen)
    if selected.part is not None:
        index, chosen = selected.part, None
    wanted = min(k + len(exclude), len(index))
    if query is None or not wanted:
        return Ranking(n_items, n_candidates, [], 0)
    result = index.search(query[np.newaxis], wanted, filter=chosen, n_threads=1)
    found = slice(int(result.counts[0]))
    pairs = zip(result.ids[0, found].tolist(), result.scores[0, found].tolist(), strict=True)
    best = [pair for pair in pairs if pair[0] not in exclude]
    return Ranking(n_items, n_candidates, best[:k], int(result.scored[0]))


def rate(
    opened: Opened,
    asked: Question,
    best: Sequence[tuple[int, float]],
    k: int,
    others: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[int, float]:
    """Return how far items stand out by meaning, from 0 to 1, by number.

    Of the `k` first of the `best`, which have scores, and of `others`, which words have found.
    """
    query, levels, others = asked.vector, opened.index.levels, others or {}
    if query is None:
        return {}
    scores = dict(best[:k])
    if others:
        scores |= {number: score for number, score in best[k:] if number in others}
    unscored = {number: item["code"] for number, item in others.items() if number not in scores}
    if unscored:
        codes = np.frombuffer(b"".join(unscored.values()), np.uint8).reshape(len(unscored), -1)
        vectors = opened.index.codebooks[np.arange(codes.shape[1]), codes].sum(axis=1)
        scores |= dict(zip(unscored, (vectors @ query).tolist(), strict=True))
    limit = float(levels.limits(query, is_text=asked.given == {"text"}))
    return {number: match_of(score, limit) for number, score in scores.items()}


def match_of(score: float, limit: float) -> float:
    """Return how far a score stands out, from 0 to 1: above one half, it does.

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
    """Return how far an item stands out by words and content together, from what each is worth.

    All words are certain. Some count half: at their whole worth, three in five queries of which a
    caption has some words would stand out, though nothing of the kind is there.
    """
    return 1.0 if words >= 1 else min(_UNCERTAIN, words / 2 + content)


class Place(NamedTuple):
    """An item that was found."""

    number: int
    score: float
    parts: tuple[float, ...] = ()  # what adds up to the score, where that is not the code's entries


def compare_words(
    asked: WordQuery, hits: Sequence[WordHit], items: Mapping[int, Mapping[str, Any]]
) -> list[WordHit]:
    """Return hits with whether they are called exactly so, and have which words as they were typed.

    Called so are also items that have it as their whole caption. `items`: their fields.
    """
    name = " ".join((*asked.phrases, *asked.terms)).casefold()
    typed = plain_words(*asked.words)
    spelt = [term.strip(_PUNCTUATION).casefold() for term in asked.words if not term.isalnum()]
    has_signs, compared = asked.has_signs, []
    for hit in hits:
        item = items[hit.number]
        text, columns = item["text"], item["columns"]
        names = names_in(columns)
        called = {text, *names}
        if has_signs:
            called |= {value for value in columns.values() if isinstance(value, str)}
        whole = plain(" ".join((text, *names, *item["labels"]))).casefold()
        words = plain_words(whole)
        compared.append(
            WordHit(
                *hit[:3],
                is_named=name in {plain(each).casefold() for each in called},
                is_typed=typed <= words and all(each in whole for each in spelt),
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
) -> list[Place]:
    """Return the k best items: by how far they stand out, plus the words that they have.

    `content`: by number, from 0 to 1. Every word is worth 1, another 1 where the item is called so,
    and a quarter where the words are as typed. Some words are worth half of their share, times how
    good their BM25 is beside the best. Without `words_first` that is all that words are worth.

    Examples
    --------
    >>> has_all, has_some = WordHit(7, -2.0, True), WordHit(8, -1.0, False)
    >>> [place.number for place in fuse({8: 0.7, 7: 0.1}, [has_all, has_some], 2, words_first=True)]
    [7, 8]
    """
    best = min((hit.rank for hit in words), default=-1.0)
    # Stable: of equal scores, the better by words comes first.
    parts = {}
    for hit in sorted(words, key=lambda hit: (not hit.complete, hit.rank)):
        worth = _SOME_WORDS * hit.share * (hit.rank / best if best < 0 else 1.0)
        if words_first and hit.complete:
            worth = 1.0 + _CALLED_SO * hit.is_named + _AS_TYPED * hit.is_typed
        parts[hit.number] = worth, content.get(hit.number, 0.0)
    for number, near in content.items():
        parts.setdefault(number, (0.0, near))
    ranked = sorted(parts.items(), key=lambda pair: -sum(pair[1]))
    return [Place(number, sum(each), each) for number, each in ranked[:k]]


def find_same(
    connection: sqlite3.Connection, best: Sequence[int], thumbnail: bytes
) -> list[tuple[int, float]]:
    """Return the items whose image is that of the query, among the best, and how alike they are.

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
) -> list[Place]:
    """Return the k best, of which those that show the same image come first.

    Their scores are above all others.

    Examples
    --------
    >>> put_first([(7, 1.0)], [(8, 0.5), (7, 0.25)], 2)
    [Place(number=7, score=1.5, parts=()), Place(number=8, score=0.5, parts=())]
    """
    first = [Place(number, meaning[0][1] + alike) for number, alike in same]
    known = {place.number for place in first}
    return [*first, *(Place(*pair) for pair in meaning if pair[0] not in known)][:k]
