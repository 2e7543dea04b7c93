"""The best items by meaning, among those that may be found."""

import sqlite3
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.collection.disk.layout import Opened
from acqh.collection.store.connections import as_numbers
from acqh.collection.store.filters import Condition, check_names, meeting
from acqh.collection.store.schema import read_change
from acqh.collection.store.words import WordQuery, numbers_allowed

if TYPE_CHECKING:
    from acqh.index import CodeIndex

# Selections of items kept, since pages ask for the same few labels again and again.
_KEPT_SELECTIONS = 32
# Where at most one item in this many is selected, the selection gets an index of its own.
_SMALL_PART = 16


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
        is_small = len(numbers) * _SMALL_PART <= opened.index.count(connection)
        part = opened.index.part(connection, numbers) if is_small else None
        selected = Selection(numbers, part)
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
    n_items = opened.index.count(connection)
    n_candidates = n_items if selected.numbers is None else len(selected.numbers)
    if query is None:
        return Ranking(n_items, n_candidates, [], 0)
    wanted = k + len(exclude)
    numbers, scores, n_seen = opened.index.search(
        connection, query, wanted, selected.numbers, selected.part
    )
    pairs = zip(numbers.tolist(), scores.tolist(), strict=True)
    best = [pair for pair in pairs if pair[0] not in exclude]
    return Ranking(n_items, n_candidates, best[:k], n_seen)
