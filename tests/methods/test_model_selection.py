"""scikit-learn's model selection works on methods, with paired data as X."""

import tracemalloc
from unittest.mock import create_autospec

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import acqh
from acqh.errors import LabelError

DATA = acqh.make_multiview(150, n_labels=4, random_state=0)


def test_cross_val_score_gives_a_figure_for_each_fold():
    scores = cross_val_score(acqh.ACQH(4, n_codebooks=2, random_state=0), DATA, cv=3)
    assert scores.shape == (3,)
    assert ((scores > 0.4) & (scores <= 1)).all()


def test_grid_search_finds_the_better_parameter():
    search = GridSearchCV(
        acqh.ACQH(n_codebooks=2, random_state=0), {"n_components": [1, 8]}, cv=2
    ).fit(DATA)
    assert search.best_params_ == {"n_components": 8}
    assert search.best_estimator_.codebooks_.shape[2] == 8


def test_other_methods_score_too():
    model = acqh.methods.get("dch")(8, random_state=0).fit(DATA)
    assert 0 < model.score(DATA) <= 1
    views = {"image": DATA.views["image"]}
    single = acqh.ACQH(4, n_codebooks=2, random_state=0).fit(views, DATA.labels)
    assert single.score(views, DATA.labels) > np.mean(DATA.labels @ DATA.labels.T > 0)


def test_a_score_needs_labels():
    model = acqh.ACQH(4, n_codebooks=2, random_state=0).fit(DATA)
    with pytest.raises(LabelError, match="a score needs labels"):
        model.score(DATA.without_labels())


class CountedQueries(acqh.ACQH):
    n_queries = 0

    def embed_queries(self, X, *, view):
        self.n_queries += X.shape[0]
        return super().embed_queries(X, view=view)


def test_a_score_takes_two_thousand_queries_a_view_and_bounded_memory():
    data = acqh.make_multiview(3_999, random_state=0)
    model = CountedQueries(4, n_codebooks=1, codebook_size=8, random_state=0).fit(data)
    tracemalloc.start()
    model.score(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_queries == 2 * 2_000
    # All scores of a view at once are 64 MB in float64.
    assert peak < 100e6


def test_a_score_in_blocks_of_queries_is_that_of_all_at_once(monkeypatch):
    model = acqh.ACQH(4, n_codebooks=2, random_state=0).fit(DATA)
    full = model.score(DATA)
    monkeypatch.setattr("acqh.methods.base._MAX_SCORES", 3 * len(DATA))
    assert model.score(DATA) == pytest.approx(full, rel=1e-12)


def test_a_mock_specified_by_the_class_has_the_methods_of_scikit_learn():
    assert create_autospec(acqh.ACQH).get_params
