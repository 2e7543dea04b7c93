"""Statistics of the built-in image-text model, and how items of a collection add to them."""

import numpy as np
import pytest

from acqh import ACQH
from acqh._core.runtime import no_progress
from acqh.collection.build import learn as module
from acqh.collection.build.learn import builtin_statistics, learn
from acqh.collection.types import BuildSettings
from acqh.data import MultiViewData
from acqh.encoders import EfficientNetLite0, MiniLM, builtin_model
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


def learnt(images, texts=None, **settings):
    """Train the model of a collection of images; the first ones have a text."""
    n = 0 if texts is None else len(texts)
    rows = np.zeros((len(images), 384), dtype=np.float32)
    rows[:n] = 0 if texts is None else texts
    present = {"image": np.ones(len(images), bool), "text": np.arange(len(images)) < n}
    data = MultiViewData({"image": images, "text": rows}, present=present)
    encoders = {"image": EfficientNetLite0().fit([]), "text": MiniLM().fit([])}
    return learn(data, encoders, BuildSettings(**settings), no_progress)[0]


def test_many_images_without_texts_take_the_builtin_space_and_codebooks(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_ENOUGH_IMAGES", 30)
    images, texts = pairs(40)
    learnt(images).save(tmp_path / "model")
    model, builtin = load_method(tmp_path / "model"), builtin_model()
    n = model.n_components
    np.testing.assert_array_equal(model.codebooks_, builtin.codebooks(8)[:, :, :n])
    np.testing.assert_allclose(
        model.embed({"image": images}), builtin.item_vectors(images)[:, :n], atol=1e-5
    )
    queries = model.project(texts, view="text"), builtin.project(texts, view="text")[:, :n]
    np.testing.assert_allclose(
        *(q / np.linalg.norm(q, axis=1)[:, None] for q in queries), atol=1e-5
    )


def test_captions_few_images_or_other_settings_train_codebooks(monkeypatch):
    monkeypatch.setattr(module, "_ENOUGH_IMAGES", 30)
    images, texts = pairs(40)
    trained = learnt(images[:29]), learnt(images, texts[:20]), learnt(images, n_codebooks=4)
    for model in trained:
        codebooks = builtin_model().codebooks(8)[: len(model.codebooks_), :, : model.n_components]
        assert not np.array_equal(model.codebooks_, codebooks)
