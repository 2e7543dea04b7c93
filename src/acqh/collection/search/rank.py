"""One ranking from two: the words in items, and what items mean."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from acqh.collection.store.words import WordHit
from acqh.errors import CollectionError

Mode = Literal["auto", "words", "meaning"]
# How much the first places count against the next: the usual constant of reciprocal ranks.
_FLATNESS = 60
# Of items that all have every word, BM25 says little more than how long their texts are.
_MEANING_OF_COMPLETE = 1.5
# Both rankings are read this far at least, so that what is good in both comes up.
POOL = 100

# What the score of an item adds up to, where words are looked up.
FUSED_PARTS = ("rank by words", "rank by meaning", "all words")


class Place(NamedTuple):
    """An item that was found: its score, the position of its shard, and its number there."""

    score: float
    shard: int
    number: int
    parts: tuple[float, ...] = ()  # what adds up to the score, where that is not the code's entries


# The position of a shard, and an item in it that contains words of a query.
WordPlace = tuple[int, WordHit]


def check_mode(mode: str) -> None:
    """Refuse a mode that there is not."""
    if mode not in get_args(Mode):
        raise CollectionError(f"`mode` must be one of {', '.join(get_args(Mode))}, got {mode!r}")


def order_words(found: Sequence[WordPlace]) -> list[WordPlace]:
    """Put the items of all shards in order: called so, with all words, as typed, by BM25."""
    return sorted(found, key=lambda place: (-_tier(place[1]), place[1].rank))


def _tier(hit: WordHit) -> float:
    """Return one for all words and another for being called so; half for words as typed."""
    return hit.complete + hit.is_named + 0.5 * (hit.complete and hit.is_typed)


def fuse(
    meaning: Sequence[Place], words: Sequence[WordPlace], k: int, *, words_first: bool
) -> list[Place]:
    """Return the k best of two rankings, each best first, by the sum of their reciprocal ranks.

    `words_first`: whether items that have every word of the query come before all others, and those
    that are called exactly so before these; their scores are above one and two, and meaning counts
    one and a half times among them. Among either, those that have the words as they were typed
    come before those that have other forms of them.

    Examples
    --------
    >>> has_all, has_some = WordHit(7, -2.0, True), WordHit(8, -1.0, False)
    >>> places = fuse([Place(0.9, 0, 8)], [(0, has_all), (0, has_some)], 2, words_first=True)
    >>> [place.number for place in places]
    [7, 8]
    """
    by_meaning = {
        (place.shard, place.number): 1.0 / (_FLATNESS + rank)
        for rank, place in enumerate(meaning, start=1)
    }
    parts: dict[tuple[int, int], tuple[float, float, float]] = {}
    for rank, (shard, hit) in enumerate(words, start=1):
        is_first = words_first and hit.complete
        meant = by_meaning.get((shard, hit.number), 0.0)
        parts[shard, hit.number] = (
            1.0 / (_FLATNESS + rank),
            meant * (_MEANING_OF_COMPLETE if is_first else 1.0),
            _tier(hit) if words_first else 0.0,
        )
    # Stable: of equal scores, the better ranked by words comes first.
    for at, meant in by_meaning.items():
        parts.setdefault(at, (0.0, meant, 0.0))
    best = sorted(parts.items(), key=lambda pair: -sum(pair[1]))
    return [Place(sum(each), shard, number, each) for (shard, number), each in best[:k]]
