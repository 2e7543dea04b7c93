import numpy as np
import pytest

from acqh.errors import InvalidInputError
from acqh.metrics import (
    PrecisionRecallCurve,
    RetrievalMetrics,
    average_precision,
    mean_average_precision,
    precision_at,
    precision_recall_by_radius,
    precision_recall_curve,
)

N_BITS = 8


@pytest.fixture
def block():
    """Return Hamming distances and relevance of 12 queries on 30 items, query 5 empty."""
    rng = np.random.default_rng(0)
    relevant = rng.random((12, 30)) < 0.3
    relevant[5] = False
    # Queries differ in the radius at which they find anything, so that some find nothing.
    nearest = np.arange(12)[:, None] % 4
    distances = np.minimum(rng.integers(1, N_BITS, (12, 30)) + nearest, N_BITS)
    # One query has a single relevant item, and finds it alone.
    relevant[2] = np.arange(30) == 4
    distances[2] = np.where(relevant[2], 1, N_BITS)
    return distances, relevant


@pytest.mark.parametrize("empty", ["skip", "zero"])
@pytest.mark.parametrize("denominator", ["hits", "cutoff", "all"])
def test_blocks_of_queries_give_the_result_of_all_queries(block, denominator, empty):
    distances, relevant = block
    metrics = RetrievalMetrics(
        (None, 5, 100), top_n=(1, 7, 50), curve=True, denominator=denominator, empty=empty,
        kind="distances",
    )  # fmt: skip
    for rows in (slice(0, 5), 5, slice(6, 12)):
        metrics.update(distances[rows], relevant[rows])
    result = metrics.result()
    assert (result.n_queries, result.n_empty, result.n_database) == (12, 1, 30)
    for cutoff in (None, 5, 100):
        options = {"cutoff": cutoff, "denominator": denominator, "kind": "distances"}
        np.testing.assert_array_equal(
            result.average_precision[cutoff], average_precision(*block, **options)
        )
        assert result.mean_average_precision[cutoff] == pytest.approx(
            mean_average_precision(*block, empty=empty, **options)
        )
    n_counted = 11 if empty == "skip" else 12
    precision = precision_at(distances, relevant, (1, 7, 50), kind="distances")
    np.testing.assert_allclose(result.precision, precision.sum(axis=0) / n_counted)
    curve = precision_recall_curve(*block, empty=empty, kind="distances")
    np.testing.assert_allclose(result.curve.precision, curve.precision)
    np.testing.assert_allclose(result.curve.recall, curve.recall)


def test_the_curve_by_rank_averages_precision_and_recall_over_queries(block):
    distances, relevant = block
    order = np.argsort(distances, axis=1, kind="stable")
    hits = np.take_along_axis(relevant, order, axis=1).cumsum(axis=1)
    counted = np.delete(np.arange(12), 5)
    curve = precision_recall_curve(*block, ties="stable", kind="distances")
    assert (curve.n_queries, curve.n_empty) == (12, 1)
    np.testing.assert_allclose(curve.precision, (hits / np.arange(1, 31))[counted].mean(axis=0))
    recall = hits[counted] / relevant[counted].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(curve.recall, recall.mean(axis=0))


def test_a_result_names_its_choices(block):
    result = (
        RetrievalMetrics(denominator="all", ties="stable", empty="zero").update(*block).result()
    )
    assert (result.denominator, result.ties, result.empty) == ("all", "stable", "zero")
    assert result.curve is None
    assert result.precision.size == 0


def test_the_curve_of_short_rankings_ends_where_they_end():
    relevant = [[True, True, False, False]]
    metrics = RetrievalMetrics((), top_n=(4,), curve=True, kind="ranking")
    result = metrics.update([[0, 3]], relevant).result()
    np.testing.assert_allclose(result.curve.precision, [1.0, 0.5])
    np.testing.assert_allclose(result.curve.recall, [0.5, 0.5])
    np.testing.assert_allclose(result.precision, [0.25])


def test_a_rejected_block_leaves_the_results_unchanged(block):
    distances, relevant = block
    metrics = RetrievalMetrics(top_n=(3,), kind="distances").update(*block)
    before = metrics.result()
    bad = distances.astype(float)
    bad[-1, 0] = np.nan
    for scores, truth in ((bad, relevant), (distances[:, :9], relevant[:, :9])):
        with pytest.raises(InvalidInputError):
            metrics.update(scores, truth)
    after = metrics.result()
    assert after.mean_average_precision == before.mean_average_precision
    np.testing.assert_array_equal(after.precision, before.precision)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cutoffs": (0,)}, "cutoff"),
        ({"top_n": (0,)}, "top_n"),
        ({"denominator": "none"}, "denominator"),
        ({"ties": "none"}, "ties"),
        ({"empty": "none"}, "empty"),
        ({"kind": "none"}, "kind"),
    ],
)
def test_unknown_choices_are_rejected_at_once(options, message):
    with pytest.raises(InvalidInputError, match=message):
        RetrievalMetrics(**options)


def test_results_without_a_query_are_rejected():
    with pytest.raises(InvalidInputError, match="no query was given"):
        RetrievalMetrics().result()
    with pytest.raises(InvalidInputError, match="relevant"):
        RetrievalMetrics().update([[1, 2]], [[False, False]]).result()
    with pytest.raises(InvalidInputError, match="relevant"):
        precision_recall_by_radius([[1, 2]], [[False, False]], 4)


def test_interpolation_follows_its_definition():
    curve = PrecisionRecallCurve(
        precision=np.array([1.0, 0.5, 2 / 3, 0.5, np.nan]),
        recall=np.array([0.25, 0.25, 0.5, 0.5, 0.9]),
        n_queries=1,
        n_empty=0,
    )
    levels = [0.0, 0.25, 0.375, 0.5, 0.6]
    np.testing.assert_allclose(
        curve.interpolate(levels), [1.0, 1.0, (1 + 2 / 3) / 2, 2 / 3, np.nan]
    )
    np.testing.assert_allclose(
        curve.interpolate(levels, how="max"), [1.0, 1.0, 2 / 3, 2 / 3, np.nan]
    )
    with pytest.raises(InvalidInputError, match="how"):
        curve.interpolate(levels, how="cubic")


def radius_oracle(distances, relevant, *, average, no_result, empty):
    """Compute both averages from their definitions, a radius at a time."""
    if empty == "skip":
        has_relevant = relevant.any(axis=1)
        distances, relevant = distances[has_relevant], relevant[has_relevant]
    nothing = 0.0 if no_result == "zero" else np.nan
    precision, recall = [], []
    for radius in range(N_BITS + 1):
        inside = distances <= radius
        hits = inside & relevant
        if average == "micro":
            precision.append(hits.sum() / inside.sum() if inside.any() else nothing)
            recall.append(hits.sum() / relevant.sum())
            continue
        shares = [
            h.sum() / i.sum() if i.any() else nothing for h, i in zip(hits, inside, strict=True)
        ]
        precision.append(np.nan if np.isnan(shares).all() else np.nanmean(shares))
        recall.append(
            np.mean([h.sum() / max(r.sum(), 1) for h, r in zip(hits, relevant, strict=True)])
        )
    return precision, recall


@pytest.mark.parametrize("empty", ["skip", "zero"])
@pytest.mark.parametrize("no_result", ["skip", "zero"])
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_the_curve_by_radius_follows_its_definition(block, average, no_result, empty):
    distances, relevant = block
    options = {"average": average, "no_result": no_result, "empty": empty}
    precision, recall = radius_oracle(distances, relevant, **options)
    curve = precision_recall_by_radius(distances.astype(np.uint8), relevant, N_BITS, **options)
    np.testing.assert_allclose(curve.precision, precision, rtol=1e-12)
    np.testing.assert_allclose(curve.recall, recall, rtol=1e-12)
    assert (curve.n_queries, curve.n_empty) == (12, 1)


def test_queries_that_are_all_empty_have_recall_zero_where_they_are_counted():
    curve = precision_recall_by_radius([[0, 1]], [[False, False]], 1, empty="zero")
    assert curve.recall.tolist() == [0.0, 0.0]
    assert curve.precision.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("distances", "options", "message"),
    [
        ([[0.0, 1.0]], {}, "integers, got dtype float64"),
        ([[0, 9]], {}, "between 0 and 8, got 0 to 9"),
        ([[-1, 0]], {}, "between 0 and 8"),
        ([[0, 1]], {"n_bits": 0}, "n_bits"),
        ([[0, 1]], {"average": "mean"}, "'micro', 'macro'"),
        ([[0, 1]], {"no_result": "one"}, "'zero', 'skip'"),
        ([[0, 1]], {"empty": "one"}, "'skip', 'zero'"),
    ],
)
def test_distances_that_are_not_hamming_are_rejected(distances, options, message):
    with pytest.raises(InvalidInputError, match=message):
        precision_recall_by_radius(distances, [[True, False]], **{"n_bits": N_BITS, **options})
