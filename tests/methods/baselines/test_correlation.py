"""CVH and SCM, and the eigenproblems and centred products they share."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import acqh
from acqh._core.linalg import whiten
from acqh.errors import FewerBitsWarning, InvalidInputError, ViewError
from acqh.methods.baselines.correlation import (
    CVH,
    SCMOrth,
    SCMSeq,
    couple_pairs,
    joint_directions,
    leading_pair,
    paired_directions,
    semantic_cross,
)
from acqh.methods.baselines.rows import Rows

seeds = st.integers(0, 2**32 - 1)


def draw_views(seed, n_views=2):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(12, 30))
    latent = rng.normal(size=(n_items, 2))
    views = []
    for _ in range(n_views):
        width = int(rng.integers(1, 5))
        views.append(latent @ rng.normal(size=(2, width)) + rng.normal(size=(n_items, width)) + 3)
    labels = (rng.random((n_items, 3)) < 0.4).astype(float)
    labels[:, 0] = np.maximum(labels[:, 0], labels.sum(axis=1) == 0)
    return views, labels


@given(seeds)
def test_centred_products_are_those_of_the_centred_matrix_dense_or_sparse(seed):
    (x, y), labels = draw_views(seed)
    x0, y0 = x - x.mean(axis=0), y - y.mean(axis=0)
    weights = labels.sum(axis=1)
    for left in (Rows(x, centre=True), Rows(sp.csr_array(x), centre=True)):
        for right in (Rows(y, centre=True), Rows(sp.csr_array(y), centre=True)):
            np.testing.assert_allclose(left.cross(right), x0.T @ y0, atol=1e-9)
        for given_labels in (labels, sp.csr_array(labels)):
            np.testing.assert_allclose(left.transpose_times(given_labels), x0.T @ labels, atol=1e-9)
        np.testing.assert_allclose(left.transpose_times(weights), x0.T @ weights, atol=1e-9)
        np.testing.assert_allclose(left.times(np.ones(x.shape[1])), x0.sum(axis=1), atol=1e-9)
        np.testing.assert_allclose(left.gram(), x0.T @ x0, atol=1e-9)


@given(seeds)
def test_paired_directions_solve_the_generalised_eigenproblem(seed):
    (x, y), _ = draw_views(seed)
    gram_x, gram_y, cross = x.T @ x, y.T @ y, x.T @ y
    a, b, r = paired_directions(whiten(gram_x), whiten(gram_y), cross)
    np.testing.assert_allclose(
        cross @ np.linalg.solve(gram_y, cross.T) @ a, gram_x @ a * r**2, atol=1e-7
    )
    np.testing.assert_allclose(b, np.linalg.solve(gram_y, cross.T) @ a / r, atol=1e-6)
    np.testing.assert_allclose(a.T @ gram_x @ a, np.eye(len(r)), atol=1e-8)


@given(seeds)
def test_two_views_have_the_same_joint_and_paired_directions(seed):
    (x, y), _ = draw_views(seed)
    rows = [Rows(x, centre=True), Rows(y, centre=True)]
    grams = [X.gram() for X in rows]
    joint, couplings = joint_directions(grams, couple_pairs(rows), 0.1, 99)
    a, b, r = paired_directions(*(whiten(gram, 0.1) for gram in grams), rows[0].cross(rows[1]))
    np.testing.assert_allclose(couplings[: len(r)], r, atol=1e-8)
    for k in range(len(r)):
        sign = np.sign(joint[0][:, k] @ a[:, k])
        np.testing.assert_allclose(np.sqrt(2) * sign * joint[0][:, k], a[:, k], atol=1e-4)
        np.testing.assert_allclose(np.sqrt(2) * sign * joint[1][:, k], b[:, k], atol=1e-4)


@given(seeds)
@settings(max_examples=20)
def test_the_semantic_cross_product_equals_that_of_the_whole_similarity_matrix(seed):
    (x, y), labels = draw_views(seed)
    unit = labels / np.linalg.norm(labels, axis=1, keepdims=True)
    similarity = 2 * unit @ unit.T - 1
    expected = (x - x.mean(axis=0)).T @ similarity @ (y - y.mean(axis=0))
    np.testing.assert_allclose(
        semantic_cross(Rows(x, centre=True), Rows(y, centre=True), labels), expected, atol=1e-8
    )


@given(seeds)
def test_the_leading_pair_is_the_first_of_the_singular_value_decomposition(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=rng.integers(1, 7, 2))
    left, right, value = leading_pair(matrix)
    assert value == pytest.approx(np.linalg.svd(matrix)[1][0])
    assert left @ matrix @ right == pytest.approx(value)
    assert np.linalg.norm(left) == pytest.approx(np.linalg.norm(right)) == pytest.approx(1)


def test_cvh_of_three_views_makes_all_of_them_agree():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(300, 3))
    views = {
        name: latent @ rng.normal(size=(3, width)) + 0.1 * rng.normal(size=(300, width))
        for name, width in (("image", 6), ("text", 5), ("sound", 4))
    }
    model = CVH(3).fit(views)
    bits = [np.unpackbits(model.hash(X, view=name), axis=1, count=3) for name, X in views.items()]
    assert np.mean(bits[0] == bits[1]) > 0.9
    assert np.mean(bits[1] == bits[2]) > 0.9


@pytest.mark.parametrize("method", [CVH, SCMOrth])
def test_more_bits_than_directions_give_fewer_bits_and_a_warning(method):
    data = acqh.make_multiview(100, n_labels=3, random_state=0)
    narrow = data.views["image"][:, :2]
    with pytest.warns(FewerBitsWarning, match=f"finds 2 directions .* not {8}"):
        model = method(8).fit({"image": narrow, "text": data.views["text"]}, data.labels)
    assert model.n_bits_ == 2
    assert model.encode({"image": narrow}, mode="single").shape == (100, 1)


@pytest.mark.parametrize("method", [CVH, SCMOrth, SCMSeq])
def test_constant_features_are_rejected(method):
    data = acqh.make_multiview(50, n_labels=3, random_state=0)
    with pytest.raises(InvalidInputError, match="direction"):
        method(4).fit({"image": np.ones((50, 3)), "text": data.views["text"]}, data.labels)


def test_scm_takes_two_views_and_cvh_no_labels():
    data = acqh.make_multiview(50, n_labels=3, random_state=0)
    three = {**data.views, "sound": data.views["image"]}
    with pytest.raises(ViewError, match="scm-seq takes 2 views, got 3"):
        SCMSeq(4).fit(three, data.labels)
    assert CVH(4).fit(data.views, labels="ignored").n_bits_ == 4


def test_scm_that_stops_at_a_rise_fills_up_with_canonical_directions():
    # Noise: nothing to fit, so the signs of a few bits overshoot and the residual grows.
    rng = np.random.default_rng(0)
    views = {"image": rng.normal(size=(200, 20)), "text": rng.normal(size=(200, 12))}
    labels = rng.integers(4, size=200)
    plain = SCMSeq(12, stop_at_rise=False).fit(views, labels)
    stopped = SCMSeq(12).fit(views, labels)
    same = np.all(plain.projections_["image"] == stopped.projections_["image"], axis=0)
    n_same = int(np.argmin(same))
    assert 0 < n_same < 12
    canonical = CVH(12 - n_same, ridge=1e-6).fit(views).projections_["image"]
    filled = stopped.projections_["image"][:, n_same:]
    cosine = np.sum(canonical * filled, axis=0) / np.linalg.norm(canonical, axis=0)
    np.testing.assert_allclose(np.abs(cosine / np.linalg.norm(filled, axis=0)), 1, atol=1e-6)
