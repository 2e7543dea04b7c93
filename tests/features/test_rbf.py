"""The RBF-anchor variants against their formulas written as loops."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.errors import InvalidInputError
from acqh.features import RBFAnchors
from acqh.features.rbf import RBF_VARIANTS


def rows(n_rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, 2.0, (n_rows, 3))


def squared(x: np.ndarray, a: np.ndarray) -> float:
    return float(sum((p - q) ** 2 for p, q in zip(x, a, strict=True)))


def mean_squared(left: Any, right: Any) -> float:
    return float(np.mean([squared(x, a) for x in left for a in right]))


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def by_loops(variant: str, X: np.ndarray, new: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    if variant == "rbf_fixed":
        values = [[np.exp(-squared(x, a) / (2 * 0.4**2)) for a in anchors] for x in unit(new)]
        return np.hstack([values, np.ones((len(new), 1))])
    width = {
        "rbf_mean2": lambda: 2 * mean_squared(X, anchors),
        "rbf_mean": lambda: mean_squared(X, X),
        "rbf_scaled": lambda: 2 * 0.5 * mean_squared(anchors, anchors),
    }[variant]()
    values = np.array([[np.exp(-squared(x, a) / width) for a in anchors] for x in new])
    if variant == "rbf_mean":
        return values
    train = np.array([[np.exp(-squared(x, a) / width) for a in anchors] for x in X])
    return values - train.mean(axis=0)


@pytest.mark.parametrize("variant", RBF_VARIANTS)
@pytest.mark.parametrize("anchors", ["random", "kmeans"])
@settings(max_examples=15)
@given(seed=st.integers(0, 50))
def test_variants_follow_their_formulas(variant: str, anchors: str, seed: int) -> None:
    X, new = rows(12, seed), rows(4, seed + 1000)
    fitted = RBFAnchors(5, variant=variant, anchors=anchors, random_state=seed).fit(X)
    expected = by_loops(variant, X, new, fitted.anchors_)
    np.testing.assert_allclose(fitted.transform(new), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variant", ["rbf_mean2", "rbf_scaled"])
def test_centred_variants_have_training_mean_zero(variant: str) -> None:
    features = RBFAnchors(7, variant=variant, random_state=0).fit_transform(rows(30, 0))
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-14)


def test_random_anchors_are_distinct_training_rows() -> None:
    X = rows(30, 0)
    anchors = RBFAnchors(10, random_state=0).fit(X).anchors_
    result = [int(np.flatnonzero((anchor == X).all(axis=1))[0]) for anchor in anchors]
    assert len(set(result)) == 10


@pytest.mark.parametrize("anchors", ["random", "kmeans"])
def test_all_rows_are_anchors_if_there_are_too_few(anchors: str) -> None:
    X = rows(6, 0)
    fitted = RBFAnchors(1000, variant="rbf_mean", anchors=anchors).fit(X)
    np.testing.assert_array_equal(fitted.anchors_, X)
    np.testing.assert_allclose(np.diag(fitted.transform(X)), 1)


def test_anchors_of_sparse_rows_stay_sparse() -> None:
    X = sp.random_array((50, 20), density=0.1, random_state=0, format="csr")
    assert sp.issparse(RBFAnchors(10, random_state=0).fit(X).anchors_)


@pytest.mark.parametrize("variant", RBF_VARIANTS)
@pytest.mark.parametrize("anchors", ["random", "kmeans"])
def test_the_same_seed_gives_the_same_features(variant: str, anchors: str) -> None:
    first, again = (
        RBFAnchors(5, variant=variant, anchors=anchors, random_state=3).fit_transform(rows(20, 0))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("variant", RBF_VARIANTS)
def test_an_explicit_sigma_replaces_the_rule(variant: str) -> None:
    assert RBFAnchors(5, variant=variant, sigma=2.5, random_state=0).fit(rows(9, 0)).sigma_ == 2.5


@pytest.mark.parametrize("variant", RBF_VARIANTS)
def test_equal_rows_give_finite_features(variant: str) -> None:
    features = RBFAnchors(2, variant=variant).fit_transform(np.full((4, 3), 0.1))
    assert np.isfinite(features).all()


def test_a_far_away_mean_costs_no_precision() -> None:
    X = rows(30, 0)
    near = RBFAnchors(5, random_state=0).fit_transform(X)
    far = RBFAnchors(5, random_state=0).fit_transform(X + 1e4)
    np.testing.assert_allclose(far, near, atol=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_anchors": 0}, "n_anchors must be a whole number"),
        ({"variant": "rbf"}, "variant must be one of"),
        ({"anchors": "all"}, "'random' or 'kmeans'"),
        ({"sigma": 0.0}, "sigma must be a positive number"),
        ({"scale": float("nan")}, "scale must be a positive number"),
    ],
)
def test_parameters_out_of_range_are_rejected(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        RBFAnchors(**params).fit(rows(5, 0))
