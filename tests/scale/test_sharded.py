"""Several indexes searched as one give the hits of one index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh import CodeIndex
from acqh.errors import DuplicateIdError, InvalidInputError
from acqh.scale import open_shards

_CODEBOOKS = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 0.5]]])


def assert_same(result, expected):
    np.testing.assert_array_equal(result.ids, expected.ids)
    np.testing.assert_array_equal(result.scores, expected.scores)
    np.testing.assert_array_equal(result.counts, expected.counts)
    assert result.ids.dtype == expected.ids.dtype
    assert result.scores.dtype == expected.scores.dtype
    assert result.counts.dtype == expected.counts.dtype
    assert result.n_scored.dtype == expected.n_scored.dtype


@st.composite
def cases(draw):
    """One index of everything, its shards, queries, k and a filter; whole numbers make ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([0, 1, 3, 40, 200]), min_size=1, max_size=5))
    m, n_components = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    codebooks = rng.standard_normal((m, 8, n_components))
    queries = rng.standard_normal((draw(st.integers(0, 3)), n_components))
    if draw(st.booleans()):
        codebooks, queries = np.round(codebooks), np.round(queries)
    n_items = sum(sizes)
    ids = rng.permutation(n_items) if draw(st.booleans()) else np.arange(n_items) + 5
    if draw(st.booleans()):
        ids = np.array([f"item {number}" for number in ids], dtype=object)
    codes = rng.integers(8, size=(n_items, m))
    full, shards = CodeIndex(codebooks), []
    for start, stop in zip(np.cumsum([0, *sizes]), np.cumsum(sizes), strict=False):
        full.add(codes[start:stop], ids[start:stop])
        shards.append(CodeIndex(codebooks).add(codes[start:stop], ids[start:stop]))
    mask = rng.random(n_items) < 0.5
    filters = [None, mask, lambda _: mask, list(ids[mask]), mask.tolist()]
    return full, shards, queries, draw(st.integers(1, n_items + 3)), draw(st.sampled_from(filters))


@given(cases(), st.sampled_from([None, 5, 60]))
def test_re_ranking_equals_that_of_one_index(case, more):
    full, shards, queries, k, allowed = case
    rng = np.random.default_rng(len(full))
    vectors = np.round(rng.standard_normal((len(full), full.codebooks.shape[2])))
    settings_ = {"rerank": vectors, "rerank_k": None if more is None else k + more}
    result = open_shards(shards).search(queries, k, filter=allowed, n_threads=1, **settings_)
    assert_same(result, full.search(queries, k, filter=allowed, n_threads=1, **settings_))
    assert not result.exact.any()


def test_places_are_those_in_the_order_of_ids():
    one, other = (CodeIndex(_CODEBOOKS).add([[0, 0], [1, 1]], ids) for ids in ([4, 9], [1, 7]))
    index = open_shards([one, other])
    assert index.positions(index.ids).tolist() == [0, 1, 2, 3]
    assert index.positions([7, 5, 4]).tolist() == [3, -1, 0]


@given(cases())
def test_the_answer_is_that_of_one_index_of_everything(case):
    full, shards, queries, k, allowed = case
    index = open_shards(shards)
    assert len(index) == len(full)
    np.testing.assert_array_equal(index.ids, full.ids)
    assert_same(
        index.search(queries, k, filter=allowed, n_threads=1),
        full.search(queries, k, filter=allowed, n_threads=1),
    )


def test_equal_scores_are_in_the_order_of_shards():
    shards = [CodeIndex(_CODEBOOKS).add([[0, 0]] * 2, ids=ids) for ids in ([9, 1], [4, 0])]
    assert open_shards(shards).search([[1, 1]], 3).ids.tolist() == [[9, 1, 4]]
    assert open_shards(shards[::-1]).search([[1, 1]], 3).ids.tolist() == [[4, 0, 9]]


def test_saved_indexes_are_opened_as_one(tmp_path):
    for name, ids in {"a": ["x", "y"], "b": ["z"]}.items():
        CodeIndex(_CODEBOOKS).add([[0, 1]] * len(ids), ids).save(tmp_path / name)
    index = open_shards([tmp_path / "a", str(tmp_path / "b")])
    assert index.ids.tolist() == ["x", "y", "z"]
    assert "z" in index
    assert "w" not in index
    assert repr(index) == "<CodeIndex: 3 items, 2 codebooks of 2 codewords, 2 dimensions>"
    result = index.search([[1, 0]], 5, filter=iter(["z", "x", "w"]))
    assert result.ids.tolist() == [["x", "z", None, None, None]]


@pytest.mark.parametrize("ids", [([1, 5], [5, 6]), ([1, 9], [2, 1]), (["a", "c"], ["b", "c"])])
def test_an_id_in_two_shards_is_rejected_by_default(ids):
    shards = [CodeIndex(_CODEBOOKS).add([[0, 0]] * len(part_ids), part_ids) for part_ids in ids]
    with pytest.raises(DuplicateIdError, match=r"^id (5|1|'c') "):
        open_shards(shards)
    assert len(CodeIndex.from_shards(shards, check_ids=False)) == 4


def test_incompatible_shards_are_rejected():
    numbers = CodeIndex(_CODEBOOKS).add([[0, 0]])
    with pytest.raises(InvalidInputError, match="other codebooks"):
        open_shards([numbers, CodeIndex(_CODEBOOKS + 1)])
    with pytest.raises(InvalidInputError, match="texts"):
        open_shards([numbers, CodeIndex(_CODEBOOKS).add([[0, 0]], ["a"])])
    for nothing in ([], numbers):
        with pytest.raises(InvalidInputError, match="index"):
            open_shards(nothing)


def test_too_many_items_for_row_numbers_are_rejected(monkeypatch):
    monkeypatch.setattr("acqh.index.snapshot.MAX_ROWS", 1)
    shards = [CodeIndex(_CODEBOOKS).add([[0, 0]], [number]) for number in range(2)]
    with pytest.raises(InvalidInputError, match="separately"):
        open_shards(shards)


def test_changes_of_the_sharded_index_do_not_change_its_shards():
    shards = [CodeIndex(_CODEBOOKS).add([[0, 0]], [number]) for number in range(2)]
    index = open_shards(shards)
    assert index.remove([0]).add([[1, 1]]).ids.tolist() == [1, 2]
    assert [shard.ids.tolist() for shard in shards] == [[0], [1]]


@pytest.mark.parametrize(
    "wrong", [[True], np.ones(3, dtype=bool), lambda ids: ids, ["a"], 7, "text"]
)
def test_a_filter_that_does_not_fit_is_rejected(wrong):
    shards = [CodeIndex(_CODEBOOKS).add([[0, 0]], [number]) for number in range(2)]
    with pytest.raises(InvalidInputError):
        open_shards(shards).search([[1, 0]], 1, filter=wrong)
