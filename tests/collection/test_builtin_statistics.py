"""Statistics of the built-in image-text model, and how items of a collection add to them."""

import numpy as np
import pytest

from acqh import ACQH
from acqh.collection.build.learn import builtin_statistics
from acqh.data import MultiViewData
from acqh.encoders import builtin_model
from acqh.methods import load_method

SMALL = {"n_codebooks": 2, "codebook_size": 16, "targets": {"text": 1.0}, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return ACQH(16, **SMALL).fit_stats(builtin_statistics(sample_size=512))


def pairs(n, seed=0):
    """Images of no kind in particular, and texts as the built-in model would predict them."""
    builtin = builtin_model()
    rng = np.random.default_rng(seed)
    axes = builtin.arrays["image_axes"].astype(float)
    spread = np.sqrt(np.diag(builtin.pair_moments.images))[: axes.shape[1]]
    mapped = rng.normal(size=(n, len(spread))) * spread
    roots = builtin.arrays["image_mean"] + mapped @ axes.T
    images = np.square(np.maximum(roots, 0)).astype(np.float32)
    images = np.hstack([images, builtin.class_probabilities(images)])
    weights, intercept = builtin.pair_moments.regression(builtin.ridge)
    predicted = builtin.map_features(images, view="image") @ weights + intercept
    axes = builtin.arrays["text_axes"].astype(np.float64)
    return images, (predicted @ np.linalg.pinv(axes) + builtin.arrays["text_mean"]).astype("f4")


def mean_rank(queries, items):
    scores = queries @ items.T
    return (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1).mean()


def test_statistics_are_those_of_the_builtin_model():
    builtin, result = builtin_model(), builtin_statistics(weight=500)
    moments = result.statistics.moments("image", "text")
    assert result.statistics.n_items == 500
    np.testing.assert_allclose(moments.product("image", "text") / 500, builtin.pair_moments.cross)
    np.testing.assert_allclose(
        np.diag(moments.gram("image")) / 500, np.diag(builtin.pair_moments.images)
    )


def test_texts_find_images_without_a_caption(model):
    images, texts = pairs(100)
    items = model.decode(model.encode({"image": images}))
    assert mean_rank(model.project(texts, view="text"), items) < 25  # chance is 50


def test_own_images_and_pairs_are_added_to_the_statistics(model, tmp_path):
    model.save(tmp_path / "model")
    mine = load_method(tmp_path / "model")
    images, texts = pairs(60, seed=1)
    captioned = np.arange(60) < 20
    present = {"image": np.ones(60, dtype=bool), "text": captioned}
    mine.partial_fit(MultiViewData({"image": images, "text": texts}, present=present))
    assert mine.stats_.n_items == model.stats_.n_items + 60
    assert mine.stats_.moments("image", "text").n_items == builtin_model().pair_moments.n + 20
    queries, items = mine.project(texts, view="text"), mine.encode({"image": images})
    assert mean_rank(queries, mine.decode(items)) < 15  # chance is 30
    np.testing.assert_array_equal(
        load_method(tmp_path / "model").encode({"image": images}), model.encode({"image": images})
    )


def test_background_samples_have_the_requested_weight():
    result = builtin_statistics(n_stand_ins=20, stand_in_weight=0.25).statistics
    np.testing.assert_array_equal(result.sample.counts, np.full(20, 0.25))
    assert result.n_items == builtin_model().pair_moments.n
