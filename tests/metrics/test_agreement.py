"""Comparison with other implementations on rankings that both define equally."""

import ir_measures
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from acqh.metrics import (
    average_precision,
    mean_average_precision,
    precision_at,
    relevance,
)

CUTOFFS = (1, 5, 17)


@pytest.fixture(scope="module")
def tie_free():
    """Return scores without ties, and relevance, of 30 queries on 60 items."""
    rng = np.random.default_rng(0)
    queries, database = rng.random((30, 6)) < 0.3, rng.random((60, 6)) < 0.3
    queries[:, 0] |= ~queries.any(axis=1)
    scores = rng.permuted(np.tile(np.arange(60.0), (30, 1)), axis=1)
    return scores, relevance(queries, database)


def ir_values(measure, scores, grades):
    names = [f"{item:02d}" for item in range(scores.shape[1])]
    judged = {str(q): dict(zip(names, row.tolist(), strict=True)) for q, row in enumerate(grades)}
    run = {str(q): dict(zip(names, row.tolist(), strict=True)) for q, row in enumerate(scores)}
    values = {m.query_id: m.value for m in ir_measures.iter_calc([measure], judged, run)}
    return [values[str(q)] for q in range(len(scores))]


def test_average_precision_of_all_agrees_with_scikit_learn(tie_free):
    scores, relevant = tie_free
    theirs = [average_precision_score(r, s) for s, r in zip(scores, relevant, strict=True)]
    for denominator in ("hits", "cutoff", "all"):
        ours = average_precision(scores, relevant, denominator=denominator)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_average_precision_at_a_cutoff_divided_by_all_agrees_with_trec_eval(tie_free):
    scores, relevant = tie_free
    for cutoff in CUTOFFS:
        ours = average_precision(scores, relevant, cutoff=cutoff, denominator="all")
        theirs = ir_values(ir_measures.AP @ cutoff, scores, relevant.astype(int))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_precision_agrees_with_trec_eval(tie_free):
    scores, relevant = tie_free
    ours = precision_at(scores, relevant, CUTOFFS)
    for column, cutoff in zip(ours.T, CUTOFFS, strict=True):
        theirs = ir_values(ir_measures.P @ cutoff, scores, relevant.astype(int))
        np.testing.assert_allclose(column, theirs, rtol=1e-12)


def test_constant_scores_on_wiki_are_at_chance(data_dir):
    with np.load(data_dir / "wiki.npz") as wiki:
        labels, database, queries = wiki["labels"], wiki["train_idx"], wiki["test_idx"]
    relevant = relevance(labels[queries], labels[database])
    constant = np.zeros(relevant.shape, dtype=np.int8)
    assert mean_average_precision(constant, relevant) == pytest.approx(0.1114, abs=5e-5)
    assert mean_average_precision(constant, relevant, cutoff=50) == pytest.approx(0.1715, abs=1e-4)
