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


def query_vectors(model, data):
    """Return the training items as queries, by view: with kernel maps, each item left out."""
    left_out = model._describe(data, is_whole=True).left_out
    return {
        name: (left_out[name] @ model.projections_[name] + model.intercepts_[name])
        if name in left_out
        else model.project(view, view=name)
        for name, view in data.views.items()
    }


def squared_error(model, data, queries):
    """Return the squared error of the scores of all pairs of items, one query at a time."""
    wanted = model.space_.embedding.transform(data.labels)
    items = model.decode(model.encode(labels=data.labels))
    return sum(
        np.sum((items @ query - wanted @ own) ** 2)
        for view in queries.values()
        for query, own in zip(view, wanted, strict=True)
    )


def penalty(model, data):
    """Return ``rho ||W b||^2`` of all views and items."""
    items = model.decode(model.encode(labels=data.labels))
    total = 0.0
    for name, view in data.views.items():
        rho = model.ridges_[name] * np.var(view, axis=0).mean() * len(view)
        total += rho * np.sum((items @ model.projections_[name].T) ** 2)
    return total


@pytest.mark.parametrize("similarity", ["dot", "shared"])
@pytest.mark.parametrize("ridge", [0.0, 0.3, "auto"])
def test_the_objective_of_labels_is_the_squared_error_plus_the_penalty(data, ridge, similarity):
    model = acqh.ACQH(4, ridge=ridge, similarity=similarity, **SIZES).fit(data)
    expected = squared_error(model, data, query_vectors(model, data)) + penalty(model, data)
    assert model.objective_[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("similarity", ["dot", "shared"])
def test_the_objective_of_kernel_maps_is_the_squared_error(data, similarity):
    model = acqh.ACQH(4, feature_maps="kernel", similarity=similarity, **SIZES).fit(data)
    expected = squared_error(model, data, query_vectors(model, data))
    assert model.objective_[-1] == pytest.approx(expected, rel=1e-9)


def rotated(queries, rng):
    """Return query vectors under another linear map, close to the one learnt."""
    width = next(iter(queries.values())).shape[1]
    change = np.eye(width) + 0.1 * rng.normal(size=(width, width))
    return {name: view @ change for name, view in queries.items()}


def best_items(queries, wanted):
    """Return the item vectors of least squared error for these queries: no codes are better."""
    left = np.concatenate([*queries.values()])
    right = np.concatenate([wanted @ wanted.T for _ in queries])
    return np.linalg.lstsq(left, right)[0].T


@pytest.mark.parametrize("maps", [None, "kernel"])
@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_no_queries_and_items_are_below_the_lower_bound(data, maps, n_components):
    options = {"feature_maps": maps, "ridge": "auto" if maps else 0.0}
    model = acqh.ACQH(n_components, **options, **SIZES).fit(data)
    wanted = model.space_.embedding.transform(data.labels)
    rng = np.random.default_rng(0)
    queries = query_vectors(model, data)
    found = []
    for tried in (queries, *(rotated(queries, rng) for _ in range(20))):
        items = best_items(tried, wanted)
        errors = [view @ items.T - wanted @ wanted.T for view in tried.values()]
        found.append(float(np.sum(np.square(errors))))
    assert min(found) >= model.lower_bound_ * (1 - 1e-9)
    # The maps learnt are those of the bound.
    assert found[0] == pytest.approx(model.lower_bound_, rel=1e-6)
    assert model.objective_[-1] >= model.lower_bound_ * (1 - 1e-9)
    gap = (model.objective_[-1] - model.lower_bound_) / model.lower_bound_
    assert model.optimality_gap_ == pytest.approx(gap, rel=1e-9)


def known_and_alone(model):
    """Return blocks of the sampled items: by all that is known of them, and by each view alone."""
    space, rows = model.space_, model.stats_.sample
    alone = [space.fold([view]).apply({view: rows.views[view]}) for view in sorted(rows.views)]
    whole = np.empty_like(alone[0])
    for chosen, blocks in space.describe_rows(rows, dict):
        whole[chosen] = blocks
    return whole, alone


@pytest.mark.parametrize(
    "targets", [{"image": 1, "text": 1}, {"labels": 1, "text": 1}, {"text": 1}]
)
def test_the_objective_of_targets_is_the_mean_squared_error_that_queries_see(
    data, targets, monkeypatch
):
    codes = []

    def fit_codebooks(*args, **options):
        trained = real(*args, **options)
        codes.append(trained.codes)
        return trained

    real = solve.fit_codebooks
    monkeypatch.setattr(solve, "fit_codebooks", fit_codebooks)
    known = data if "labels" in targets else data.without_labels()
    model = acqh.ACQH(4, targets=targets, **SIZES).fit(known)
    items, alone = known_and_alone(model)
    items = model.space_.scale(items)
    if len(codes[0]) > len(items):  # half of the points are items known by one view
        items = np.concatenate([items, *map(model.space_.scale, alone)])
    counts = np.ones(len(items))
    counts[len(data) :] /= len(alone)
    reconstructed = model.decode(codes[0]) @ model.space_.query_map.T
    moments = [view.T @ view / np.sum(view**2) for view in alone]
    errors = reconstructed - items
    value = np.average(
        [error @ np.mean(moments, axis=0) @ error for error in errors], weights=counts
    )
    assert model.objective_[-1] == pytest.approx(value, rel=1e-9)
    assert model.objective_[-1] >= model.lower_bound_ > 0
