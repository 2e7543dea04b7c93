import numpy as np
import pytest

from acqh._core.store import pack
from acqh.errors import LabelError, ViewError
from acqh.methods.registry import HOMES
from acqh.stats import Statistics

torch = pytest.importorskip("torch", reason="torch is not installed")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    ),
]


def make_items(n_labels=4, n_items=700, unlabelled=0.1, seed=0):
    rng = np.random.default_rng(seed)
    views = {
        "image": rng.normal(size=(n_items, 9)).astype(np.float32),
        "text": np.where(rng.random((n_items, 6)) < 0.5, 0.0, rng.normal(size=(n_items, 6))),
    }
    views["text"][:3] = views["text"][3:6]
    labels = (rng.random((n_items, n_labels)) < 2.0 / n_labels).astype(np.uint8)
    labels[rng.random(n_items) < unlabelled] = 0
    return views, labels


def to_device(views, device):
    return {name: torch.from_numpy(matrix).to(device) for name, matrix in views.items()}


def assert_same_sums(found, expected):
    ours, theirs = pack(found.compact(), HOMES)[1], pack(expected.compact(), HOMES)[1]
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=1e-12, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", [None, "all"])
@pytest.mark.parametrize("n_labels", [1, 4, 70])
def test_sums_of_tensors_are_those_of_arrays(device, keep, n_labels):
    views, labels = make_items(n_labels)
    expected = Statistics.of(views, labels, keep=keep)
    tensors = to_device(views, device)
    found = Statistics.of(tensors, torch.from_numpy(labels).to(device), keep=keep)
    assert_same_sums(found, expected)
    # Labels may stay on the host.
    assert_same_sums(Statistics.of(tensors, labels, keep=keep), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_and_parts_of_tensors_add_up(device):
    views, labels = make_items()
    expected = Statistics.of(views, labels, keep="all")
    tensors, on_device = to_device(views, device), torch.from_numpy(labels).to(device)
    blocks = Statistics({"image": 9, "text": 6}, 4, "all")
    blocks.update(tensors, on_device, max_memory=1 << 16)
    assert_same_sums(blocks, expected)
    parts = [
        Statistics.of({name: it[rows] for name, it in tensors.items()}, on_device[rows], keep="all")
        for rows in (slice(0, 250), slice(250, None))
    ]
    assert_same_sums(parts[0] + parts[1], expected)
    assert_same_sums(parts[0] + parts[1] - parts[1], parts[0])


@pytest.mark.parametrize("device", DEVICES)
def test_a_small_sample_of_tensors_is_that_of_arrays(device):
    from acqh.stats import Keep

    views, labels = make_items()
    expected = Statistics.of(views, labels, keep=Keep(sample_size=40))
    found = Statistics({"image": 9, "text": 6}, 4, Keep(sample_size=40))
    found.update(to_device(views, device), labels, max_memory=1 << 16)
    assert_same_sums(found, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_by_set_are_the_same_on_every_run(device):
    views, labels = make_items(n_labels=1, n_items=5000)
    tensors = to_device(views, device)
    sums = [Statistics.of(tensors, labels).views["image"].sums for _ in range(3)]
    assert np.array_equal(sums[0], sums[1])
    assert np.array_equal(sums[0], sums[2])


def test_views_that_lie_apart_are_refused():
    views, labels = make_items()
    mixed = {"image": torch.from_numpy(views["image"]), "text": views["text"]}
    with pytest.raises(ViewError, match="on one device"):
        Statistics.of(mixed, labels)


def test_labels_other_than_zero_and_one_are_refused():
    views, labels = make_items()
    with pytest.raises(LabelError, match="0 or 1"):
        Statistics.of(to_device(views, "cpu"), torch.from_numpy(2 * labels))
