import numpy as np
import pytest

import acqh
from acqh.bench import evaluate, make_split
from acqh.bench.running.evaluate import measure
from acqh.errors import InvalidInputError
from acqh.methods import CVH
from acqh.methods.baselines.binary import pack_signs
from acqh.methods.baselines.label_ridge import LabelRidge
from acqh.metrics import mean_average_precision, relevance


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(
        300, widths={"image": 8, "text": 9, "sound": 5}, n_labels=3, random_state=1
    )


def test_every_ordered_pair_of_views_is_a_direction(data):
    rows = evaluate(LabelRidge(), data, make_split(data, "labelled"))
    assert {row.direction for row in rows} == {
        "image->text", "image->sound", "text->image", "text->sound", "sound->image", "sound->text",
    }  # fmt: skip


def test_results_equal_the_metric_on_all_scores(data):
    split = make_split(data, "unlabelled", seed=3)
    rows = evaluate(LabelRidge(), data, split, database="fused")
    parts = split.parts(data)
    ridge = LabelRidge().fit(parts.train)
    codes = ridge.encode(dict(parts.database.views))
    for row in rows:
        view = row.direction.partition("->")[0]
        scores = ridge.project(parts.query.views[view], view=view) @ codes.T
        relevant = relevance(parts.query.labels, parts.database_labels)
        assert row.map_all == pytest.approx(mean_average_precision(scores, relevant), abs=1e-6)
        assert (row.n_query, row.n_database) == (len(split.query), len(split.database))


def _search_bits(_, codes, queries):
    return acqh.HammingIndex(4).add(codes).search(pack_signs(queries), k=len(codes)).ids


def _search_words(method, codes, queries):
    return acqh.CodeIndex(method.codebooks_).add(codes).search(queries, k=len(codes)).ids


@pytest.mark.parametrize(
    ("method", "search"),
    [
        (CVH(4), _search_bits),
        (acqh.ACQH(8, n_codebooks=2, random_state=0), _search_words),
    ],
    ids=["binary", "additive"],
)
def test_the_timed_and_stored_ranking_is_a_search_of_the_index(data, method, search):
    split = make_split(data, "unlabelled")
    parts = split.parts(data)
    fitted = method.fit(parts.train)
    row, _, ranking = measure(fitted, split, parts, "fused", 0.0)[0]
    codes = fitted.encode(dict(parts.database.views), mode="fused")
    view = row.direction.partition("->")[0]
    queries = fitted.embed_queries(parts.query.views[view], view=view)
    np.testing.assert_array_equal(ranking, split.database[search(fitted, codes, queries)])


def test_labels_of_an_unlabelled_database_are_rejected(data):
    with pytest.raises(InvalidInputError, match="hides"):
        evaluate(LabelRidge(), data, make_split(data, "unlabelled"), database="training")
    with pytest.raises(InvalidInputError, match="fused"):
        evaluate(LabelRidge(), data, make_split(data, "unlabelled"), database="guessed")


def test_equal_codes_score_equal_to_the_last_bit(data):
    split = make_split(data, "labelled")
    row = evaluate(LabelRidge(), data, split)[0]
    assert row.n_codes == len(np.unique(data.subset(split.train).labels, axis=0))
