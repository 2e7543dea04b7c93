"""Kernel maps of tensors against those of arrays, and kernel paths against direct solutions."""

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from acqh.errors import InvalidInputError, ViewError
from acqh.features import KernelMap
from acqh.features.kernels import KERNELS

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
    expected, result = (KernelMap(random_state=0, **SETTINGS[name]) for _ in range(2))
    target = expected.fit_to(X, Y)
    left_out = result.fit_to(torch.from_numpy(X).to(device), Y)
    assert left_out.device.type == device
    assert left_out.dtype == torch.float32
    np.testing.assert_allclose(left_out.cpu().numpy(), target, atol=2e-3)
    np.testing.assert_array_equal(result.anchors_, expected.anchors_)
    np.testing.assert_allclose(result.weights_, expected.weights_)
    np.testing.assert_allclose(result.widths_, expected.widths_, rtol=1e-4)
    np.testing.assert_allclose(result.ridge_, expected.ridge_)
    features = result.transform(torch.from_numpy(new).to(device))
    assert features.device.type == device
    np.testing.assert_allclose(features.cpu().numpy(), expected.transform(new), atol=2e-3)
    # What was learnt on a device serves arrays too.
    np.testing.assert_allclose(result.transform(new), expected.transform(new), atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_coordinates_of_tensors_have_the_same_inner_products(device: str) -> None:
    X = make_rows()[0].astype(np.float64)
    expected = KernelMap(n_anchors=40, random_state=0).fit(X).transform(X)
    rows = torch.from_numpy(X).to(device)
    result = KernelMap(n_anchors=40, random_state=0).fit(rows).transform(rows).cpu().numpy()
    np.testing.assert_allclose(result @ result.T, expected @ expected.T, atol=1e-8)


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_tensors_change_nothing(device: str) -> None:
    X, Y = make_rows()
    rows = torch.from_numpy(X).to(device)
    fitted = KernelMap("rbf", bandwidth=1.0, ridge=0.5, random_state=0)
    fitted.fit_to(rows, Y)
    full = fitted.transform(rows).cpu()
    fitted.max_memory = 8 * 10 * (2 * 160 + 3 * 8)
    np.testing.assert_allclose(fitted.transform(rows).cpu(), full, atol=1e-5)


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
    result = fitted.transform(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(result, fitted.transform(sp.csr_array(X)), atol=2e-3)


def test_prepared_tensors_are_not_copied() -> None:
    X, Y = make_rows()
    fitted = KernelMap(random_state=0)
    fitted.fit_to(torch.from_numpy(X), Y)
    expected = fitted.transform(torch.from_numpy(X))
    assert fitted._ready
    copied = copy.deepcopy(fitted)
    assert not copied._ready
    np.testing.assert_array_equal(copied.transform(torch.from_numpy(X)), expected)


def test_invalid_tensors_are_rejected() -> None:
    X, Y = make_rows()
    rows = torch.from_numpy(X)
    broken = rows.clone()
    broken[3, 1] = torch.nan
    fitted = KernelMap("rbf", bandwidth=1.0, ridge=0.5)
    with pytest.raises(ViewError, match="row 3"):
        fitted.fit_to(broken, Y)
    with pytest.raises(ViewError, match="shape"):
        fitted.fit_to(rows[0], Y)
    with pytest.raises(ViewError, match="Complex"):
        fitted.fit(rows.to(torch.complex64))
    with pytest.raises(InvalidInputError, match="counts"):
        KernelMap("tfidf").fit_to(rows - 1.0, Y)
    with pytest.raises(InvalidInputError, match="targets"):
        fitted.fit_to(rows, Y[1:])
    with pytest.raises(InvalidInputError, match="ridge"):
        KernelMap("rbf", bandwidth=1.0, ridge=1e-300).fit_to(torch.ones((20, 2)), np.eye(20))
    fitted.fit_to(rows, Y)
    with pytest.raises(ViewError, match="features"):
        fitted.transform(rows[:, 1:])
