"""ACQH with kernel maps, compared with kernel ridge regression."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

import acqh
from acqh.errors import InvalidInputError
from acqh.features import KernelMap, SignedRoot
from acqh.methods import load_method


def rings(n_items: int, seed: int) -> acqh.MultiViewData:
    """Return points on three rings, which no linear map can separate, and tags."""
    rng = np.random.default_rng(seed)
    ring = rng.integers(0, 3, n_items)
    angle = rng.uniform(0, 2 * np.pi, n_items)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1.0 + ring)[:, None]
    image = (points + rng.normal(0, 0.1, points.shape)).astype(np.float32)
    tags = np.zeros((n_items, 12), dtype=np.float32)
    tags[np.arange(n_items), 4 * ring + rng.integers(0, 4, n_items)] = 1
    tags[np.arange(n_items), rng.integers(0, 12, n_items)] = 1
    return acqh.MultiViewData({"image": image, "text": sp.csr_array(tags)}, np.eye(3)[ring])


def fit(maps: Any, data: acqh.MultiViewData, **params: Any) -> acqh.ACQH:
    params = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0, **params}
    return acqh.ACQH(8, feature_maps=maps, **params).fit(data)


def precision(model: acqh.ACQH, query: acqh.MultiViewData, data: acqh.MultiViewData) -> float:
    """Return the share of an image's ten nearest items, encoded from images, with its label."""
    items = model.decode(model.encode({"image": data.views["image"]}))
    scores = model.project(query.views["image"], view="image") @ items.T
    nearest = np.argsort(-scores, axis=1)[:, :10]
    return float(np.mean(np.einsum("qkl,ql->qk", data.labels[nearest], query.labels)))


def test_kernel_maps_solve_what_linear_maps_cannot() -> None:
    train, database, query = rings(300, 0), rings(200, 1), rings(60, 2)
    linear, kernel = (
        precision(fit(features, train), query, database) for features in (None, "kernel")
    )
    assert linear < 0.75
    assert kernel > 0.95


def test_query_vectors_are_maps_of_kernel_ridge_regression() -> None:
    train, query = rings(80, 0), rings(10, 1)
    kernel_map = KernelMap("rbf", bandwidth=0.5, ridge=0.2)
    model = fit({"image": kernel_map}, train, similarity="dot")
    X, new = (np.asarray(part.views["image"], dtype=np.float64) for part in (train, query))

    def squared(left: np.ndarray) -> np.ndarray:
        return np.square(left[:, None] - X[None]).sum(axis=2)

    width = 0.5 * squared(X).mean()
    labels = np.asarray(train.labels, dtype=np.float64)
    dual = np.linalg.solve(
        np.exp(-squared(X) / width) + 0.2 * np.eye(80), labels - labels.mean(axis=0)
    )
    predicted = np.exp(-squared(new) / width) @ dual + labels.mean(axis=0)
    expected = predicted @ model.projections_["image"] + model.intercepts_["image"]
    np.testing.assert_allclose(
        model.project(query.views["image"], view="image"), expected, atol=2e-3
    )


def test_errors_are_measured_on_held_out_items() -> None:
    """Labels of noise cannot be predicted, and a model must not think that it can."""
    rng = np.random.default_rng(0)
    data = acqh.MultiViewData(
        {"image": rng.normal(size=(200, 4))}, np.eye(2)[rng.integers(0, 2, 200)]
    )
    model = fit(KernelMap("rbf", bandwidth=0.05, ridge=1e-3), data, similarity="dot")
    projected = model.project(data.views["image"], view="image")
    scores = projected @ model.embed(labels=np.eye(2)).T
    # What was memorized is not trusted: the second map shrinks it to next to nothing.
    assert np.ptp(scores, axis=0).max() < 0.3


@pytest.mark.parametrize("n_anchors", [None, 30])
def test_codes_survive_storage(tmp_path: Path, n_anchors: int | None) -> None:
    train, query = rings(120, 0), rings(20, 1)
    maps = {"image": "kernel", "text": KernelMap(n_anchors=n_anchors, random_state=0)}
    model = fit(maps, train)
    model.save(tmp_path / "model")
    loaded = load_method(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(query.views), model.encode(query.views))
    for view, rows in query.views.items():
        np.testing.assert_array_equal(
            loaded.project(rows, view=view), model.project(rows, view=view)
        )


def test_maps_before_a_kernel_are_fitted_first() -> None:
    train = rings(100, 0)
    maps = {"image": make_pipeline(SignedRoot(), KernelMap("rbf", bandwidth=1.0, ridge=0.1))}
    model = fit(maps, train)
    kernel_map = model.feature_maps_["image"].steps[-1][1]
    rows = np.asarray(train.views["image"])
    expected = np.sign(rows) * np.sqrt(np.abs(rows))
    np.testing.assert_allclose(kernel_map.anchors_.astype(float), expected, atol=2e-3)


def test_items_without_labels_or_view_teach_no_kernel() -> None:
    data = rings(100, 0)
    labels = np.array(data.labels)
    labels[:20] = 0
    present = {"image": np.arange(100) % 10 != 5}
    partly = acqh.MultiViewData(data.views, labels, present=present)
    model = fit("kernel", partly)
    assert model.feature_maps_["image"].anchors_.shape[0] == 72
    assert model.feature_maps_["text"].anchors_.shape[0] == 80
    assert model.stats_.counts.sum() == 80


def test_more_items_refine_the_kernel_map() -> None:
    first, more, query = rings(120, 0), rings(200, 1), rings(40, 2)
    model = fit("kernel", first)
    model.partial_fit(more)
    assert model.stats_.n_items == 320
    assert precision(model, query, more) > 0.9


def test_items_that_are_anchors_cannot_be_forgotten() -> None:
    data = rings(60, 0)
    model = fit("kernel", data)
    with pytest.raises(InvalidInputError, match="'image', 'text' hold training items"):
        model.forget(data.subset(np.arange(5)))


def test_similarities_can_be_changed_after_the_pass() -> None:
    train, query = rings(150, 0), rings(40, 2)
    model = fit("kernel", train)
    model.set_params(similarity="jaccard").fit_stats(model.stats_)
    assert precision(model, query, train) > 0.95


@pytest.mark.parametrize("has_labels", [True, False])
def test_the_seed_of_the_model_is_that_of_its_maps(has_labels: bool) -> None:
    data = rings(100, 0)
    labels = data.labels if has_labels else None
    few = KernelMap(n_anchors=20)
    models = [
        acqh.ACQH(8, n_codebooks=2, codebook_size=16, feature_maps=few, random_state=1).fit(
            dict(data.views), labels
        )
        for _ in range(2)
    ]
    for view, rows in data.views.items():
        result = [model.project(rows, view=view) for model in models]
        np.testing.assert_array_equal(*result)


def test_without_labels_features_are_the_kernel_itself() -> None:
    data = rings(150, 0)
    model = acqh.ACQH(
        8, n_codebooks=2, codebook_size=16, feature_maps="kernel", random_state=0
    ).fit(dict(data.views))
    assert model.encode({"text": data.views["text"]}).shape == (150, 2)


def test_later_chunks_are_mapped_with_the_first_map() -> None:
    parts = [rings(100, seed) for seed in (0, 1)]
    query = rings(40, 2)
    model = acqh.ACQH(
        8, n_codebooks=2, codebook_size=16, feature_maps="kernel", random_state=0
    ).fit(iter(parts))
    assert model.stats_.n_items == 200
    assert model.feature_maps_["image"].anchors_.shape[0] == 100
    assert precision(model, query, parts[1]) > 0.9
