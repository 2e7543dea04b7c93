"""One store and its index: which of its items may be found, and the best of them."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.collection.disk.index import IndexCache
from acqh.collection.disk.model import Coder
from acqh.collection.store.filters import Condition
from acqh.collection.store.store import Store
from acqh.collection.store.words import WordQuery
from acqh.index.search.few import FewCodes

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
    index: "CodeIndex | None" = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best items of a shard, and among how many they were chosen."""

    n_items: int
    n_candidates: int
    numbers: list[int]
    scores: list[float]
    n_seen: int  # codes that were scored


class Shard:
    """The items that one store and its index hold; any thread may search them."""

    def __init__(self, store: Store, coder: Coder, cache: IndexCache) -> None:
        self.store = store
        self.cache = cache
        self.coder = coder
        self._selections: OrderedDict[Any, Selection] = OrderedDict()

    def warm_up(self) -> None:
        """Load what the first search would: the index and its compiled code, where it is used."""
        nothing = np.zeros(self.cache.codebooks.shape[2], dtype=np.float32)
        self.top(nothing, 1, Selection(), frozenset())

    def __len__(self) -> int:
        return len(self.cache)

    def top(self, query: Floats | None, k: int, selected: Selection, exclude: Set[int]) -> Ranking:
        """Return the best of the selected items, but some; none where there is no query."""
        few, numbers = self.cache.few(), selected.numbers
        n_items = len(self.cache) if few is None else len(few)
        n_candidates = n_items if numbers is None else len(numbers)
        if query is None:
            return Ranking(n_items, n_candidates, [], [], 0)
        if few is not None:
            found = _top_few(few, query, k, numbers, exclude)
        elif selected.index is not None:
            found = _top(selected.index, query, k, None, exclude)
        else:
            found = _top(self.cache.current(), query, k, numbers, exclude)
        return Ranking(n_items, n_candidates, *found)

    def select(
        self, conditions: tuple[Condition, ...], asked: WordQuery | None = None
    ) -> Selection:
        """Return the items that may be found: that meet the conditions and what words demand."""
        demanded = None if asked is None else asked.demanded
        if not conditions and demanded is None:
            return Selection()
        key = conditions, demanded, self.store.change
        selected = self._selections.get(key)
        if selected is None:
            numbers, index = self.store.select(conditions, asked), None
            is_small = numbers is not None and len(numbers) * _SMALL_PART <= len(self)
            if numbers is not None and is_small and self.cache.few() is None:
                from acqh.index import CodeIndex

                numbers, codes = self.store.codes_of(numbers, self.coder.code_bytes)
                index = CodeIndex(self.cache.codebooks).add(codes, ids=numbers)
            selected = self._selections[key] = Selection(numbers, index)
            while len(self._selections) > _KEPT_SELECTIONS:
                self._selections.popitem(last=False)
        return selected


def home_of(identifier: str, shards: Sequence[Shard]) -> Shard:
    """Return the first shard that has an item; the last where none has it."""
    holding = (shard for shard in shards[:-1] if shard.store.has(identifier))
    return next(holding, shards[-1])


def _top(
    index: "CodeIndex", query: Floats, k: int, selected: Ints | None, exclude: Set[int]
) -> tuple[list[int], list[float], int]:
    """Return numbers and scores of the best items but some, and how many codes were scored."""
    if len(index) == 0:
        return [], [], 0
    wanted = min(k + len(exclude), len(index))
    result = index.search(query[np.newaxis], wanted, filter=selected, n_threads=1)
    found = slice(int(result.counts[0]))
    pairs = zip(result.ids[0, found].tolist(), result.scores[0, found].tolist(), strict=True)
    return *_but(pairs, exclude, k), int(result.scored[0])


def _top_few(
    few: FewCodes, query: Floats, k: int, selected: Ints | None, exclude: Set[int]
) -> tuple[list[int], list[float], int]:
    """Do as `_top` where there are few items."""
    numbers, scores = few.search(query, k + len(exclude), selected)
    pairs = zip(numbers.tolist(), scores.tolist(), strict=True)
    return *_but(pairs, exclude, k), len(few if selected is None else selected)


def _but(
    pairs: Iterable[tuple[int, float]], exclude: Set[int], k: int
) -> tuple[list[int], list[float]]:
    kept = [(number, score) for number, score in pairs if number not in exclude][:k]
    return [number for number, _ in kept], [score for _, score in kept]
