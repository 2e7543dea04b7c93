"""CCQ and stacked quantizers: exact steps, exact norms, the same ranking in an index."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import acqh
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.baselines.additive import (
    CCQ,
    Stacked,
    ccq_objective,
    regress_views,
    update_codebooks,
    update_rotation,
)
from acqh.methods.baselines.rows import Rows
from acqh.quantize import decode

seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(200, {"image": 12, "text": 8}, n_labels=4, random_state=0)


@given(seeds)
def test_standard_rows_are_the_standardised_matrix(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, size=(12, 4)) * (rng.random((12, 4)) < 0.7)
    X[:, 1] = rng.choice([0.0, 0.1, 7.0])
    deviation = X.std(axis=0)
    deviation[1] = np.inf
    expected = 0.5 * (X - X.mean(axis=0)) / deviation
    targets = rng.normal(size=(12, 2))
    for matrix in (X, sp.csr_array(X)):
        rows = Rows(matrix, scale=0.5)
        np.testing.assert_allclose(rows.times(np.eye(4)), expected, atol=1e-9)
        np.testing.assert_allclose(rows.transpose_times(targets), expected.T @ targets, atol=1e-9)
        assert rows.squared_norm == pytest.approx(np.sum(expected**2))
        result = regress_views({"a": rows}, targets, 0.1)
        coefficients, intercept = result["projections_"]["a"], result["intercepts_"]["a"]
        gram = expected.T @ expected + 0.1 * np.eye(4)
        predicted = expected @ np.linalg.solve(gram, expected.T @ targets)
        np.testing.assert_allclose(X @ coefficients + intercept, predicted, atol=1e-8)


@given(seeds)
def test_ccq_rotations_and_codebooks_never_raise_the_objective(seed):
    rng = np.random.default_rng(seed)
    views = {"a": rng.normal(size=(40, 5)), "b": rng.normal(size=(40, 3))}
    rows = {view: Rows(matrix, scale=1.0) for view, matrix in views.items()}
    weights = {"a": 0.3, "b": 0.7}
    codes = rng.integers(4, size=(40, 2)).astype(np.uint8)
    codebooks = rng.normal(size=(2, 4, 3))
    R = {view: np.linalg.qr(rng.normal(size=(len(m.T), 3)))[0] for view, m in views.items()}
    Z = decode(codes, codebooks)
    before = ccq_objective(rows, R, weights, Z)
    X = {view: X.times(np.eye(X.n_features)) for view, X in rows.items()}
    assert before == pytest.approx(
        sum(weights[view] * np.sum((X[view] - Z @ R[view].T) ** 2) for view in X)
    )
    R = {view: update_rotation(X, Z) for view, X in rows.items()}
    rotated = ccq_objective(rows, R, weights, Z)
    assert rotated <= before + 1e-9
    for rotation in R.values():
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-9)
    mean = sum(weights[view] * X.times(R[view]) for view, X in rows.items())
    codebooks, codes = update_codebooks(mean, codes, codebooks)
    assert ccq_objective(rows, R, weights, decode(codes, codebooks)) <= rotated + 1e-6


@pytest.mark.parametrize("method", [CCQ, Stacked])
def test_an_index_ranks_items_by_the_distance_of_the_method(method, data):
    model = method(2, 64, random_state=0).fit(data.views)
    codes = model.encode(data.views, mode="fused")
    assert codes.shape == (200, 3)
    assert model.bytes_per_item == 3
    decoded = model.decode(codes).astype(np.float64)
    vectors, norms = decoded[:, :-1], decoded[:, -1]
    spread = np.ptp(np.sum(vectors**2, axis=1))
    assert np.max(np.abs(norms - np.sum(vectors**2, axis=1))) < 0.05 * spread
    queries = model.project(data.views["text"][:5], view="text")
    np.testing.assert_array_equal(queries[:, -1], -0.5)
    distances = -2 * queries[:, :-1] @ vectors.T + norms
    index = acqh.index.CodeIndex(model.codebooks_).add(codes)
    result = index.search(queries, k=200)
    for row in range(5):
        ranked = distances[row, result.ids[row].astype(int)]
        assert np.all(np.diff(ranked) > -1e-4)


def test_ccq_goes_on_while_its_objective_falls(data):
    values = CCQ(3, 8, random_state=0).fit(data.views).objective_
    assert len(values) > 2
    assert all(after < before for before, after in pairwise(values[:-1]))


def test_ccq_components_are_eight_a_codebook_or_the_narrowest_view(data):
    assert CCQ(1, 4, random_state=0).fit(data.views).n_components_ == 8
    assert CCQ(2, 4, random_state=0).fit(data.views).n_components_ == 8
    assert CCQ(2, 4, n_components=3, random_state=0).fit(data.views).n_components_ == 3


@pytest.mark.parametrize("method", [CCQ, Stacked])
def test_sparse_features_give_the_fit_of_dense_ones(method, data):
    sparse = {view: sp.csr_array(matrix) for view, matrix in data.views.items()}
    dense_fit = method(2, 8, random_state=0).fit(data.views)
    sparse_fit = method(2, 8, random_state=0).fit(sparse)
    # Rounding may decide whether one more sweep helps, not where sweeps lead.
    assert sparse_fit.objective_[-1] == pytest.approx(dense_fit.objective_[-1], rel=1e-6)


def test_stacked_quantizes_one_view_or_all_and_rejects_unknown_views(data):
    assert Stacked(2, 8, random_state=0).fit(data.views).n_components_ == 20
    one = Stacked(2, 8, base_view="text", random_state=0).fit(data.views)
    assert one.n_components_ == 8
    few = Stacked(2, 8, n_components=5, random_state=0).fit(data.views)
    assert few.codebooks_.shape == (3, 8, 6)
    with pytest.raises(InvalidInputError, match="nothing to quantize"):
        Stacked(2, 8).fit({"text": np.ones((20, 3))})
    with pytest.raises(ViewError, match="base_view is 'sound'"):
        Stacked(base_view="sound").fit(data.views)
    alone = Stacked(2, 8, random_state=0).fit({"text": data.views["text"]})
    assert alone.encode({"text": data.views["text"]}).shape == (200, 3)


def test_more_codebooks_leave_less_error(data):
    errors = [Stacked(m, 8, random_state=0).fit(data.views).objective_[-1] for m in (1, 2, 4)]
    assert errors[0] > errors[1] > errors[2]


def test_unpaired_views_and_several_for_one_are_rejected(data):
    model = CCQ(2, 8, random_state=0).fit(data.views)
    with pytest.raises(ViewError, match="rows"):
        model.encode({"image": data.views["image"][:3], "text": data.views["text"]})
    with pytest.raises(InvalidInputError, match="takes one view"):
        model.encode(data.views, mode="single")


def test_all_principal_components_lose_nothing_of_the_standardised_views(data):
    model = Stacked(1, 8, n_components=None, random_state=0).fit(data.views)
    # One word for all would leave the variance, which is one a view.
    assert model.objective_[0] < 2 * len(data)
    full = Stacked(1, 2, n_components=None, max_iter=1, random_state=0).fit(data.views)
    few = Stacked(1, 2, n_components=2, max_iter=1, random_state=0).fit(data.views)
    assert few.objective_[-1] < full.objective_[-1]
