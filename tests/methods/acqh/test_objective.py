"""`objective_` and `lower_bound_` against their definitions, written out row by row."""

import numpy as np
import pytest

import acqh
from acqh.features import KernelMap
from acqh.methods.acqh import solve

SIZES = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    data = acqh.make_multiview(120, n_labels=5, random_state=0)
    views = {name: view.astype(np.float64) for name, view in data.views.items()}
    return acqh.MultiViewData(views, data.labels)


def complete_and_single_views(model):
    """Return blocks of the sampled items: by all that is known of them, and by each view alone."""
    space, rows = model.space_, model.stats_.sample
    maps = model.feature_maps_
    # With kernel maps and labels as the only target, the sample holds predictions of labels.
    is_raw = {view: rows.views[view].shape[1] == model.n_features_in_[view] for view in rows.views}
    statistics = {
        view: maps[view].transform(matrix) if view in maps and is_raw[view] else matrix
        for view, matrix in sorted(rows.views.items())
    }
    alone = [space.join_blocks({view: matrix}) for view, matrix in statistics.items()]
    if "labels" in space.blocks:
        statistics["labels"] = space.embedding.transform(rows.labels)
    return space.join_blocks(statistics), alone


@pytest.mark.parametrize(
    "targets", [{"image": 1, "text": 1}, {"labels": 1, "text": 1}, {"text": 1}, {"labels": 1}]
)
@pytest.mark.parametrize(
    "settings",
    [{}, {"ridge": 0.5}, {"feature_maps": KernelMap(random_state=0)}],
    ids=["default", "ridge", "kernel maps"],
)
def test_the_objective_is_the_mean_squared_error_that_queries_see(
    data, targets, settings, monkeypatch
):
    trained_on = []

    def fit_codebooks(points, weights, *args, **options):
        trained = real(points, weights, *args, **options)
        trained_on.append((trained.codes, weights))
        return trained

    real = solve.fit_codebooks
    monkeypatch.setattr(solve, "fit_codebooks", fit_codebooks)
    training = data if "labels" in targets else data.without_labels()
    model = acqh.ACQH(4, targets=targets, **SIZES, **settings).fit(training)
    ((codes, weights),) = trained_on
    items, alone = complete_and_single_views(model)
    items = model.space_.scale(items)
    if [*targets] == ["labels"]:  # items with equal labels are one point
        _, first = np.unique(model.stats_.sample.labels, axis=0, return_index=True)
        items = items[np.sort(first)]
    if len(codes) > len(items):  # half of the points are items known by one view
        items = np.concatenate([items, *map(model.space_.scale, alone)])
    reconstructed = model.decode(codes) @ model.space_.query_map.T
    moments = [view.T @ view / np.sum(view**2) for view in alone]
    errors = reconstructed - items
    value = np.average(
        [error @ np.mean(moments, axis=0) @ error for error in errors], weights=weights
    )
    assert model.objective_[-1] == pytest.approx(value, rel=1e-9)
    # The best real-valued items of four components: by singular values in the metric of queries.
    strengths, axes = np.linalg.eigh(np.mean(moments, axis=0))
    root = axes * np.sqrt(np.maximum(strengths, 0))
    singular = np.linalg.svd(np.sqrt(weights)[:, None] * items @ root, compute_uv=False)
    bound = np.sum(singular[4:] ** 2) / np.sum(weights)
    assert model.lower_bound_ == pytest.approx(bound, rel=1e-9, abs=1e-12)
    assert model.objective_[-1] >= model.lower_bound_
    if bound > 1e-9:
        gap = (value - bound) / bound
        assert model.optimality_gap_ == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("settings", [{}, {"feature_maps": KernelMap(random_state=0)}])
def test_the_objective_of_the_paper_is_that_of_all_pairs_of_items(
    data, settings, similarity, monkeypatch
):
    predictions = []  # leave-one-out features of kernel maps, which the maps are trained on
    fit_to = KernelMap.fit_to

    def keep(self, X, targets):
        predictions.append(fit_to(self, X, targets))
        return predictions[-1]

    monkeypatch.setattr(KernelMap, "fit_to", keep)
    # The terms of the label regression are as good as gone; test_oracle.py has them.
    terms = {"label_weight": 1e-12, "label_ridge": 1e-12, "tol": 0.5}
    model = acqh.methods.ACQHPaper(4, **SIZES, **terms, **settings)
    model.similarity = similarity
    model.fit(data)
    labels = data.labels.astype(float)
    if similarity == "cosine":
        labels /= np.linalg.norm(labels, axis=1, keepdims=True)
    pairs = labels @ labels.T
    features = dict(zip(sorted(data.views), predictions, strict=True)) if settings else data.views
    items = model.decode(model.encode(labels=data.labels))
    value, agreement = 0.0, 0.0
    for view, rows in features.items():
        scores = rows @ model.projections_[view] @ items.T
        value += np.sum((scores - pairs) ** 2)
        agreement = agreement + labels.T @ rows @ np.linalg.pinv(rows) @ labels
    assert model.objective_[-1] == pytest.approx(value, rel=1e-8)
    # The best real-valued codes, from the spectrum of what the views predict of all pairs.
    strengths, axes = np.linalg.eigh(agreement)
    root = axes * np.sqrt(np.maximum(strengths, 0))
    energies = np.sort(np.linalg.eigvalsh(root.T @ labels.T @ labels @ root))[::-1]
    bound = len(features) * np.sum(pairs**2) - energies[:4].sum()
    assert model.lower_bound_ == pytest.approx(bound, rel=1e-8)
    assert model.optimality_gap_ == pytest.approx((value - bound) / bound, rel=1e-6)
