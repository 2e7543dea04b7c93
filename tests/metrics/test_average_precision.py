import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from acqh.errors import InvalidInputError
from acqh.metrics import average_precision, mean_average_precision, precision_at


@pytest.fixture
def block():
    """Return small integer scores with many ties and relevance of 20 queries on 40 items."""
    rng = np.random.default_rng(0)
    relevant = rng.random((20, 40)) < 0.3
    relevant[3] = False
    return rng.integers(0, 9, (20, 40)), relevant


@pytest.mark.parametrize("ties", ["expected", "stable"])
@pytest.mark.parametrize("cutoff", [None, 1, 13])
def test_every_dtype_that_holds_the_scores_gives_the_same(block, cutoff, ties):
    scores, relevant = block
    full = average_precision(scores, relevant, cutoff=cutoff, ties=ties)
    for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "f2", "f4", "f8"):
        result = average_precision(scores.astype(dtype), relevant, cutoff=cutoff, ties=ties)
        np.testing.assert_array_equal(result, full)
    smallest_first = average_precision(
        4 - scores, relevant, cutoff=cutoff, ties=ties, kind="distances"
    )
    np.testing.assert_array_equal(smallest_first, full)


def test_layout_in_memory_and_form_of_relevance_do_not_matter(block):
    scores, relevant = block
    full = average_precision(scores, relevant)
    np.testing.assert_array_equal(
        average_precision(np.asfortranarray(scores), relevant[:, ::-1][:, ::-1]), full
    )
    for form in (relevant.astype(int), relevant.astype(float), relevant.tolist()):
        np.testing.assert_array_equal(average_precision(scores.tolist(), form), full)


def test_input_is_left_untouched(block):
    scores, relevant = block
    copies = scores.copy(), relevant.copy()
    average_precision(scores, relevant)
    np.testing.assert_array_equal(scores, copies[0])
    np.testing.assert_array_equal(relevant, copies[1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.sampled_from(("hits", "cutoff", "all")))
def test_expected_average_precision_does_not_depend_on_database_order(seed, cutoff, denominator):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.integers(0, 4, (3, 25)), rng.random((3, 25)) < 0.4
    order = rng.permutation(25)
    options = {"cutoff": cutoff, "denominator": denominator}
    np.testing.assert_allclose(
        average_precision(scores[:, order], relevant[:, order], **options),
        average_precision(scores, relevant, **options),
    )


def test_without_a_cutoff_the_denominators_agree(block):
    hits, cut, every = (
        average_precision(*block, denominator=name) for name in ("hits", "cutoff", "all")
    )
    np.testing.assert_array_equal(hits, cut)
    np.testing.assert_array_equal(hits, every)


def test_a_cutoff_beyond_the_database_means_all_of_it(block):
    for cutoff in (40, 41, 10**12):
        for denominator in ("hits", "cutoff", "all"):
            result = average_precision(*block, cutoff=cutoff, denominator=denominator)
            np.testing.assert_array_equal(result, average_precision(*block))
    np.testing.assert_array_equal(precision_at(*block, 41), precision_at(*block, 40))


def test_positive_and_negative_zero_are_tied():
    relevant = [False, True]
    for dtype in (np.float32, np.float64):
        scores = np.array([0.0, -0.0], dtype=dtype)
        assert average_precision(scores, relevant) == 0.75
        assert average_precision(scores, relevant, ties="stable") == 0.5


def test_infinite_scores_rank_first_and_last_and_tie():
    relevant = [True, False, True, True]
    scores = [np.inf, -np.inf, 0.0, -np.inf]
    assert average_precision(scores, relevant) == pytest.approx((1 + 1 + (1 + 0.75) / 2) / 3)


def test_integers_are_compared_beyond_the_precision_of_floats():
    scores = np.array([2**60, 2**60 + 1])
    assert average_precision(scores, [False, True]) == 1.0
    assert average_precision(scores.astype(np.uint64), [False, True]) == 1.0


def test_float64_scores_are_not_rounded_to_float32():
    assert average_precision(np.array([1.0, 1.0 + 1e-12]), [False, True]) == 1.0


def test_one_query_gives_one_number(block):
    scores, relevant = block
    rows = average_precision(scores, relevant)
    assert average_precision(scores[0], relevant[0]) == rows[0]
    assert isinstance(average_precision(scores[0], relevant[0]), float)
    assert isinstance(precision_at(scores[0], relevant[0], 3), float)
    assert precision_at(scores[0], relevant[0], [3, 4]).shape == (2,)
    assert precision_at(scores, relevant, [3, 4]).shape == (20, 2)
    assert precision_at(scores, relevant, 3).shape == (20,)


def test_queries_without_relevant_items_are_nan_and_skipped_or_counted_zero(block):
    scores, relevant = block
    values = average_precision(scores, relevant)
    assert np.flatnonzero(np.isnan(values)).tolist() == [3]
    remaining = np.delete(values, 3)
    assert mean_average_precision(scores, relevant) == pytest.approx(remaining.mean())
    zero = mean_average_precision(scores, relevant, empty="zero")
    assert zero == pytest.approx(remaining.sum() / 20)


def test_a_query_with_its_hits_beyond_the_cutoff_counts_as_zero_not_as_empty():
    for denominator in ("hits", "cutoff", "all"):
        result = mean_average_precision(
            [3, 2, 1], [False, False, True], cutoff=2, denominator=denominator
        )
        assert result == 0.0


def test_a_ranking_and_scores_in_that_order_give_the_same_result(block):
    scores, relevant = block
    ranking = np.argsort(-scores, axis=1, kind="stable")
    for dtype in (np.int32, np.int64, np.uint64):
        for cutoff in (None, 7):
            options = {"cutoff": cutoff, "denominator": "cutoff"}
            np.testing.assert_array_equal(
                average_precision(ranking.astype(dtype), relevant, kind="ranking", **options),
                average_precision(scores, relevant, ties="stable", **options),
            )


def test_a_ranking_cut_short_holds_the_hits_it_lists():
    relevant = [[True, False, True, True]] * 2
    ranking = [[2, 1, 0], [1, -1, -1]]
    result = average_precision(ranking, relevant, kind="ranking", denominator="all")
    np.testing.assert_allclose(result, [(1 + 2 / 3) / 3, 0.0])
    result = average_precision(ranking, relevant, kind="ranking", denominator="hits")
    np.testing.assert_allclose(result, [(1 + 2 / 3) / 2, 0.0])
    np.testing.assert_allclose(precision_at(ranking, relevant, 4, kind="ranking"), [2 / 4, 0.0])


SCORES, RELEVANT = [[3.0, 2.0, 1.0]], [[True, False, True]]


@pytest.mark.parametrize(
    ("scores", "relevant", "options", "message"),
    [
        ([[1.0, np.nan, 0.0]], RELEVANT, {}, "query 0 have a NaN"),
        ([[1.0, 2.0]], RELEVANT, {}, r"scores have shape \(1, 2\), relevant \(1, 3\)"),
        (SCORES * 2, RELEVANT, {}, "must be the same"),
        (SCORES[0], RELEVANT, {}, "1 dimensions and relevant 2"),
        ([SCORES], [RELEVANT], {}, "3 dimensions"),
        (5.0, True, {}, "0 dimensions"),
        (np.empty((0, 3)), np.empty((0, 3)), {}, "no queries or no items"),
        (np.empty((3, 0)), np.empty((3, 0)), {}, "no queries or no items"),
        ([["a", "b", "c"]], RELEVANT, {}, "dtype <U1"),
        (np.array(SCORES, dtype=np.complex64), RELEVANT, {}, "dtype complex64"),
        (SCORES, [[1, 2, 0]], {}, "booleans or 0/1"),
        (SCORES, [[0.5, 1, 0]], {}, "booleans or 0/1"),
        (SCORES, [["a", "b", "c"]], {}, "booleans or 0/1"),
        (SCORES, RELEVANT, {"cutoff": 0}, "cutoff must be a whole number of at least 1, got 0"),
        (SCORES, RELEVANT, {"cutoff": 2.5}, "cutoff"),
        (SCORES, RELEVANT, {"denominator": "most"}, "'hits', 'cutoff', 'all', got 'most'"),
        (SCORES, RELEVANT, {"ties": "random"}, "'expected', 'stable', got 'random'"),
        (SCORES, RELEVANT, {"kind": "order"}, "'scores', 'distances', 'ranking'"),
        (SCORES, RELEVANT, {"kind": "ranking"}, "row numbers of the database"),
        ([[0, 3]], RELEVANT, {"kind": "ranking"}, "rows 0 to 2"),
        ([[-2, 0]], RELEVANT, {"kind": "ranking"}, "rows 0 to 2"),
        ([[0, -1, 1]], RELEVANT, {"kind": "ranking"}, "then -1"),
        ([[0, 0]], RELEVANT, {"kind": "ranking"}, "query 0 lists an item twice"),
    ],
)
def test_input_that_cannot_be_ranked_is_rejected(scores, relevant, options, message):
    with pytest.raises(InvalidInputError, match=message):
        average_precision(scores, relevant, **options)


def test_sparse_input_is_rejected():
    sparse = sp.csr_array(np.eye(3))
    with pytest.raises(InvalidInputError, match="dense"):
        average_precision(np.eye(3), sparse)


def test_a_mean_over_no_query_is_rejected():
    with pytest.raises(InvalidInputError, match="relevant"):
        mean_average_precision([[1, 2]], [[False, False]])
    assert mean_average_precision([[1, 2]], [[False, False]], empty="zero") == 0.0
    with pytest.raises(InvalidInputError, match="drop"):
        mean_average_precision(SCORES, RELEVANT, empty="drop")


@pytest.mark.parametrize("top_n", [0, [], [1, 0], 1.5])
def test_precision_at_zero_is_rejected(top_n):
    with pytest.raises(InvalidInputError, match="top_n"):
        precision_at(SCORES, RELEVANT, top_n)
