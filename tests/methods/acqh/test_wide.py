import numpy as np
import pytest
import scipy.sparse as sp

import acqh
from acqh.errors import InvalidInputError
from acqh.methods.acqh.paper import PaperProblem, solve_label_map

N_ITEMS, N_FEATURES, N_LABELS = 40, 2_100, 4


def make_wide(seed=0):
    rng = np.random.default_rng(seed)
    image = sp.random_array((N_ITEMS, N_FEATURES), density=0.02, rng=rng, format="csr")
    labels = np.eye(N_LABELS, dtype=np.uint8)[rng.integers(0, N_LABELS, N_ITEMS)]
    return {"image": image, "text": rng.normal(size=(N_ITEMS, 6))}, labels


def test_more_features_than_items_are_solved_in_the_items_space_with_the_same_result():
    views, labels = make_wide()
    full = acqh.MultiViewData({"image": views["image"]}, labels)
    # Strengths are relative to the mean of as many diagonal entries as there are features.
    ridge = 0.01
    settings = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0}
    primal = acqh.ACQH(4, ridge=ridge * N_FEATURES / N_ITEMS, **settings).fit(iter([full]))
    dual = acqh.ACQH(4, ridge=ridge, **settings).fit(full)
    assert primal.stats_.views["image"].n_features == N_FEATURES
    assert dual.stats_.views["image"].n_features == N_ITEMS
    assert dual.n_features_in_ == {"image": N_FEATURES}
    queries = make_wide(1)[0]["image"]
    expected = primal.project(queries, view="image")
    np.testing.assert_allclose(dual.project(queries, view="image"), expected, atol=1e-8)
    items = {"image": queries}
    np.testing.assert_allclose(dual.embed(items), primal.embed(items), atol=1e-8)


def test_a_model_of_wide_data_is_saved_and_loaded(tmp_path):
    views, labels = make_wide()
    model = acqh.ACQH(4, n_codebooks=2, random_state=0).fit(views, labels)
    model.save(tmp_path / "wide.acqh")
    again = acqh.load(tmp_path / "wide.acqh")
    np.testing.assert_array_equal(again.encode(views), model.encode(views))


def test_partial_fit_on_wide_data_is_rejected_and_forget_works():
    views, labels = make_wide()
    model = acqh.ACQH(4, n_codebooks=2, random_state=0).fit(views, labels)
    with pytest.raises(InvalidInputError, match="'image' had more features than items"):
        model.partial_fit(views, labels)
    few = {view: matrix[:3] for view, matrix in views.items()}
    assert model.forget(few, labels[:3]).stats_.n_items == N_ITEMS - 3


def test_more_labels_than_label_sets_give_the_same_label_map():
    rng = np.random.default_rng(0)
    labels = (rng.random((7, 30)) < 0.3).astype(float)
    counts = rng.integers(1, 5, 7).astype(float)
    problem = PaperProblem(np.eye(7), counts, np.eye(7), 1.0, labels, 0.5, 0.2)
    targets = rng.normal(size=(7, 3))
    weighted = labels.T * counts
    expected = np.linalg.solve(weighted @ labels + 0.4 * np.eye(30), weighted @ targets)
    np.testing.assert_allclose(solve_label_map(problem, targets), expected, atol=1e-12)
