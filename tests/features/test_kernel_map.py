"""Kernel maps, compared with explicit kernel ridge regression, and their errors."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh._core.store import pack, unpack
from acqh.errors import InvalidInputError
from acqh.features import KernelMap, base, kernels, make_feature_map
from acqh.features import kernel_choice as choosing
from acqh.features import kernel_map as mapping
from acqh.features import kernel_ridge as solving
from acqh.features.kernels import (
    KERNELS,
    Columns,
    default_kernels,
    kernel_block,
    prepare,
    products,
)
from acqh.methods.registry import HOMES

RIDGE = 0.3


def counts(n_rows: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).poisson(0.7, (n_rows, 8)).astype(np.float64)
    rows[0] = 0.0  # a row without any tag
    return rows


def smooth(rows: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(rows[:, 0]), rows[:, 1] * rows[:, 2]], axis=1)


def unit(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)


def similarity(name: str, left: np.ndarray, right: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return the inner products of a kernel, one pair at a time."""
    if name == "intersection":
        shared = np.array([[np.minimum(x, z).sum() for z in right] for x in left])
        norms = np.sqrt(np.outer(left.sum(axis=1), right.sum(axis=1)))
        return shared / np.where(norms > 0, norms, 1.0)
    idf = 1 + np.log((1 + len(train)) / (1 + np.count_nonzero(train, axis=0)))
    prepared = {
        "rbf": lambda rows: rows,
        "hellinger": lambda rows: unit(np.sqrt(rows)),
        "cosine": unit,
        "tfidf": lambda rows: unit(rows * idf),
    }[name]
    return np.array([[x @ z for z in prepared(right)] for x in prepared(left)])


def gaussian(name: str, left: np.ndarray, right: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return the kernel of bandwidth one: of the mean squared distance of training rows."""

    def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        diagonals = [np.diag(similarity(name, X, X, train)) for X in (a, b)]
        return diagonals[0][:, None] + diagonals[1][None] - 2 * similarity(name, a, b, train)

    return np.exp(-distances(left, right) / distances(train, train).mean())


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_predictions_are_those_of_kernel_ridge_regression(name: str, is_sparse: bool) -> None:
    X, new, Y = counts(30, 0), counts(9, 1), smooth(counts(30, 0))
    fitted = KernelMap(name, bandwidth=1.0, ridge=RIDGE)
    left_out = fitted.fit_to(sp.csr_array(X) if is_sparse else X, Y)
    kernel = gaussian(name, X, X, X)
    dual = np.linalg.solve(kernel + RIDGE * np.eye(30), Y - Y.mean(axis=0))
    expected = gaussian(name, new, X, X) @ dual + Y.mean(axis=0)
    result = fitted.transform(sp.csr_array(new) if is_sparse else new)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    for row in (0, 7, 29):
        rest = np.arange(30) != row
        without = np.linalg.solve(
            kernel[np.ix_(rest, rest)] + RIDGE * np.eye(29), Y[rest] - Y.mean(axis=0)
        )
        np.testing.assert_allclose(
            left_out[row], kernel[row, rest] @ without + Y.mean(axis=0), atol=1e-5
        )


@pytest.mark.parametrize("is_single", [False, True])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, is_single: bool) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    Y = smooth(X)
    full = KernelMap("rbf", bandwidth=1.0, ridge=RIDGE)
    expected = full.fit_to(X, Y)
    monkeypatch.setattr(solving, "BLOCK", 7)
    if is_single:
        monkeypatch.setattr(solving, "SMALL", 10)
    cut = KernelMap("rbf", bandwidth=1.0, ridge=RIDGE)
    tolerance = 1e-4 if is_single else 1e-6
    np.testing.assert_allclose(cut.fit_to(X, Y), expected, atol=tolerance)
    np.testing.assert_allclose(cut.coefficients_, full.coefficients_, atol=10 * tolerance)


def test_inner_products_of_features_are_kernels() -> None:
    X, new = np.random.default_rng(0).normal(size=(2, 25, 3))
    fitted = KernelMap("rbf").fit(X)
    inner = fitted.transform(X) @ fitted.transform(X).T
    np.testing.assert_allclose(inner, gaussian("rbf", X, X, X), atol=1e-9)
    # A linear ridge regression on the features is the kernel's.
    Y, features = smooth(X), fitted.transform(X)
    gram = features.T @ features + RIDGE * np.eye(features.shape[1])
    predicted = fitted.transform(new) @ np.linalg.solve(gram, features.T @ Y)
    dual = np.linalg.solve(gaussian("rbf", X, X, X) + RIDGE * np.eye(25), Y)
    np.testing.assert_allclose(predicted, gaussian("rbf", new, X, X) @ dual, atol=1e-6)


def test_anchors_are_no_more_than_normal_equations_take(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    every = KernelMap("rbf", random_state=0)
    every.fit_to(X, smooth(X))
    np.testing.assert_array_equal(every.anchors_, X)
    monkeypatch.setattr(mapping, "SMALL", 20)
    for n_anchors, expected in ((None, 100), (100, 100), (10, 10), (60, 20)):
        fitted = KernelMap("rbf", n_anchors=n_anchors, ridge=RIDGE, random_state=0)
        fitted.fit_to(X, smooth(X))
        assert fitted.anchors_.shape[0] == expected
    monkeypatch.setattr(KernelMap, "max_memory", 4 * 99**2)
    every.fit_to(X, smooth(X))
    assert every.anchors_.shape[0] == 20


@pytest.mark.parametrize("max_memory", [1, 1 << 30])
def test_some_anchors_are_solved_for_as_directly(
    monkeypatch: pytest.MonkeyPatch, max_memory: int
) -> None:
    """Kernels kept or not, a block at a time."""
    monkeypatch.setattr(solving, "BLOCK", 16)
    monkeypatch.setattr(solving, "row_blocks", lambda n, width: base.row_blocks(n, width, 40 * 70))
    monkeypatch.setattr(KernelMap, "max_memory", max_memory)
    X = np.random.default_rng(0).normal(size=(300, 3))
    Y = smooth(X) + np.random.default_rng(1).normal(0, 0.3, (300, 2))
    fitted = KernelMap("rbf", bandwidth=1.0, ridge=RIDGE, n_anchors=70, random_state=0)
    left_out = fitted.fit_to(X, Y)

    def kernel(left: np.ndarray) -> np.ndarray:
        apart = np.square(left[:, None] - fitted.anchors_[None]).sum(axis=2)
        return np.exp(-apart / fitted.widths_[0])

    across, centred = kernel(X), Y - Y.mean(axis=0)
    values, vectors = np.linalg.eigh(kernel(fitted.anchors_))
    root = np.sqrt(RIDGE * np.maximum(values, 0.0))[:, None] * vectors.T
    stacked = np.concatenate([np.eye(300), np.zeros((70, 300))])
    hat = across @ np.linalg.lstsq(np.concatenate([across, root]), stacked, rcond=None)[0]
    np.testing.assert_allclose(fitted.transform(X), hat @ centred + Y.mean(axis=0), atol=3e-4)
    expected = Y - (centred - hat @ centred) / (1.0 - np.diag(hat))[:, None]
    np.testing.assert_allclose(left_out, expected, atol=1e-5)


@settings(max_examples=10, derandomize=True)
@given(seed=st.integers(0, 50), n_anchors=st.integers(5, 30))
def test_fewer_anchors_solve_the_normal_equations(seed: int, n_anchors: int) -> None:
    X = np.random.default_rng(seed).normal(size=(60, 3))
    Y = smooth(X)
    fitted = KernelMap("rbf", bandwidth=1.0, ridge=RIDGE, n_anchors=n_anchors, random_state=seed)
    left_out = fitted.fit_to(X, Y)
    anchors = fitted.anchors_.astype(np.float64)
    assert anchors.shape == (n_anchors, 3)

    def kernel(left: np.ndarray) -> np.ndarray:
        squared = np.square(left[:, None] - anchors[None]).sum(axis=2)
        return np.exp(-squared / fitted.widths_[0])

    across = kernel(X)
    gram = across.T @ across + RIDGE * kernel(anchors)
    expected = across @ np.linalg.solve(gram, across.T @ (Y - Y.mean(axis=0))) + Y.mean(axis=0)
    np.testing.assert_allclose(fitted.transform(X), expected, atol=2e-3)
    # Errors of held-out rows are larger than those of training rows.
    assert np.sum((left_out - Y) ** 2) > np.sum((expected - Y) ** 2)


def test_rows_that_others_do_not_resemble_become_anchors() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.01, (190, 2)), rng.normal(0, 30.0, (10, 2))])
    fitted = KernelMap("rbf", bandwidth=0.1, ridge=0.1, n_anchors=30, random_state=0)
    fitted.fit_to(X, smooth(np.hstack([X, X])))
    far = np.linalg.norm(np.asarray(fitted.anchors_, dtype=float), axis=1) > 1
    assert np.count_nonzero(far) >= 9


def test_a_bandwidth_is_chosen_that_predicts() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 1))
    Y = np.sin(12 * X)
    chosen = KernelMap("rbf", random_state=0)
    left_out = chosen.fit_to(X, Y)
    wide = KernelMap("rbf", bandwidth=4.0, ridge=1.0, random_state=0).fit_to(X, Y)
    assert np.mean((left_out - Y) ** 2) < 0.01 < np.mean((wide - Y) ** 2)
    assert chosen.error_ < 0.01


def test_kernels_are_weighted_by_their_predictions() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * [1.0, 5.0]
    angle = np.arctan2(X[:, 1], X[:, 0])
    along = KernelMap(("rbf", "cosine"), random_state=0)
    along.fit_to(X, np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert along.weights_[2] > 0.5
    np.testing.assert_allclose(along.weights_.sum(), 1.0)
    lone = [KernelMap(name, random_state=0) for name in ("rbf", "cosine")]
    for single in lone:
        single.fit_to(X, np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert along.error_ <= min(single.error_ for single in lone)


def test_the_same_seed_gives_the_same_map() -> None:
    X = np.random.default_rng(0).normal(size=(80, 3))
    maps = [KernelMap(n_anchors=20, random_state=3) for _ in range(2)]
    result = [kernel_map.fit_to(X, smooth(X)) for kernel_map in maps]
    np.testing.assert_array_equal(*result)
    np.testing.assert_array_equal(maps[0].transform(X), maps[1].transform(X))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_fitted_map_survives_storage(is_sparse: bool) -> None:
    X: Any = counts(30, 0)
    X = sp.csr_array(X) if is_sparse else X
    fitted = KernelMap(random_state=0)
    fitted.fit_to(X, smooth(counts(30, 0)))
    restored = unpack(*pack(fitted, HOMES), HOMES)
    np.testing.assert_array_equal(restored.transform(X), fitted.transform(X))


def test_stored_weights_of_other_kernels_are_rejected() -> None:
    description, arrays = pack(KernelMap().fit(counts(10, 0)), HOMES)
    arrays |= {"weights_": np.ones(2), "widths_": np.ones(2)}
    with pytest.raises(InvalidInputError, match="weights_"):
        unpack(description, arrays, HOMES)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("max_pairs", [1, 7, 1 << 22])
def test_intersections_are_sums_of_the_smaller_counts(
    monkeypatch: pytest.MonkeyPatch, form: Any, max_pairs: int
) -> None:
    monkeypatch.setattr(kernels, "_MAX_PAIRS", max_pairs)
    left, right = counts(12, 0), counts(9, 1)
    sides = [prepare("intersection", form(rows), Columns(np.ones(8))) for rows in (left, right)]
    expected = similarity("intersection", left, right, left)
    np.testing.assert_allclose(products(*sides), expected, atol=1e-12)


def test_a_row_of_stored_zeros_has_the_intersection_of_an_empty_one() -> None:
    stored = sp.csr_array(1.0 + counts(6, 0))
    stored.data[: stored.indptr[1]] = 0
    empty = stored.copy()
    empty.eliminate_zeros()
    result, expected = (
        kernel_block(side, side, 2.0)
        for side in (prepare("intersection", rows, Columns(np.ones(8))) for rows in (stored, empty))
    )
    np.testing.assert_array_equal(result, expected)
    assert result[0, 0] == 1.0
    assert not stored.data.all()


def test_a_name_makes_a_kernel_map() -> None:
    assert isinstance(make_feature_map("kernel", kernels="cosine"), KernelMap)


def test_rows_that_are_all_zero_have_features() -> None:
    nothing = sp.csr_array(np.zeros((4, 3)))
    assert KernelMap().fit(nothing).transform(nothing).shape == (4, 1)
    assert np.all(np.isfinite(KernelMap().fit_to(nothing, np.eye(4))))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernels": "poly"}, "kernels"),
        ({"kernels": ()}, "kernels"),
        ({"kernels": ("rbf", "rbf")}, "kernels"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": float("nan")}, "ridge"),
        ({"n_anchors": 0}, "n_anchors"),
        ({"kernels": "tfidf"}, "tfidf"),
    ],
)
def test_invalid_parameters_are_rejected(params: dict[str, Any], message: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    for learn in (
        lambda kernel_map: kernel_map.fit(X),
        lambda kernel_map: kernel_map.fit_to(X, smooth(X)),
    ):
        with pytest.raises(InvalidInputError, match=message):
            learn(KernelMap(**params))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.zeros(20), "targets"),
        (np.zeros((19, 2)), "targets"),
        (np.full((20, 1), np.nan), "NaN"),
    ],
)
def test_targets_that_do_not_fit_are_rejected(targets: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        KernelMap().fit_to(np.eye(20), targets)


def test_a_ridge_too_small_for_repeated_rows_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="ridge"):
        KernelMap("rbf", bandwidth=1.0, ridge=1e-300).fit_to(np.ones((20, 2)), np.eye(20))


def test_the_ridge_minimizes_the_error_on_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    Y = smooth(np.hstack([X, X])) + rng.normal(0, 0.3, (90, 2))
    kernel, centred = gaussian("rbf", X, X, X), Y - Y.mean(axis=0)

    def error(ridge: float) -> float:
        inverse = np.linalg.inv(kernel + ridge * np.eye(90))
        return float(np.sum((inverse @ centred / np.diag(inverse)[:, None]) ** 2))

    for start in (0.002, 0.03, 0.5):
        ridge = solving.refine_ridge(kernel, centred, start)
        assert error(ridge) <= min(error(start), error(2 * ridge), error(ridge / 2))


def test_narrow_histograms_are_tried_with_intersections() -> None:
    rows = np.abs(np.random.default_rng(0).normal(size=(6, 300)))
    assert default_kernels(rows[:, :256]) == ("rbf", "hellinger", "cosine", "intersection")
    assert default_kernels(rows) == ("rbf", "hellinger", "cosine")
    assert default_kernels(-rows[:, :256]) == ("rbf", "hellinger", "cosine")


def test_a_kernel_is_added_only_if_it_lowers_the_error_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where little can be explained, a little more is enough, with whichever share does best."""
    errors = {0.0: 0.95, 0.25: 0.9501, 0.5: 0.9499, 0.75: 0.949}

    def least_error(trials: Any, mixture: Any) -> tuple[float, float]:
        return errors[mixture.get(("cosine", 2.0), 0.0)], 0.5

    monkeypatch.setattr(choosing, "_least_error", least_error)
    result = {"rbf": (0.95, 1.0, 0.1), "cosine": (0.96, 2.0, 0.1)}
    chosen = choosing._mix([], result)
    np.testing.assert_allclose(chosen.weights, [0.25, 0.0, 0.75, 0.0, 0.0])
    assert chosen.error == 0.949
    monkeypatch.setitem(errors, 0.75, 0.94999)
    monkeypatch.setitem(errors, 0.5, 0.94999)
    assert choosing._mix([], result).weights[0] == 1.0


@pytest.mark.parametrize("options", [{}, {"bandwidth": 0.5, "ridge": 1e-2, "n_anchors": 100}])
def test_float32_rows_far_from_zero_keep_the_digits_of_their_distances(options):
    # Multiples of 2^-10 below 4,096: float32 holds them, shifted or not.
    rows = np.round(np.random.default_rng(0).normal(size=(300, 4)) * 1024) / 1024
    near, far = rows.astype(np.float32), (rows + 2048).astype(np.float32)
    targets = np.sin(rows[:200, :2])
    result = []
    for X in (near, far):
        learnt = KernelMap("rbf", random_state=0, **options)
        left_out = learnt.fit_to(X[:200], targets)
        result.append(np.concatenate([left_out, learnt.transform(X[200:])]))
    assert result[1].dtype == np.float32
    np.testing.assert_allclose(result[1], result[0], atol=2e-3)
