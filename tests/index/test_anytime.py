"""A search that stops early reports whether its result is exact and what it may have missed."""

import numpy as np
import numpy_reference as reference
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh import CodeIndex
from acqh.errors import InvalidInputError
from acqh.scale import open_shards


def all_scores(index, queries):
    """Score every item of an index, in the order of its ids."""
    codewords = np.asarray(index.codebooks).transpose(0, 2, 1)
    tables = reference.tables_of(codewords, np.asarray(queries, dtype=np.float32))
    return reference.score_codes(tables, index.codes)


def assert_certified(result, scores, ids, k):
    """Compare what a result says of itself with the scores of all items that may be found."""
    for row, one in enumerate(scores):
        best = reference.best_rows(one, k)
        count = result.counts[row]
        actual = result.ids[row, :count]
        place = {identifier: number for number, identifier in enumerate(ids)}
        rows = np.array([place[identifier] for identifier in actual], dtype=np.int64)
        np.testing.assert_array_equal(result.scores[row, :count], one[rows])
        missing = np.setdiff1d(np.arange(len(ids)), rows)
        assert one[missing].max(initial=-np.inf) <= result.bound[row]
        if result.exact[row]:
            np.testing.assert_array_equal(rows, best)
            last = one[best[-1]] if len(best) == k else -np.inf
            assert result.bound[row] == last


@st.composite
def cases(draw):
    """An index in several parts, some items removed, and queries; whole numbers make ties."""
    m, n = draw(st.integers(1, 9)), draw(st.sampled_from([2, 5, 16, 256]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_items = draw(st.sampled_from([1, 40, 700, 3000]))
    codebooks = rng.standard_normal((m, n, 3)) * np.geomspace(1, 0.2, m)[:, None, None]
    queries = rng.standard_normal((3, 3))
    if draw(st.booleans()):
        codebooks, queries = np.round(3 * codebooks), np.round(queries)
    codebooks += draw(st.sampled_from([0, 3, 1e4]))
    codebooks *= draw(st.sampled_from([1, 1e-42, 1e-20, 1e18]))
    codes = rng.integers(n, size=(n_items, m))
    if draw(st.booleans()):
        codes = codes[rng.integers(max(n_items // 9, 1), size=n_items)]
    index = CodeIndex(codebooks).add(codes[: n_items // 2]).add(codes[n_items // 2 :])
    if draw(st.booleans()):
        index.remove(index.ids[rng.random(n_items) < 0.3])
    return index, queries, rng


STOPS = st.one_of(
    st.fixed_dictionaries({"budget": st.sampled_from([1, 2, 10, 100, 1000])}),
    st.fixed_dictionaries({"recall": st.sampled_from([0.01, 0.5, 0.95, 1])}),
    st.just({"budget": 50, "recall": 0.9}),
)


@given(case=cases(), stop=STOPS, k=st.sampled_from([1, 3, 10, 1000]), filtered=st.booleans())
def test_certificates_are_never_wrong(case, stop, k, filtered):
    index, queries, rng = case
    allowed = rng.random(len(index)) < 0.5 if filtered else np.ones(len(index), dtype=bool)
    result = index.search(queries, k, filter=allowed if filtered else None, **stop)
    scores = all_scores(index, queries)[:, allowed]
    assert_certified(result, scores, index.ids[allowed].tolist(), k)
    assert (result.n_scored <= result.n_scanned).all()
    if "budget" in stop:
        # Each part may round its share up.
        assert (result.n_scanned <= stop["budget"] + 8).all()


@given(case=cases(), stop=STOPS, k=st.sampled_from([1, 3, 10, 1000]), filtered=st.booleans())
def test_fewer_than_k_hits_mean_fewer_items_or_a_spent_budget(case, stop, k, filtered):
    index, queries, rng = case
    allowed = rng.random(len(index)) < (0.5 if filtered else 1)
    result = index.search(queries, k, filter=allowed if filtered else None, **stop)
    complete = result.counts == min(k, allowed.sum())
    if "budget" in stop:
        complete |= result.n_scanned >= min(stop["budget"], len(set(map(bytes, index.codes))))
    assert complete.all()


@given(case=cases(), k=st.sampled_from([1, 10, 1000]))
def test_a_budget_for_all_codes_gives_the_exact_answer(case, k):
    index, queries, _ = case
    exact = index.search(queries, k)
    assert exact.exact.all()
    np.testing.assert_array_equal(exact.bound, exact.scores[:, -1])
    result = index.search(queries, k, budget=3 * max(len(index), 1))
    assert result.exact.all()
    for name in ("ids", "scores", "counts", "bound"):
        np.testing.assert_array_equal(getattr(result, name), getattr(exact, name))


@pytest.fixture(scope="module")
def clustered():
    """Eight codebooks, each half as wide as the one before, over runs of several items."""
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((8, 64, 12)) / 1.6 ** np.arange(8)[:, None, None]
    codes = rng.integers(64, size=(40_000, 8))
    return CodeIndex(codebooks).add(codes), rng.standard_normal((20, 12))


def test_norm_bounds_prune_most_codes(clustered):
    index, queries = clustered
    result = index.search(queries, 10)
    assert result.n_scored.mean() < 0.02 * len(index)
    assert (result.n_scored >= 10).all()
    without = CodeIndex(index.codebooks).add(index.codes)
    part = without._snapshot.parts[0]
    assert len(part.segment.lists.norm_bounds) == len(part.segment.lists.starts) - 1


def test_groups_with_low_bounds_are_skipped(clustered):
    index, queries = clustered
    result = index.search(queries, 10)
    assert (result.n_scanned >= 10).all()
    # Fewer codes than the visited lists hold: some are pruned by their third codeword.
    part = index._snapshot.parts[0].segment
    runs = part.lists.starts.astype(int)
    traversal = index.codebooks[0][:, None] + index.codebooks[1][None]
    rest = index.codebooks[2:].astype(float)
    for query, threshold, n_scanned in zip(
        queries, result.scores[:, -1], result.n_scanned, strict=True
    ):
        prefix = (traversal @ query).ravel()
        most = prefix + np.max(rest @ query, axis=1).sum()
        assert n_scanned < np.diff(runs)[most >= threshold].sum()


def test_more_effort_finds_more_and_proves_more(clustered):
    index, queries = clustered
    exact = index.search(queries, 10)
    hits, proven = [], []
    for budget in (50, 500, 5000, 40_000):
        result = index.search(queries, 10, budget=budget)
        assert (result.n_scanned <= budget).all()
        hits.append(
            np.mean([np.isin(a, b).mean() for a, b in zip(result.ids, exact.ids, strict=True)])
        )
        proven.append(result.exact.mean())
    assert hits == sorted(hits)
    assert proven == sorted(proven)
    assert hits[-1] == proven[-1] == 1.0


@pytest.mark.parametrize("recall", [0.5, 0.9, 0.99])
def test_the_requested_recall_is_reached_on_average(clustered, recall):
    index, queries = clustered
    exact, result = index.search(queries, 10), index.search(queries, 10, recall=recall)
    hits = [np.isin(a, b).mean() for a, b in zip(result.ids, exact.ids, strict=True)]
    assert np.mean(hits) >= recall - 0.03
    assert result.n_scanned.mean() < exact.n_scanned.mean()


def test_answers_are_the_same_mapped_from_a_file_and_on_threads(clustered, tmp_path):
    index, queries = clustered
    index.save(tmp_path / "index")
    for stop in ({"budget": 300}, {"recall": 0.9}, {}):
        expected = index.search(queries, 10, n_threads=1, **stop)
        mapped = CodeIndex.load(tmp_path / "index", verify=True).search(
            queries, 10, n_threads=3, **stop
        )
        for name in ("ids", "scores", "counts", "n_scored", "n_scanned", "exact", "bound"):
            np.testing.assert_array_equal(getattr(mapped, name), getattr(expected, name))


def test_a_file_without_norm_bounds_gives_the_same_results(clustered, tmp_path):
    index, queries = clustered
    plain = CodeIndex(index.codebooks)
    plain._residuals = None
    plain.add(index.codes).save(tmp_path / "plain")
    loaded = CodeIndex.load(tmp_path / "plain", verify=True)
    assert len(loaded._snapshot.parts[0].segment.lists.norm_bounds) == 0
    result, expected = loaded.search(queries, 10), index.search(queries, 10)
    np.testing.assert_array_equal(result.ids, expected.ids)
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert result.n_scanned.mean() > expected.n_scanned.mean()


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ({"budget": 0}, "budget must be a whole number"),
        ({"budget": 1.5}, "budget must be a whole number"),
        ({"recall": 0}, "recall must be above 0 and at most 1, got 0"),
        ({"recall": 1.1}, "recall must be"),
        ({"recall": [0.5]}, "recall must be"),
    ],
)
def test_invalid_stopping_rules_are_rejected(stop, message):
    with pytest.raises(InvalidInputError, match=message):
        CodeIndex([[[1.0]]]).search([[1.0]], 1, **stop)


@given(case=cases(), stop=STOPS, k=st.sampled_from([1, 3, 10]))
def test_shards_together_certify_as_one_index_does(case, stop, k):
    index, queries, rng = case
    where = rng.integers(3, size=len(index))
    shards = [
        CodeIndex(index.codebooks).add(index.codes[where == number], index.ids[where == number])
        for number in range(3)
    ]
    together = open_shards(shards)
    order = np.concatenate([np.flatnonzero(where == number) for number in range(3)])
    scores = all_scores(index, queries)[:, order]
    ids = index.ids[order].tolist()
    assert_certified(together.search(queries, k, **stop), scores, ids, k)
    exact = together.search(queries, k)
    assert exact.exact.all()
    assert_certified(exact, scores, ids, k)
