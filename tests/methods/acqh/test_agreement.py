"""Weights of unlabelled views, estimated from their agreement."""

import numpy as np
import pytest

import acqh
from acqh.methods.acqh.learn import correlate_scores, score_pairs
from acqh.metrics import mean_average_precision

SMALL = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0}


def topics_and_more(n_items, seed=0):
    """Return views that both say a topic; three quarters of either are its own.

    Of images these are one number, which makes most of what is similar; of texts thirty small ones.
    """
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(n_items, 3))
    image, text = (topics + 0.3 * rng.normal(size=topics.shape) for _ in range(2))
    views = {"image": 3 * rng.normal(size=(n_items, 1)), "text": rng.normal(size=(n_items, 30))}
    return topics, {
        "image": np.concatenate([image, views["image"]], axis=1),
        "text": np.concatenate([text, np.sqrt(0.3) * views["text"]], axis=1),
    }


def weights_of(model):
    return {name: target.weight for name, target in model.targets_.items()}


def test_content_counts_by_the_scores_that_views_agree_on():
    topics, views = topics_and_more(600)
    items, queries = (
        {name: X[rows] for name, X in views.items()} for rows in (np.s_[:400], np.s_[400:])
    )
    model = acqh.ACQH(16, **SMALL).fit(items)
    assert weights_of(model)["text"] > 0.9
    lengths = np.linalg.norm(topics, axis=1)
    alike = topics[400:] @ topics[:400].T > 0.7 * np.outer(lengths[400:], lengths[:400])

    def precision_of(model):
        scores = model.project(queries["image"], view="image") @ model.embed(items).T
        return mean_average_precision(scores.astype(np.float32), alike)

    even = acqh.ACQH(16, targets={"image": 1, "text": 1}, **SMALL).fit(items)
    assert weights_of(even) == {"image": 1, "text": 1}
    assert precision_of(model) > precision_of(even) + 0.15


def test_views_that_agree_on_nothing_or_everything_have_equal_weights():
    rng = np.random.default_rng(0)
    apart = {"image": rng.normal(size=(600, 4)), "text": rng.normal(size=(600, 3))}
    assert weights_of(acqh.ACQH(8, **SMALL).fit(apart))["image"] == pytest.approx(0.5)
    same = {"image": apart["image"], "text": apart["image"][:, ::-1].copy()}
    assert weights_of(acqh.ACQH(8, **SMALL).fit(same))["image"] == pytest.approx(0.5)
    alone = acqh.ACQH(8, **SMALL).fit({"image": apart["image"]})
    assert alone.targets_["image"].weight == 1


def test_a_view_of_noise_has_the_smallest_of_three_weights_and_not_zero():
    _, views = topics_and_more(600)
    views["noise"] = np.random.default_rng(1).normal(size=(600, 4))
    result = weights_of(acqh.ACQH(16, **SMALL).fit(views))
    assert 0 < result["noise"] < result["text"] / 10
    assert sum(result.values()) == pytest.approx(1)


def test_views_have_equal_weights_if_few_items_have_both():
    _, views = topics_and_more(60)
    rows = np.arange(60)
    present = {"image": rows < 35, "text": rows > 25}
    few = acqh.MultiViewData(views, present=present)
    assert weights_of(acqh.ACQH(8, **SMALL).fit(few)) == {"image": 0.5, "text": 0.5}


def guess_without_each_row(X, Y, ridge):
    """Return what ridge regression says of each row of Y, learnt from the others."""
    centred = X - X.mean(axis=0)
    penalty = ridge * np.sum(centred**2) / X.shape[1] * np.eye(X.shape[1])
    guesses = []
    for row in range(len(X)):
        rest = np.delete(np.arange(len(X)), row)
        mean_x, mean_y = X[rest].mean(axis=0), Y[rest].mean(axis=0)
        x = X[rest] - mean_x
        P = np.linalg.solve(x.T @ x + penalty, x.T @ (Y[rest] - mean_y))
        guesses.append(mean_y + (X[row] - mean_x) @ P)
    return np.array(guesses)


def test_weights_are_those_found_row_by_row():
    _, views = topics_and_more(40)
    ridge = 0.3
    blocks = {}
    for name, X in views.items():
        centred = X - X.mean(axis=0)
        blocks[name] = centred / np.sqrt(np.mean(np.sum(centred**2, axis=1)))
    image, text = (
        guess_without_each_row(views[source], blocks[name], ridge)
        for source, name in (("text", "image"), ("image", "text"))
    )

    def agreement(weights):
        pairs = (blocks["image"], text), (image, blocks["text"])
        tables = [
            sum(w * q @ X.T for w, q, X in zip(weights, by, blocks.values(), strict=True))
            for by in pairs
        ]
        one, other = (table[~np.eye(40, dtype=bool)] for table in tables)
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    scores = score_pairs(blocks["image"], blocks["text"], image, text)
    for weights in ([1.0, 0.0], [0.3, 0.7]):
        assert correlate_scores(scores, *weights) == pytest.approx(agreement(weights))
    alone = np.array([agreement(row) for row in np.eye(2)])
    tried = np.array([(alone / alone.max()) ** power for power in np.arange(0, 32.5, 0.5)])
    tried = (tried / tried.sum(axis=1, keepdims=True) + 0.01) / 1.02
    agreements = np.array([agreement(weights) for weights in tried])
    best = agreements.max()
    expected = tried[np.flatnonzero(agreements >= best - max(0.05 * best, 0.02))[0]]
    assert 0.5 < expected[1] < 0.99
    model = acqh.ACQH(40, ridge=ridge, **SMALL).fit(views)
    assert [*weights_of(model).values()] == pytest.approx(expected)
