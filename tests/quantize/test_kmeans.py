import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.quantize.codebooks import weighted_kmeans


def weighted_error(points, weights, words, codes):
    return float(weights @ np.square(points - words[codes]).sum(axis=1))


def lloyd(points, weights, words, n_steps):
    """Run the plainest k-means there is: nearest words, weighted means."""
    for _ in range(n_steps):
        codes = np.square(points[:, None] - words).sum(axis=2).argmin(axis=1)
        words = np.array(
            [np.average(points[codes == j], axis=0, weights=weights[codes == j]) for j in range(4)]
        )
    return words


def make_clusters(seed=0, n_items=60):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    points = centres[rng.integers(0, 4, n_items)] + rng.normal(size=(n_items, 2))
    return points, rng.uniform(0.5, 2.0, n_items)


def test_centroids_are_a_fixed_point_of_lloyds_steps():
    points, weights = make_clusters()
    words, codes = weighted_kmeans(points, weights, 4, np.random.default_rng(0), max_iter=50)
    np.testing.assert_allclose(lloyd(points, weights, words, 3), words, atol=1e-12)
    np.testing.assert_array_equal(
        codes, np.square(points[:, None] - words).sum(axis=2).argmin(axis=1)
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    n_distinct=st.integers(1, 12),
    n_words=st.integers(1, 20),
    n_components=st.integers(1, 3),
)
def test_more_centroids_than_distinct_points_leave_no_error(
    seed, n_distinct, n_words, n_components
):
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, (n_distinct, n_components)).astype(float)
    points = points[rng.integers(0, n_distinct, 30)]
    words, codes = weighted_kmeans(points, np.ones(30), n_words, rng)
    assert np.isfinite(words).all()
    assert codes.max() < n_words
    distinct = len(np.unique(points, axis=0))
    if n_words >= distinct:
        assert weighted_error(points, np.ones(30), words, codes) < 1e-20
        unused = np.setdiff1d(np.arange(n_words), codes)
        assert len(unused) >= n_words - distinct


def test_unused_centroids_are_zero():
    points = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    words, codes = weighted_kmeans(points, np.ones(3), 5, np.random.default_rng(0))
    assert not words[2:].any()
    np.testing.assert_array_equal(words[codes], points)


def test_points_without_weight_do_not_move_centroids():
    points, weights = make_clusters()
    far = np.concatenate([points, np.full((5, 2), 1e6)])
    masked = np.concatenate([weights, np.zeros(5)])
    words, _ = weighted_kmeans(points, weights, 4, np.random.default_rng(1))
    others, _ = weighted_kmeans(far, masked, 4, np.random.default_rng(1))
    np.testing.assert_allclose(others, words, atol=1e-9)


def test_a_centroid_that_loses_its_points_moves_to_the_worst_one():
    points = np.array([[0.0], [0.0], [1.0], [10.0]])
    words, codes = weighted_kmeans(points, np.ones(4), 3, np.random.default_rng(0))
    assert sorted(words.ravel().tolist()) == [0.0, 1.0, 10.0]
    np.testing.assert_array_equal(words[codes], points)


def test_the_same_generator_state_gives_the_same_centroids():
    points, weights = make_clusters()
    first = weighted_kmeans(points, weights, 8, np.random.default_rng(5))
    second = weighted_kmeans(points, weights, 8, np.random.default_rng(5))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_quick_clusters_are_as_good_and_do_not_depend_on_where_points_lie():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 6))
    points = centres[rng.integers(0, 40, 2000)] + 0.2 * rng.normal(size=(2000, 6))
    weights = rng.uniform(0.5, 1.5, 2000)

    def error(points, **how):
        words, codes = weighted_kmeans(points, weights, 32, np.random.default_rng(1), **how)
        return weights @ np.square(points - words[codes]).sum(axis=1)

    assert error(points, is_quick=True) < 1.01 * error(points)
    # Distances are compared in single precision, which would not see points this far apart.
    assert error(points + 1e6, is_quick=True) == pytest.approx(error(points, is_quick=True), 1e-3)
