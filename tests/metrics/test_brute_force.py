"""Expectations over ties, compared with the mean over all orders."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.metrics import (
    average_precision,
    precision_at,
    precision_recall_curve,
)

DENOMINATORS = ("hits", "cutoff", "all")


def all_rankings(scores):
    """Yield every order of items by falling score, each arrangement of tied items once."""
    groups = [
        [item for item, score in enumerate(scores) if score == level]
        for level in sorted(set(scores), reverse=True)
    ]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [item for part in parts for item in part]


def plain_average_precision(ranked, cutoff, denominator):
    hits, total = 0, 0.0
    for place, hit in enumerate(ranked[:cutoff], start=1):
        if hit:
            hits += 1
            total += hits / place
    divisor = {"hits": hits, "cutoff": min(cutoff, sum(ranked)), "all": sum(ranked)}[denominator]
    return total / divisor if divisor else 0.0


def mean_over_rankings(scores, values, measure):
    results = [measure([values[item] for item in order]) for order in all_rankings(scores)]
    return np.mean(results, axis=0)


def compositions(n):
    """Yield the ways to cut n items into tie blocks, as scores."""
    for cuts in itertools.product((False, True), repeat=n - 1):
        yield [-level for level in itertools.accumulate((0, *cuts))]


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_average_precision_is_the_mean_over_tie_orders_for_every_small_ranking(denominator):
    patterns = [p for p in itertools.product((False, True), repeat=5) if any(p)]
    for scores in compositions(5):
        rows = np.tile(scores, (len(patterns), 1))
        for cutoff in range(1, 6):
            result = average_precision(rows, patterns, cutoff=cutoff, denominator=denominator)
            expected = [
                mean_over_rankings(
                    scores, p, lambda r, k=cutoff: plain_average_precision(r, k, denominator)
                )
                for p in patterns
            ]
            np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-15)


small_rankings = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.integers(1, n + 2),
    )
)


@given(small_rankings, st.sampled_from(DENOMINATORS))
def test_average_precision_is_the_mean_over_tie_orders(ranking, denominator):
    scores, grades, cutoff = ranking
    relevant = [grade > 1 for grade in grades]
    result = average_precision(scores, relevant, cutoff=cutoff, denominator=denominator)
    if not any(relevant):
        assert np.isnan(result)
        return
    expected = mean_over_rankings(
        scores, relevant, lambda ranked: plain_average_precision(ranked, cutoff, denominator)
    )
    assert result == pytest.approx(expected, rel=1e-13)


@given(small_rankings)
def test_precision_and_recall_at_each_rank_are_means_over_tie_orders(ranking):
    scores, grades, _ = ranking
    relevant = [grade > 1 for grade in grades]
    ranks = np.arange(1, len(scores) + 1)
    hits = mean_over_rankings(scores, relevant, np.cumsum)
    result = precision_at(scores, relevant, ranks)
    np.testing.assert_allclose(result, hits / ranks, rtol=1e-13)
    if any(relevant):
        curve = precision_recall_curve(scores, relevant)
        np.testing.assert_allclose(curve.precision, hits / ranks, rtol=1e-13)
        np.testing.assert_allclose(curve.recall, hits / sum(relevant), rtol=1e-13)


@given(small_rankings, st.sampled_from(DENOMINATORS))
def test_stable_ties_keep_database_order(ranking, denominator):
    scores, grades, cutoff = ranking
    relevant = [grade > 1 for grade in grades]
    order = sorted(range(len(scores)), key=lambda item: -scores[item])
    ranked = [relevant[item] for item in order]
    result = average_precision(
        scores, relevant, cutoff=cutoff, denominator=denominator, ties="stable"
    )
    if any(relevant):
        assert result == pytest.approx(
            plain_average_precision(ranked, cutoff, denominator), rel=1e-13
        )
    else:
        assert np.isnan(result)
