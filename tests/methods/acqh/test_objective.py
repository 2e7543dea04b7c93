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
    known = {
        view: maps[view].transform(matrix) if view in maps and is_raw[view] else matrix
        for view, matrix in sorted(rows.views.items())
    }
    alone = [space.join_blocks({view: matrix}) for view, matrix in known.items()]
    if "labels" in space.blocks:
        known["labels"] = space.embedding.transform(rows.labels)
    return space.join_blocks(known), alone


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
    known = data if "labels" in targets else data.without_labels()
    model = acqh.ACQH(4, targets=targets, **SIZES, **settings).fit(known)
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
    assert model.objective_[-1] >= model.lower_bound_ >= 0
