"""CMFH: each step is a minimum, and new items are encoded like training items."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import acqh
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.baselines.cmfh import CMFH, mix_views, update_basis
from acqh.methods.baselines.rows import Rows

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_no_small_change_lowers_the_objective_of_a_step(seed):
    rng = np.random.default_rng(seed)
    n_items, n_bits, widths = 15, int(rng.integers(1, 6)), {"a": 4, "b": 3}
    F = {v: rng.normal(size=(n_items, d)) for v, d in widths.items()}
    F = {v: f - f.mean(axis=0) for v, f in F.items()}
    V = rng.random((n_items, n_bits))
    weights, mu, gamma = {"a": 0.3, "b": 0.7}, 5.0, 0.1
    rows = {v: Rows(f, centre=True) for v, f in F.items()}
    U = {v: update_basis(r, V, gamma / weights[v]) for v, r in rows.items()}
    P = {v: Rows(f).ridge(gamma / mu)(V) for v, f in F.items()}

    def objective(U, P, V):
        return gamma * np.sum(V**2) + sum(
            weights[v] * np.sum((F[v] - V @ U[v]) ** 2)
            + mu * np.sum((V - F[v] @ P[v]) ** 2)
            + gamma * (np.sum(U[v] ** 2) + np.sum(P[v] ** 2))
            for v in F
        )

    def nudge(matrix):
        return matrix + 1e-3 * rng.normal(size=matrix.shape)

    mixes = mix_views(U, P, weights, mu, gamma)
    best_V = sum(F[v] @ mixes[v] for v in F)
    before = objective(U, P, V)
    assert objective({v: nudge(u) for v, u in U.items()}, P, V) > before
    assert objective(U, {v: nudge(p) for v, p in P.items()}, V) > before
    assert objective(U, P, best_V) <= before
    assert objective(U, P, nudge(best_V)) > objective(U, P, best_V)


def test_training_items_encoded_as_new_ones_get_their_training_codes():
    data = acqh.make_multiview(120, {"image": 9, "text": 12, "sound": 6}, random_state=0)
    model = CMFH(16, random_state=0).fit(data.views)
    np.testing.assert_array_equal(model.encode(data.views, mode="fused"), model.training_codes_)
    np.testing.assert_array_equal(model.encode(), model.training_codes_)


def test_sparse_features_give_the_objective_of_dense_ones():
    data = acqh.make_multiview(60, {"image": 9, "text": 12}, random_state=0)
    sparse = {view: sp.csr_array(matrix) for view, matrix in data.views.items()}
    dense_fit = CMFH(5, random_state=0, max_iter=3).fit(data.views)
    sparse_fit = CMFH(5, random_state=0, max_iter=3).fit(sparse)
    np.testing.assert_allclose(dense_fit.objective_, sparse_fit.objective_, rtol=1e-8)


def test_view_weights_are_shares_of_every_view():
    data = acqh.make_multiview(60, {"image": 9, "text": 12}, random_state=0)
    model = CMFH(4, view_weights={"text": 3, "image": 1}, random_state=0).fit(data.views)
    assert model.view_weights_ == {"image": 0.25, "text": 0.75}
    for wrong in ({"image": 1}, {"image": 1, "text": 0}, {"image": 1, "text": 1, "sound": 1}):
        with pytest.raises(InvalidInputError, match="for each of"):
            CMFH(4, view_weights=wrong).fit(data.views)


def test_unpaired_views_cannot_be_unified():
    data = acqh.make_multiview(60, {"image": 9, "text": 12}, random_state=0)
    model = CMFH(4, random_state=0).fit(data.views)
    views = {"image": data.views["image"][:5], "text": data.views["text"]}
    with pytest.raises(ViewError, match="rows"):
        model.encode(views, mode="fused")
