"""FSH: the fused similarity as a matrix product equals its definition item by item."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import acqh
from acqh.methods.baselines.fsh import FSH, fuse_views, link_to_nearest

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 6))
def test_links_go_to_the_nearest_anchors_with_equal_weight(seed, n_neighbors):
    # Whole numbers, so that some anchors are equally near.
    distances = np.random.default_rng(seed).integers(0, 5, (7, 6)).astype(float)
    links = link_to_nearest(distances, n_neighbors).toarray()
    np.testing.assert_allclose(links.sum(axis=1), 1)
    for row, weights in zip(distances, links, strict=True):
        assert set(np.flatnonzero(weights)) == set(
            sorted(range(6), key=lambda j: (row[j], j))[:n_neighbors]
        )


@given(seeds)
@settings(max_examples=20)
def test_the_fused_similarity_is_the_mean_affinity_of_neighbouring_anchors(seed):
    rng = np.random.default_rng(seed)
    n_items, n_anchors, k, shares = 9, 5, 2, (0.3, 0.7)
    points = [rng.normal(size=(n_anchors, 3)) for _ in range(2)]
    items = [rng.normal(size=(n_items, 3)) for _ in range(2)]

    def distance(left, right):
        return np.linalg.norm(left[:, None] - right[None], axis=2)

    to = [distance(items[v], points[v]) for v in range(2)]
    among = [distance(points[v], points[v]) for v in range(2)]
    expected = np.zeros((n_items, n_anchors))
    for i in range(n_items):
        for j in range(n_anchors):
            for v in range(2):
                near_i = np.argsort(to[v][i])[:k]
                near_j = np.argsort(among[1 - v][j])[:k]
                pairs = [np.exp(-among[v][a, b] / 2) for a in near_i for b in near_j]
                expected[i, j] += shares[v] * np.mean(pairs)
    np.testing.assert_allclose(fuse_views(to, among, shares, k), expected)


def test_a_small_feature_weight_gives_one_code_to_all():
    data = acqh.make_multiview(100, random_state=0)
    codes = FSH(8, feature_weight=0.01, random_state=0).fit(data.views).training_codes_
    assert len(np.unique(codes, axis=0)) == 1


def test_fewer_items_than_anchors_all_serve_as_anchors():
    data = acqh.make_multiview(20, random_state=0)
    model = FSH(8, n_anchors=50, n_neighbors=60, random_state=0).fit(data.views)
    assert model.training_codes_.shape == (20, 1)
    assert model.objective_[-1] == pytest.approx(min(model.objective_))
