"""Kernel maps of tensors against those of arrays, and kernel paths against direct solutions."""

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.errors import InvalidInputError, ViewError
from acqh.features import KernelMap
from acqh.features.kernel import choice as choosing
from acqh.features.kernel import solve as solving
from acqh.features.kernel.kernels import KERNELS, Columns, prepare

torch = pytest.importorskip("torch", reason="torch is not installed")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    ),
]
# Kernels and anchors: all rows, some of them; one kernel at a time.
SETTINGS: dict[str, dict[str, Any]] = {
    "all rows": {},
    "some rows": {"n_anchors": 50},
    "all kernels": {"kernels": KERNELS},
    "nothing chosen": {
        "kernels": ("rbf", "hellinger"),
        "bandwidth": 0.7,
        "ridge": 0.3,
    },
}


def make_rows(n_rows: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.poisson(1.0, (n_rows, 8)).astype(np.float32)
    rows[0] = 0.0
    signal = np.stack([np.sin(rows[:, 0]), rows[:, 1] * rows[:, 2]], axis=1)
    return rows, signal + rng.normal(0, 1.0, signal.shape)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SETTINGS)
def test_maps_of_tensors_are_those_of_arrays(device: str, name: str) -> None:
    (X, Y), new = make_rows(), make_rows(30, 1)[0]
    expected, found = (KernelMap(random_state=0, **SETTINGS[name]) for _ in range(2))
    wanted = expected.fit_to(X, Y)
    left_out = found.fit_to(torch.from_numpy(X).to(device), Y)
    assert left_out.device.type == device
    assert left_out.dtype == torch.float32
    np.testing.assert_allclose(left_out.cpu().numpy(), wanted, atol=2e-3)
    np.testing.assert_array_equal(found.anchors_, expected.anchors_)
    np.testing.assert_allclose(found.weights_, expected.weights_)
    np.testing.assert_allclose(found.widths_, expected.widths_, rtol=1e-4)
    np.testing.assert_allclose(found.ridge_, expected.ridge_)
    features = found.transform(torch.from_numpy(new).to(device))
    assert features.device.type == device
    np.testing.assert_allclose(features.cpu().numpy(), expected.transform(new), atol=2e-3)
    # What was learnt on a device serves arrays too.
    np.testing.assert_allclose(found.transform(new), expected.transform(new), atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_coordinates_of_tensors_have_the_same_inner_products(device: str) -> None:
    X = make_rows()[0].astype(np.float64)
    expected = KernelMap(n_anchors=40, random_state=0).fit(X).transform(X)
    rows = torch.from_numpy(X).to(device)
    found = KernelMap(n_anchors=40, random_state=0).fit(rows).transform(rows).cpu().numpy()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_anchors", [None, 60])
def test_blocks_of_tensors_change_nothing(
    monkeypatch: pytest.MonkeyPatch, device: str, n_anchors: int | None
) -> None:
    X, Y = make_rows()
    rows = torch.from_numpy(X).to(device)
    params: dict[str, Any] = {"kernels": "rbf", "bandwidth": 1.0, "ridge": 0.5, "random_state": 0}
    whole = KernelMap(**params, n_anchors=n_anchors).fit_to(rows, Y)
    monkeypatch.setattr(solving, "BLOCK", 7)
    monkeypatch.setattr(solving, "SMALL", 10)
    cut = KernelMap(**params, n_anchors=n_anchors)
    np.testing.assert_allclose(cut.fit_to(rows, Y).cpu(), whole.cpu(), atol=1e-3)
    few = KernelMap(**params, n_anchors=n_anchors)
    few.fit_to(rows, Y)
    few.max_memory = 8 * 10 * (2 * 160 + 3 * 8)
    np.testing.assert_allclose(few.transform(rows).cpu(), cut.transform(rows).cpu(), atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_kernels_tried_at_once_have_the_errors_that_each_has_alone(device: str) -> None:
    X, Y = make_rows(80)
    ridges = [0.01, 0.1, 1.0]
    mixtures = [{("rbf", 5.0): 1.0}, {("rbf", 20.0): 0.3, ("cosine", np.inf): 0.7}]

    def make(kind: Any, rows: Any, targets: Any, **room: int) -> Any:
        idf = rows[0] * 0 + 1
        sides = [
            {name: prepare(name, part, Columns(idf)) for name in ("rbf", "cosine")}
            for part in (rows[:40], rows[40:])
        ]
        return kind(*sides, targets[:40], targets[40:], ridges, **room)

    expected = make(choosing._HostTrial, X.astype(np.float64), Y)
    rows, targets = (torch.from_numpy(it).to(device) for it in (X.astype(np.float64), Y))
    for max_memory in (1, 1 << 20, 1 << 30):
        trial = make(choosing._TensorTrial, rows, targets, max_memory=max_memory)
        trial.try_all(mixtures)
        assert len(trial._known) == 2
        for mixture in mixtures:
            np.testing.assert_allclose(trial.errors(mixture), expected.errors(mixture), rtol=1e-8)


def test_targets_may_be_tensors_too() -> None:
    X, Y = make_rows()
    rows = torch.from_numpy(X)
    maps = [KernelMap("rbf", bandwidth=1.0, ridge=0.5) for _ in range(2)]
    first = maps[0].fit_to(rows, Y)
    np.testing.assert_array_equal(maps[1].fit_to(rows, torch.from_numpy(Y)), first)


def test_a_map_of_sparse_anchors_takes_tensors() -> None:
    X, Y = make_rows()
    fitted = KernelMap(("cosine", "intersection"), random_state=0)
    fitted.fit_to(sp.csr_array(X), Y)
    found = fitted.transform(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(found, fitted.transform(sp.csr_array(X)), atol=2e-3)


def test_what_is_ready_for_a_device_is_not_copied() -> None:
    X, Y = make_rows()
    fitted = KernelMap(random_state=0)
    fitted.fit_to(torch.from_numpy(X), Y)
    expected = fitted.transform(torch.from_numpy(X))
    assert fitted._ready
    copied = copy.deepcopy(fitted)
    assert not copied._ready
    np.testing.assert_array_equal(copied.transform(torch.from_numpy(X)), expected)


def test_tensors_that_cannot_be_are_refused() -> None:
    X, Y = make_rows()
    rows = torch.from_numpy(X)
    broken = rows.clone()
    broken[3, 1] = torch.nan
    fitted = KernelMap("rbf", bandwidth=1.0, ridge=0.5)
    with pytest.raises(ViewError, match="NaN or infinite value in row 3"):
        fitted.fit_to(broken, Y)
    with pytest.raises(ViewError, match=r"shape \(8,\)"):
        fitted.fit_to(rows[0], Y)
    with pytest.raises(ViewError, match="sparse or complex"):
        fitted.fit(rows.to(torch.complex64))
    with pytest.raises(InvalidInputError, match="compares counts"):
        KernelMap("tfidf").fit_to(rows - 1.0, Y)
    with pytest.raises(InvalidInputError, match="targets must be a matrix of 160 rows"):
        fitted.fit_to(rows, Y[1:])
    with pytest.raises(InvalidInputError, match="not positive definite; raise ridge"):
        KernelMap("rbf", bandwidth=1.0, ridge=1e-300).fit_to(torch.ones((20, 2)), np.eye(20))
    fitted.fit_to(rows, Y)
    with pytest.raises(ViewError, match="7 columns, but 8 were fitted"):
        fitted.transform(rows[:, 1:])
