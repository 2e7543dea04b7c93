"""KSH: its factored residual, its gradient, and bits that never get worse."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

import acqh
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.baselines.ksh import KSH, Residual, learn_bit, smooth_loss, start_bit

seeds = st.integers(0, 2**32 - 1)


def draw(seed, n_items=20, n_features=4):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_items, 3)) < 0.5).astype(np.uint8)
    labels[labels.sum(axis=1) == 0, 0] = 1
    features, _ = np.linalg.qr(rng.normal(size=(n_items, n_features)))
    learnt = rng.choice([-1.0, 1.0], (n_items, 2))
    residual = Residual.of(labels, 5).less(learnt[:, 0]).less(learnt[:, 1])
    full = np.where(labels.astype(int) @ labels.T > 0, 5.0, -5.0) - learnt @ learnt.T
    return rng, labels, features, residual, full


@given(seeds)
def test_the_residual_equals_that_of_the_whole_similarity_matrix(seed):
    rng, labels, features, residual, full = draw(seed)
    np.testing.assert_allclose(residual @ features, full @ features, atol=1e-9)
    vector = rng.normal(size=len(full))
    np.testing.assert_allclose(residual @ vector, full @ vector, atol=1e-9)
    from_sparse = Residual.of(sp.csr_array(labels), 5) @ vector
    np.testing.assert_allclose(from_sparse, Residual.of(labels, 5) @ vector)


@given(seeds)
def test_the_gradient_is_that_of_finite_differences(seed):
    rng, _, features, residual, _ = draw(seed)
    w = 3 * rng.normal(size=features.shape[1])
    error = check_grad(
        lambda v: smooth_loss(v, features, residual)[0],
        lambda v: smooth_loss(v, features, residual)[1],
        w,
    )
    assert error < 1e-4


@given(seeds)
@settings(max_examples=20)
def test_a_bit_starts_at_the_leading_eigenvector_and_ends_no_worse(seed):
    _, _, features, residual, full = draw(seed)
    start = start_bit(features, residual)
    quadratic = features.T @ full @ features
    assert start @ start == pytest.approx(len(features))
    assert start @ quadratic @ start / len(features) == pytest.approx(
        np.linalg.eigvalsh(quadratic)[-1]
    )
    w, signs = learn_bit(features, residual, 100)
    np.testing.assert_array_equal(signs, np.where(features @ w >= 0, 1, -1))
    first = np.where(features @ start >= 0, 1, -1)
    assert signs @ full @ signs >= first @ full @ first - 1e-9


def test_bits_are_fitted_on_the_base_view_and_predicted_from_the_others():
    data = acqh.make_multiview(150, n_labels=3, random_state=0)
    last = KSH(8, random_state=0).fit(data.views, data.labels)
    assert last.base_view_ == "text"
    model = KSH(8, base_view="image", random_state=0).fit(data.views, data.labels)
    image = model.hash(data.views["image"], view="image")
    np.testing.assert_array_equal(image, model.training_codes_)
    text = model.hash(data.views["text"], view="text")
    agreement = np.mean(np.unpackbits(image, axis=1) == np.unpackbits(text, axis=1))
    assert agreement > 0.9
    with pytest.raises(ViewError, match="base_view is 'sound'"):
        KSH(8, base_view="sound").fit(data.views, data.labels)
    with pytest.raises(InvalidInputError, match="'text' are zero or constant"):
        KSH(8).fit({**data.views, "text": np.ones((150, 3))}, data.labels)


def test_one_view_is_enough():
    data = acqh.make_multiview(150, n_labels=3, random_state=0)
    model = KSH(8, n_labelled=60, random_state=0).fit({"image": data.views["image"]}, data.labels)
    codes = np.unpackbits(model.training_codes_, axis=1)
    distance = np.sum(codes[:, None] != codes[None], axis=2)
    alike = data.labels.astype(int) @ data.labels.T > 0
    assert distance[alike].mean() < distance[~alike].mean() - 1
