"""The weight of captions compared with what images predict of them."""

import numpy as np
import pytest

import acqh
from acqh import Target

SMALL = {"n_codebooks": 3, "codebook_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def captioned():
    """Return images, half with a text. Much of the text is not visible in any image."""
    rng = np.random.default_rng(0)
    shared, text_only, other = (rng.normal(size=(700, n)) for n in (10, 10, 40))
    views = {
        "image": shared @ rng.normal(size=(10, 60)) + other @ rng.normal(size=(40, 60)),
        "text": shared @ rng.normal(size=(10, 40)) + 1.5 * text_only @ rng.normal(size=(10, 40)),
    }
    has_text = np.arange(500) % 2 == 0
    stored = {name: X[:500] for name, X in views.items()}
    return acqh.MultiViewData(stored, present={"text": has_text}), views["text"][500:], has_text


def fit_with_weight(captioned, weight):
    targets = {"image": 0.2, "text": Target(0.8, caption_weight=weight)}
    return acqh.ACQH(48, targets=targets, **SMALL).fit(captioned[0])


def test_items_with_a_text_do_not_lead_every_ranking(captioned):
    data, queries, has_text = captioned
    shares, finds = [], []
    for weight in (1.0, "auto"):
        model = fit_with_weight(captioned, weight)
        items = model.embed(data)
        first = np.argsort(-model.project(queries, view="text") @ items.T, axis=1)[:, :10]
        shares.append(has_text[first].mean())
        scores = model.project(data.views["text"][has_text], view="text") @ items.T
        own_scores = scores[np.arange(has_text.sum()), np.flatnonzero(has_text)]
        finds.append(np.mean((scores > own_scores[:, None]).sum(axis=1) < 10))
    assert 0 < model.targets_["text"].caption_weight < 1
    assert shares[0] > 0.65 > 0.6 > shares[1]  # half of the items have a text
    assert finds[1] >= 0.95 * finds[0]


def test_the_caption_weight_is_estimated_for_cosine_targets_too(captioned):
    targets = {"image": 0.2, "text": Target(0.8, "cosine", caption_weight="auto")}
    model = acqh.ACQH(48, targets=targets, **SMALL).fit(captioned[0])
    assert 0 < model.targets_["text"].caption_weight < 1


def test_the_caption_weight_does_not_affect_items_with_one_view(captioned):
    half, full = (fit_with_weight(captioned, weight).space_ for weight in (0.5, 1.0))
    features = {view: X[::2] for view, X in captioned[0].views.items()}
    for view, X in features.items():
        np.testing.assert_allclose(
            half.join_blocks({view: X}), full.join_blocks({view: X}), atol=1e-12
        )
    apart = half.join_blocks(features) - full.join_blocks(features)
    assert np.abs(apart).max() > 0.1


def test_texts_that_images_predict_well_have_full_weight():
    rng = np.random.default_rng(0)
    shared, other = rng.normal(size=(500, 10)), rng.normal(size=(500, 3))
    views = {
        "image": shared @ rng.normal(size=(10, 60)) + other @ rng.normal(size=(3, 60)),
        "text": shared @ rng.normal(size=(10, 40)),
    }
    data = acqh.MultiViewData(views, present={"text": np.arange(500) % 2 == 0})
    model = acqh.ACQH(
        16, targets={"image": 0.2, "text": Target(0.8, caption_weight="auto")}, **SMALL
    )
    assert model.fit(data).targets_["text"].caption_weight == 1
