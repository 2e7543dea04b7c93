"""Few items, searched as they are: the same answers as the index gives, to the bit."""

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.errors import InvalidInputError
from acqh.index import CodeIndex
from acqh.index.search.few import FewCodes, best_rows


def made(seed, n, size=4):
    rng = np.random.default_rng(seed)
    books = rng.standard_normal((3, size, 5), dtype=np.float32)
    numbers = np.cumsum(rng.integers(1, 4, n))
    return rng, books, numbers, rng.integers(0, size, (n, 3)).astype(np.uint8)


def few_of(books, numbers, codes):
    none = FewCodes.none(books.transpose(0, 2, 1))
    return none.changed(numbers, codes, np.empty(0, dtype=np.int64))


@given(seed=st.integers(0, 2**32), n=st.integers(1, 200), k=st.integers(1, 250))
@settings(max_examples=40)
def test_few_codes_are_found_as_the_index_finds_them(seed, n, k):
    rng, books, numbers, codes = made(seed, n)
    query = rng.standard_normal(5, dtype=np.float32)
    selected = np.sort(rng.choice(numbers, n // 2, replace=False))
    few, index = few_of(books, numbers, codes), CodeIndex(books).add(codes, ids=numbers)
    for only in (None, selected):
        found, scores = few.search(query, k, only)
        expected = index.search(query[np.newaxis], k, filter=only)
        count = int(expected.counts[0])
        assert found.tolist() == expected.ids[0, :count].tolist()
        assert scores.tobytes() == expected.scores[0, :count].tobytes()


def test_changes_give_what_all_items_at_once_would():
    rng, books, numbers, codes = made(0, 60)
    query = rng.standard_normal(5, dtype=np.float32)
    gone = numbers[10:20]
    few = few_of(books, numbers[:40], codes[:40]).changed(numbers[40:], codes[40:], gone)
    stay = ~np.isin(numbers, gone)
    whole = few_of(books, numbers[stay], codes[stay])
    assert len(few) == 50
    assert few.search(query, 7)[0].tolist() == whole.search(query, 7)[0].tolist()


def test_words_that_there_are_not_and_queries_that_overflow_are_refused():
    _, books, numbers, codes = made(0, 3)
    with pytest.raises(InvalidInputError, match="the word 9 of 4"):
        few_of(books, numbers, np.full((3, 3), 9, dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="too large"):
        few_of(books, numbers, codes).search(np.full(5, 3e38, dtype=np.float32), 1)


@given(
    scores=st.lists(st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 2.0]), max_size=30),
    k=st.integers(1, 35),
)
def test_the_best_rows_are_the_first_of_all_rows_in_order(scores, k):
    scores = np.array(scores, dtype=np.float32)
    assert best_rows(scores, k).tolist() == twins.best_rows(scores, k).tolist()
