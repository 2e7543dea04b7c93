"""Update steps of methods that fit codes to labels: each is a minimum."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.methods.baselines import label_codes
from acqh.methods.baselines.binary import random_signs
from acqh.methods.baselines.rows import LabelSimilarity, Rows, ViewRidge

seeds = st.integers(0, 2**32 - 1)


def draw(seed):
    """Return a small problem: features of two views, labels with at least one a row, codes."""
    rng = np.random.default_rng(seed)
    n_items, n_bits = int(rng.integers(2, 12)), int(rng.integers(1, 6))
    L = (rng.random((n_items, 3)) < 0.3).astype(float)
    L[np.arange(n_items), rng.integers(3, size=n_items)] = 1.0
    features = {view: rng.normal(size=(n_items, 4)) for view in ("image", "text")}
    return rng, features, L, random_signs(rng, (n_items, n_bits))


@given(seeds)
def test_dch_codes_never_raise_the_objective(seed):
    _, features, L, B = draw(seed)
    views = ViewRidge({view: Rows(F) for view, F in features.items()}, 0.7, 0.1).fit(B)
    W, P = Rows(B).ridge(1.0)(L), views.projections
    result = label_codes.update_dch_codes(B, L, W, views.pull)
    before, after = (Rows(codes).ridge_loss(L, W, 1.0) + views.loss(codes) for codes in (B, result))
    assert after <= before + 1e-9
    expected = np.square(L - B @ W).sum() + np.square(W).sum()
    for view, F in features.items():
        expected += 0.7 * np.square(B - F @ P[view]).sum() + 0.07 * np.square(P[view]).sum()
    assert before == pytest.approx(expected)


@given(seeds)
def test_fdch_codes_are_the_best_of_all_signs(seed):
    rng, _, _, B = draw(seed)
    fitted, predicted, drift = rng.normal(size=B.shape), rng.normal(size=B.shape), rng.normal()
    result = label_codes.update_fdch_codes(B, fitted, np.array([[drift]]), predicted)

    def loss(codes, row):
        # The views' term less what does not depend on the codes.
        return np.square(codes - fitted[row] - drift).sum() - 2 * codes @ predicted[row]

    for row, codes in enumerate(result):
        best = min(loss(np.array(signs), row) for signs in product((-1.0, 1.0), repeat=len(codes)))
        assert loss(codes, row) == pytest.approx(best)


def test_fdch_drift_is_the_mean_that_codes_lie_off():
    rng, _, _, B = draw(5)
    fitted = rng.normal(size=B.shape)
    residual = B - fitted - label_codes.update_fdch_drift(B, fitted)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-12)


@given(seeds)
def test_adch_latent_vectors_are_the_minimum_and_codes_never_raise_it(seed):
    rng, features, L, B = draw(seed)
    similarity = LabelSimilarity.signed(L)
    U = {view: rng.normal(size=(B.shape[1], 4)) for view in features}
    V = label_codes.update_adch_latent(features, U, B, similarity, 0.8, 0.1)

    def loss(latent, codes=B):
        return label_codes.adch_objective(features, U, latent, codes, similarity, 0.8, 0.1)

    unit = L / np.linalg.norm(L, axis=1, keepdims=True)
    S = 2 * unit @ unit.T - 1
    expected = 0.8 * np.square(B.shape[1] * S - V @ B.T).sum() + 0.1 * np.square(V).sum()
    for view, F in features.items():
        expected += 0.5 * np.square(F - V @ U[view]).sum() + 0.1 * np.square(U[view]).sum()
    assert loss(V) == pytest.approx(expected)
    for _ in range(5):
        assert loss(V + 1e-2 * rng.normal(size=V.shape)) >= loss(V) - 1e-9
    assert loss(V, label_codes.update_adch_codes(B, V, similarity)) <= loss(V) + 1e-9


@given(seeds)
def test_dcmh_discrete_codes_never_raise_the_objective(seed):
    rng, features, L, B = draw(seed)
    other, F, n_bits = random_signs(rng, B.shape), features["image"], B.shape[1]
    similarity = LabelSimilarity.signed(L)
    W, P = Rows(B).ridge(1.0)(L), Rows(F).ridge(0.1)(B)
    result = label_codes.update_view_codes(
        B, other, similarity, 0.5 * L @ W.T, 0.2 * F @ P, 0.5 * W @ W.T
    )

    def loss(codes):
        total = similarity.distance_to_product(float(n_bits), codes, other)
        total += 0.5 * np.square(L - codes @ W).sum()
        return total + 0.2 * np.square(codes - F @ P).sum()

    assert loss(result) <= loss(B) + 1e-9


def test_dcmh_discriminant_codes_are_the_signs_of_the_real_minimum():
    rng, _, L, B = draw(7)
    W = rng.normal(size=(B.shape[1], 3))
    Z = L @ W.T @ np.linalg.inv(W @ W.T + 0.3 * np.eye(len(W)))
    np.testing.assert_array_equal(label_codes.round_codes(B, L, W, 0.3), np.sign(Z))
