"""GSPH and SePH: codes of label similarities, and probabilities from several views."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import acqh
from acqh._core.arrays import unit_rows
from acqh.features import RBFAnchors
from acqh.methods.baselines import logistic
from acqh.methods.baselines.rows import LabelSimilarity

seeds = st.integers(0, 2**32 - 1)


def draw_labels(rng, n_items):
    labels = (rng.random((n_items, 4)) < 0.3).astype(float)
    labels[np.arange(n_items), rng.integers(4, size=n_items)] = 1.0
    return labels


@given(seeds)
def test_gsph_columns_are_exact_minima_in_the_box(seed):
    rng = np.random.default_rng(seed)
    n_items, n_bits = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    similarity = LabelSimilarity.cosine(draw_labels(rng, n_items))
    A, B = rng.uniform(-1, 1, (2, n_items, n_bits))
    result = logistic.update_factor(A, B, n_bits * (similarity @ B))
    before, after = (similarity.distance_to_product(n_bits, codes, B) for codes in (A, result))
    assert after <= before + 1e-9
    assert np.abs(result).max() <= 1.0
    # The last column was solved with all others as they are now.
    column = result[:, -1]
    for other in (column + 1e-3, column - 1e-3):
        moved = result.copy()
        moved[:, -1] = np.clip(other, -1, 1)
        assert similarity.distance_to_product(n_bits, moved, B) >= after - 1e-9


def test_gsph_leaves_a_column_alone_that_meets_nothing():
    A = np.array([[0.5, -0.2]])
    result = logistic.update_factor(A, np.array([[0.0, 1.0]]), np.array([[0.0, 0.3]]))
    np.testing.assert_allclose(result, [[0.5, 0.3]])


def divergence_slowly(H, labels):
    unit = unit_rows(labels)
    P = unit @ unit.T
    np.fill_diagonal(P, 0)
    P /= P.sum()
    N = 1 / (1 + 0.25 * np.square(H[:, None] - H[None]).sum(axis=2))
    np.fill_diagonal(N, 0)
    Q = N / N.sum()
    related = P > 0
    return -np.sum(P[related] * np.log(Q[related]))


@pytest.mark.parametrize("block_pairs", [1, 40, 10_000])
def test_the_divergence_and_its_gradient_are_independent_of_blocks(block_pairs, monkeypatch):
    monkeypatch.setattr(logistic, "_BLOCK_PAIRS", block_pairs)
    rng = np.random.default_rng(0)
    labels, H = draw_labels(rng, 9), rng.normal(size=(9, 3))
    value, gradient = logistic.divergence(H, unit_rows(labels))
    assert value == pytest.approx(divergence_slowly(H, labels))
    numeric = scipy.optimize.approx_fprime(
        H.ravel(), lambda flat: divergence_slowly(flat.reshape(H.shape), labels), 1e-6
    )
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-6)
    again = logistic.divergence(H, sp.csr_array(unit_rows(labels)))
    np.testing.assert_allclose(again[1], gradient, atol=1e-12)


def test_the_quantization_gradient_is_right():
    H = np.random.default_rng(1).normal(size=(4, 3))
    value, gradient = logistic.quantization(H, 0.5)
    assert value == pytest.approx(0.5 / 12 * np.square(np.abs(H) - 1).sum())
    numeric = scipy.optimize.approx_fprime(
        H.ravel(), lambda flat: logistic.quantization(flat.reshape(4, 3), 0.5)[0], 1e-7
    )
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-6)


def test_items_that_share_no_label_still_get_codes():
    value, gradient = logistic.divergence(np.eye(3), np.eye(3))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_gains_grow_while_a_coordinate_keeps_its_direction():
    gradient, step = np.array([1.0, 1.0]), np.array([-1.0, 1.0])
    new_step, gain = logistic.update_step(gradient, step, np.ones(2))
    np.testing.assert_allclose(gain, [1.2, 0.8])
    np.testing.assert_allclose(new_step, 0.5 * step - 500 * gain * gradient)
    assert logistic.update_step(gradient, step, np.full(2, 0.01))[1][1] == 0.01


@pytest.fixture(scope="module")
def data():
    widths = {"image": 10, "text": 8}
    return acqh.make_multiview(120, widths, n_labels=3, single_label=False, random_state=0)


def test_views_of_a_gsph_item_vote_with_their_probabilities(data):
    method = logistic.GSPH(8, n_anchors=20, random_state=0).fit(data)
    p = [expit(method.project(X, view=view)) for view, X in data.views.items()]
    expected = 0.5 * (2 * p[0] - 1) + 0.5 * (2 * p[1] - 1)
    np.testing.assert_array_equal(
        method.decode(method.encode(data.views, mode="fused")), np.where(expected >= 0, 1, -1)
    )


def test_views_of_a_seph_item_are_put_together_by_bayes(data):
    method = logistic.SePH(8, n_anchors=20, max_iter=20, random_state=0).fit(data)
    p, q = (expit(method.project(X, view=view)) for view, X in data.views.items())
    prior = expit(method.prior_log_odds_)
    expected = p * q / prior - (1 - p) * (1 - q) / (1 - prior)
    np.testing.assert_array_equal(
        method.decode(method.encode(data.views, mode="fused")), np.where(expected >= 0, 1, -1)
    )
    alone = {"image": data.views["image"]}
    np.testing.assert_array_equal(
        method.encode(alone, mode="fused"), method.encode(alone, mode="single")
    )


def test_seph_trains_on_a_sample_of_many_items(data):
    maps = RBFAnchors(1000, variant="rbf_mean")
    method = logistic.SePH(4, feature_maps=maps, max_train=30, max_iter=5, random_state=0).fit(data)
    assert method.feature_maps_["image"].anchors_.shape == (30, 10)


def test_the_linear_variant_works_on_sparse_words():
    data = acqh.make_multiview(
        90, {"image": 10, "text": 40}, n_labels=3, sparse=["text"], random_state=1
    )
    for cls in (logistic.GSPH, logistic.SePH):
        method = cls(8, feature_maps="bias", max_iter=20, random_state=0).fit(data)
        assert method.projections_["text"].shape == (41, 8)
        hashed = method.decode(method.hash(data.views["text"], view="text"))
        unified = method.decode(method.encode(data.views, mode="fused"))
        assert np.mean(hashed == unified) > 0.6
