"""Reconstructions of stored items, and queries made from them."""

from functools import partial

import numpy as np
import pytest

import acqh

SMALL = {"n_codebooks": 4, "codebook_size": 32, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(400, n_labels=6, single_label=False, random_state=0)


@pytest.mark.parametrize("similarity", ["dot", "shared", "cosine", "jaccard"])
def test_items_without_labels_have_vectors_for_every_similarity(data, similarity):
    model = acqh.ACQH(5, similarity=similarity, **SMALL).fit(data)
    vectors = model.embed(data.views)
    errors = np.linalg.norm(vectors - model.decode(model.encode(data.views)), axis=1)
    assert errors.mean() < 0.5 * np.linalg.norm(vectors, axis=1).mean()


@pytest.mark.parametrize("make", [partial(acqh.ACQH, similarity="cosine"), acqh.methods.ACQHPaper])
def test_a_stored_item_finds_items_of_like_labels(data, make):
    is_paper = make is acqh.methods.ACQHPaper
    model = make(n_components=6, **SMALL).fit(data)
    codes = model.encode(labels=data.labels)
    scores = model.project_codes(codes) @ model.decode(codes).T
    lengths = np.ones(len(data)) if is_paper else np.linalg.norm(data.labels, axis=1)
    expected = (data.labels @ data.labels.T.astype(float)) / np.outer(lengths, lengths)
    assert np.corrcoef(scores.ravel(), expected.ravel())[0, 1] > 0.9
    by_code_vectors = model.decode(codes) @ model.decode(codes).T
    assert np.corrcoef(by_code_vectors.ravel(), expected.ravel())[0, 1] < 0.9
