"""Training data of codebooks: complete items and simulated future items."""

import numpy as np
import pytest

import acqh

SETTINGS = {"n_codebooks": 3, "codebook_size": 16, "random_state": 0}
TARGETS = [None, {"labels": 0.5, "image": 0.25, "text": 0.25}]


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(
        240, {"image": 12, "text": 9}, n_labels=5, single_label=False, random_state=0
    )


@pytest.mark.parametrize("targets", TARGETS)
def test_a_larger_share_of_training_items_lowers_their_error(data, targets):
    errors = []
    for share in (0.0, 0.5, 0.95):
        model = acqh.ACQH(8, targets=targets, complete_share=share, **SETTINGS).fit(data)
        vectors = model.embed(data.views, labels=data.labels)
        codes = model.encode(data.views, labels=data.labels)
        left = np.square(model.decode(codes) - vectors).sum() / np.square(vectors).sum()
        errors.append(left)
    assert errors == sorted(errors, reverse=True)


def test_codebooks_fit_complete_items_if_all_are_complete(data):
    def fitted(share, rows=data, **settings):
        settings = {"targets": TARGETS[1]} | settings
        model = acqh.ACQH(8, complete_share=share, **settings, **SETTINGS)
        return model.fit(rows).codebooks_

    np.testing.assert_array_equal(fitted(None), fitted(1.0))
    labels = np.array(data.labels)
    labels[0] = 0
    partly = acqh.MultiViewData(data.views, labels)
    np.testing.assert_array_equal(fitted(None, partly), fitted(0.5, partly))
    alone = {"targets": None, "normalize_items": True}
    np.testing.assert_array_equal(fitted(None, **alone), fitted(0.5, **alone))
