"""scikit-learn's own model selection works on methods, with paired data as X."""

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
