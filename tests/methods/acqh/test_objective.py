"""`objective_` and `lower_bound_` against their definitions, written out row by row."""

import numpy as np
import pytest

import acqh
from acqh.methods.acqh import solve

SIZES = {"n_codebooks": 2, "codebook_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    data = acqh.make_multiview(120, n_labels=5, random_state=0)
    views = {name: view.astype(np.float64) for name, view in data.views.items()}
    return acqh.MultiViewData(views, data.labels)


def known_and_alone(model):
    """Return blocks of the sampled items: by all that is known of them, and by each view alone."""
    space, rows = model.space_, model.stats_.sample
    alone = [space.join_blocks({view: rows.views[view]}) for view in sorted(rows.views)]
    known = dict(rows.views)
    if "labels" in space.blocks:
        known["labels"] = space.embedding.transform(rows.labels)
    return space.join_blocks(known), alone


@pytest.mark.parametrize(
    "targets", [{"image": 1, "text": 1}, {"labels": 1, "text": 1}, {"text": 1}, {"labels": 1}]
)
def test_the_objective_is_the_mean_squared_error_that_queries_see(data, targets, monkeypatch):
    trained_on = []

    def fit_codebooks(points, weights, *args, **options):
        trained = real(points, weights, *args, **options)
        trained_on.append((trained.codes, weights))
        return trained

    real = solve.fit_codebooks
    monkeypatch.setattr(solve, "fit_codebooks", fit_codebooks)
    known = data if "labels" in targets else data.without_labels()
    model = acqh.ACQH(4, targets=targets, **SIZES).fit(known)
    ((codes, weights),) = trained_on
    items, alone = known_and_alone(model)
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
