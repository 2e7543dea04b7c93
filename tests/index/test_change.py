"""Adding, replacing and removing items, against a dictionary and brute force."""

import threading
from itertools import pairwise
from unittest import mock

import numpy as np
import numpy_reference as reference
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from acqh import CodeIndex
from acqh.errors import DuplicateIdError, InvalidInputError, UnknownIdError
from acqh.index import snapshot as snapshots

CODEBOOKS = np.round(np.random.default_rng(0).standard_normal((3, 5, 2)) * 2)
WORDS = CODEBOOKS.astype(np.float32).transpose(0, 2, 1)


def best_of(items, query, k):
    """Ids and scores of the k best of a dictionary of codes, in its order."""
    ids = list(items)
    codes = np.array(list(items.values()), dtype=np.uint8).reshape(-1, 3)
    tables = reference.tables_of(WORDS, np.asarray(query, dtype=np.float32)[None])
    scores = reference.score_codes(tables, codes)[0]
    rows = reference.best_rows(scores, k)
    return [ids[row] for row in rows], scores[rows].tolist()


def hits_of(result):
    """Ids and scores of a result of one query."""
    n = result.counts[0]
    return result.ids[0, :n].tolist(), result.scores[0, :n].tolist()


codes_of = st.lists(st.integers(0, 4), min_size=3, max_size=3)
queries = st.lists(st.integers(-3, 3), min_size=2, max_size=2)


class IndexMachine(RuleBasedStateMachine):
    """An index and a dictionary go through the same changes; searches must agree."""

    @initialize(texts=st.booleans(), small=st.sampled_from([1, 8, 1024]))
    def start(self, texts, small):
        self.few_parts = mock.patch.object(snapshots, "_SMALL", small)
        self.few_parts.start()
        self.texts = texts
        self.index = CodeIndex(CODEBOOKS)
        self.items = {}
        self.gone = set()

    def teardown(self):
        self.few_parts.stop()

    def name(self, number):
        return f"item {number}" if self.texts else number

    @rule(numbers=st.lists(st.integers(0, 60), unique=True, max_size=12), data=st.data())
    def add(self, numbers, data):
        ids = [self.name(number) for number in numbers]
        codes = [data.draw(codes_of) for _ in ids]
        if any(identifier in self.items for identifier in ids):
            with pytest.raises(DuplicateIdError):
                self.index.add(np.array(codes).reshape(-1, 3), ids)
            return
        self.index.add(np.array(codes, dtype=int).reshape(-1, 3), ids)
        self.items.update(zip(ids, codes, strict=True))

    @rule(n=st.integers(1, 40), seed=st.integers(0, 99))
    def add_many_under_running_numbers(self, n, seed):
        codes = np.random.default_rng(seed).integers(5, size=(n, 3))
        if self.texts:
            if self.items:
                with pytest.raises(InvalidInputError):
                    self.index.add(codes)
            return
        self.index.add(codes)
        new = self.index.ids[-n:].tolist()
        assert not (set(new) & (set(self.items) | self.gone))
        self.items.update(zip(new, codes.tolist(), strict=True))

    @rule(numbers=st.lists(st.integers(0, 60), unique=True, min_size=1, max_size=8), code=codes_of)
    def upsert(self, numbers, code):
        ids = [self.name(number) for number in numbers]
        self.index.upsert([code] * len(ids), ids)
        for identifier in ids:
            self.items.pop(identifier, None)
        self.items.update((identifier, code) for identifier in ids)

    @rule(data=st.data())
    def remove(self, data):
        if not self.items:
            return
        ids = data.draw(st.lists(st.sampled_from(sorted(self.items)), max_size=20))
        self.index.remove(ids)
        for identifier in set(ids):
            del self.items[identifier]
            self.gone.add(identifier)

    @rule(number=st.integers(0, 60))
    def remove_missing_ids(self, number):
        identifier = self.name(number)
        if identifier not in self.items and self.items:
            with pytest.raises(UnknownIdError):
                self.index.remove([*self.items, identifier])

    @rule()
    def compact(self):
        self.index.compact()

    @rule(query=queries, k=st.integers(1, 80))
    def search(self, query, k):
        assert hits_of(self.index.search([query], k)) == best_of(self.items, query, k)

    @rule(query=queries, k=st.integers(1, 80), data=st.data())
    def search_with_a_filter(self, query, k, data):
        allowed = data.draw(st.sets(st.sampled_from([*sorted(self.items), self.name(999)])))
        items = {key: code for key, code in self.items.items() if key in allowed}
        mask = np.array([key in allowed for key in self.items], dtype=bool)
        expected = best_of(items, query, k)
        for filter_ in (allowed, mask, lambda ids: np.isin(ids, list(allowed))):
            assert hits_of(self.index.search([query], k, filter=filter_)) == expected

    @invariant()
    def holds_the_same_items(self):
        assert len(self.index) == len(self.items)
        assert self.index.ids.tolist() == list(self.items)
        assert self.index.codes.tolist() == [list(code) for code in self.items.values()]
        pairs = [pair for batch in self.index.batches(3) for pair in zip(*batch, strict=True)]
        assert [(i, tuple(code)) for i, code in pairs] == [
            (i, tuple(code)) for i, code in self.items.items()
        ]
        for part in self.index._snapshot.parts:
            part.verify()


IndexMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25)
test_an_index_behaves_like_a_dictionary = IndexMachine.TestCase


def random_codes(n, seed=0):
    return np.random.default_rng(seed).integers(5, size=(n, 3))


def test_ids_are_consecutive_numbers_that_are_never_reused():
    index = CodeIndex(CODEBOOKS).add(random_codes(3)).remove([2]).add(random_codes(2))
    assert index.ids.tolist() == [0, 1, 3, 4]
    index.upsert(random_codes(1), [10])
    assert index.add(random_codes(1)).ids.tolist() == [0, 1, 3, 4, 10, 11]


def test_running_numbers_take_no_memory():
    index = CodeIndex(CODEBOOKS).add(random_codes(1000))
    assert index.memory_bytes == index.bytes_per_item * 1000


def test_an_upserted_item_counts_as_inserted_last():
    index = CodeIndex(CODEBOOKS).add([[0, 0, 0]] * 3, ids=["a", "b", "c"])
    index.upsert([[0, 0, 0]], ["a"])
    assert index.search([[1.0, 0.0]], 3).ids.tolist() == [["b", "c", "a"]]


def test_membership_and_reconstruction():
    index = CodeIndex(CODEBOOKS).add([[0, 1, 2], [4, 4, 4]], ids=["a", "b"])
    assert "a" in index
    assert "c" not in index
    assert 7 not in index
    assert None not in index
    expected = CODEBOOKS[0, 0] + CODEBOOKS[1, 1] + CODEBOOKS[2, 2]
    np.testing.assert_array_equal(index.reconstruct("a"), expected)
    with pytest.raises(UnknownIdError, match="'c'"):
        index.reconstruct("c")


def test_parts_shrink_by_half_however_items_are_added(monkeypatch):
    monkeypatch.setattr(snapshots, "_SMALL", 1)
    index = CodeIndex(CODEBOOKS)
    for start in range(200):
        index.add(random_codes(1 + start % 3, seed=start))
        sizes = [part.n_live for part in index._snapshot.parts]
        assert all(2 * suffix_max <= before for before, suffix_max in pairwise(sizes))


def test_items_added_one_by_one_lie_in_one_small_part():
    index = CodeIndex(CODEBOOKS)
    for number in range(50):
        index.add(random_codes(1, seed=number))
    assert [part.n_live for part in index._snapshot.parts] == [50]


def test_removed_items_give_back_their_memory():
    index = CodeIndex(CODEBOOKS).add(random_codes(5000))
    before = index.memory_bytes
    index.remove(range(100, 5000))
    assert index.memory_bytes < before / 4


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([[0, 0]], "a row of 3 codewords"),
        ([0, 0, 0], "a row of 3 codewords"),
        ([[0, 0, 5]], "codeword"),
        ([[0, 0, -1]], "codeword"),
        ([[0.0, 0.0, 0.0]], "must be whole numbers"),
        ([["a", "b", "c"]], "must be whole numbers"),
    ],
)
def test_invalid_codes_are_rejected(codes, message):
    index = CodeIndex(CODEBOOKS)
    with pytest.raises(InvalidInputError, match=message):
        index.add(codes)
    assert len(index) == 0


def test_invalid_ids_are_rejected():
    index = CodeIndex(CODEBOOKS).add(random_codes(2), ids=["a", "b"])
    for ids, message in [
        (["c"], "1 ids for 2 items"),
        ([1, 2], "the ids of this index are texts, got"),
        (None, "texts"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            index.add(random_codes(2), ids)
    with pytest.raises(InvalidInputError, match="are texts"):
        index.remove([1])
    with pytest.raises(InvalidInputError, match="ids"):
        index.upsert(random_codes(1), None)
    with pytest.raises(InvalidInputError, match="-1"):
        CodeIndex(CODEBOOKS).add(random_codes(1), [-1])
    assert len(index) == 2


def test_nothing_can_be_added_once_running_numbers_are_used_up():
    index = CodeIndex(CODEBOOKS).add(random_codes(1), [2**63 - 1])
    with pytest.raises(InvalidInputError, match="64 bits"):
        index.add(random_codes(1))


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        ([True, False], "has shape"),
        (np.ones((3, 1), dtype=bool), "has shape"),
        (lambda ids: ids, "boolean"),
        (["a"], "filter"),
        ("abc", "must be a sequence"),
        ([1.5], "all whole numbers"),
        ({"label": "dog"}, "mapping"),
    ],
)
def test_invalid_filters_are_rejected(filter_, message):
    index = CodeIndex(CODEBOOKS).add(random_codes(3))
    with pytest.raises(InvalidInputError, match=message):
        index.search([[1.0, 0.0]], 1, filter=filter_)


def test_numbers_are_no_filter_of_texts():
    index = CodeIndex(CODEBOOKS).add(random_codes(2), ["a", "b"])
    with pytest.raises(InvalidInputError, match="filter"):
        index.search([[1.0, 0.0]], 1, filter=[1])


def test_a_filter_may_leave_nothing():
    index = CodeIndex(CODEBOOKS).add(random_codes(3))
    for filter_ in ([], set(), [99], [False] * 3):
        assert index.search([[1.0, 0.0]], 2, filter=filter_).counts.tolist() == [0]


def test_a_search_does_not_wait_for_a_change():
    index = CodeIndex(CODEBOOKS).add(random_codes(3))
    with index._change:
        assert index.search([[1.0, 0.0]], 2).counts.tolist() == [2]
        assert len(index) == 3


@pytest.mark.parametrize("small", [1, 1024])
def test_searches_during_changes_are_exact_for_a_published_state(small, monkeypatch):
    """Every answer must be that of one of the states, and never of an earlier one than before."""
    monkeypatch.setattr(snapshots, "_SMALL", small)
    rng = np.random.default_rng(0)
    index = CodeIndex(CODEBOOKS)
    items, states = {}, [{}]
    changes = []
    for number in range(60):
        new = {
            f"{number}.{i}": code for i, code in enumerate(rng.integers(5, size=(20, 3)).tolist())
        }
        gone = list(rng.permutation(sorted(items))[:5])
        changes.append((new, gone))
        items = {**items, **new}
        states.append(items)
        items = {key: code for key, code in items.items() if key not in gone}
        states.append(items)
    query = [1.0, -2.0]
    expected = [best_of(state, query, 15) for state in states]
    answers = [[], []]
    done = threading.Event()

    def read(into):
        while not done.is_set():
            into.append(hits_of(index.search([query], 15)))

    readers = [threading.Thread(target=read, args=(into,)) for into in answers]
    for reader in readers:
        reader.start()
    for new, gone in changes:
        index.add(list(new.values()), list(new))
        index.remove(gone)
    done.set()
    for reader in readers:
        reader.join()
    for pair in answers:
        state = 0
        for answer in pair:
            while expected[state] != answer:
                state += 1
                assert state < len(expected), "an answer that belongs to no later state"
    assert hits_of(index.search([query], 15)) == expected[-1]
