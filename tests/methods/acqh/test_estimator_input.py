"""Input of the estimator: labels, view names, statistics and invalid values."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

import acqh
from acqh.errors import InvalidInputError, LabelError

SMALL = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(200, n_labels=4, single_label=False, random_state=0)


def test_a_model_without_statistics_raises_instead_of_restarting(data):
    model = acqh.ACQH(4, **SMALL).fit(data)
    projections = dict(model.projections_)
    del model.stats_
    for change in (model.partial_fit, model.forget):
        with pytest.raises(InvalidInputError, match=r"without its statistics"):
            change(data.subset(np.arange(30)))
    assert model.projections_ == projections


def test_an_unfitted_model_is_fitted_by_its_first_part(data):
    model = acqh.ACQH(4, **SMALL).partial_fit(data)
    assert model.stats_.n_items == len(data)


@pytest.mark.parametrize("targets", [None, {"labels": 0.5, "text": 0.5}])
def test_labels_of_the_data_are_used_in_encoding_as_in_fitting(data, targets):
    model = acqh.ACQH(4, targets=targets, **SMALL).fit(data)
    by_labels = model.encode(data.views, labels=data.labels)
    np.testing.assert_array_equal(model.encode(data), by_labels)
    np.testing.assert_array_equal(model.embed(data), model.embed(data.views, labels=data.labels))
    by_views = model.encode(data.views)
    assert np.any(by_views != by_labels)
    np.testing.assert_array_equal(model.encode(data, mode="fused"), by_views)
    np.testing.assert_array_equal(model.encode(data, labels=data.labels), by_labels)
    with pytest.raises(InvalidInputError, match="labels differ"):
        model.encode(data, labels=1 - data.labels)


def test_labels_of_other_names_are_not_mistaken_for_fitted_ones(data):
    model = acqh.ACQH(4, **SMALL).fit(data)
    other = acqh.MultiViewData(data.views, data.labels, label_names=["a", "b", "c", "d"])
    with pytest.raises(LabelError, match="label names differ"):
        model.encode(other)
    assert model.encode(other, mode="fused").shape == (200, 2)


def test_labels_that_are_no_target_are_ignored(data):
    model = acqh.ACQH(4, targets={"text": 1.0}, **SMALL).fit(data)
    np.testing.assert_array_equal(model.encode(data), model.encode(data.views))


def test_the_caption_weight_of_labels_cannot_be_estimated(data):
    targets = {"labels": acqh.Target(0.5, caption_weight="auto"), "text": 0.5}
    with pytest.raises(InvalidInputError, match=r"caption_weight='auto'"):
        acqh.ACQH(4, targets=targets, **SMALL).fit(data)


def test_the_gap_is_finite_above_a_bound_of_zero():
    labels = np.eye(2, dtype=np.uint8)[np.arange(40) % 2]
    model = acqh.ACQH(4, ridge=0.0, **SMALL).fit({"a": labels.astype(float)}, labels)
    assert abs(model.lower_bound_) < 1e-6
    assert 0 <= model.optimality_gap_ < 1


def test_counts_are_integers_and_not_booleans(data):
    for name in ("n_codebooks", "n_components", "codebook_size"):
        with pytest.raises(InvalidInputError, match=f"'{name}'.*[Gg]ot True"):
            acqh.ACQH(**{name: True}).fit(data)


def test_views_without_names_are_rejected_with_a_fix(data):
    matrices = list(data.views.values())
    for call in (
        lambda: acqh.ACQH().fit(matrices, data.labels),
        lambda: acqh.ACQH().fit(tuple(matrices)),
        lambda: acqh.ACQH().fit(matrices[0], data.labels),
        lambda: acqh.ACQH().fit([m.tolist() for m in matrices]),
    ):
        with pytest.raises(InvalidInputError, match=r"names to matrices.*\{'image': X"):
            call()


@pytest.mark.parametrize("views", [lambda m: m, lambda m: [m], sp.csr_array])
def test_items_without_view_names_are_rejected_with_a_fix(data, views):
    model = acqh.ACQH(4, **SMALL).fit(data)
    for labels in (None, data.labels):
        with pytest.raises(InvalidInputError, match=r"views as a mapping.*\{'image': X\}"):
            model.encode(views(data.views["image"]), labels=labels)
        with pytest.raises(InvalidInputError, match=r"views as a mapping.*\{'image': X\}"):
            model.embed(views(data.views["image"]), labels=labels)


def test_a_grid_search_accepts_labels_in_the_data_and_as_y(data):
    search = GridSearchCV(acqh.ACQH(4, **SMALL), {"similarity": ["dot", "shared"]}, cv=2)
    alone = search.fit(data).cv_results_["mean_test_score"]
    both = search.fit(data, data.labels).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(alone, both)
    model = acqh.ACQH(4, **SMALL).fit(data, data.labels)
    assert model.score(data, data.labels) == model.score(data)


def test_labels_that_contradict_the_data_are_rejected(data):
    with pytest.raises(InvalidInputError, match="labels differ"):
        acqh.ACQH(4, **SMALL).fit(data, 1 - data.labels)
