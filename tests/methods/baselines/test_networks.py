"""Methods that train networks: gradients, devices, randomness, and use without torch."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import acqh
from acqh.bench import evaluate, make_split
from acqh.errors import DeviceError, InvalidInputError, MissingExtraError, ViewError
from acqh.methods.baselines.networks import (
    DDCMH,
    DeepCMH,
    batch_loss,
    reconstruct_codes,
    share_label,
    standardisation,
)

METHODS = pytest.mark.parametrize("cls", [DeepCMH, DDCMH])
QUICK = {"hidden": 16, "max_epochs": 3, "batch_size": 16, "random_state": 0}


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed: acqh[torch]")


@pytest.fixture(scope="module")
def data():
    widths = {"image": 12, "text": 14}
    return acqh.make_multiview(60, widths, n_labels=3, noise=0.3, random_state=0)


def test_the_gradient_is_that_of_the_formula(torch):
    rng = np.random.default_rng(0)
    F, G = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    S, B = rng.integers(2, size=(5, 7)), rng.choice([-1.0, 1.0], (5, 3))
    rest, gamma, eta = rng.normal(size=3), 0.7, 0.3
    outputs = torch.tensor(F, requires_grad=True)
    fixed = [torch.tensor(array) for array in (G, S, B, rest)]
    batch_loss(outputs, *fixed, gamma, eta).backward()
    sigma = 1.0 / (1.0 + np.exp(-F @ G.T / 2.0))
    expected = (sigma - S) @ G / 2.0 + 2.0 * gamma * (F - B) + 2.0 * eta * (rest + F.sum(0))
    np.testing.assert_allclose(outputs.grad.numpy(), expected, rtol=1e-10)


def test_the_loss_stays_finite_where_an_exponential_would_not(torch):
    outputs = torch.tensor([[2000.0]], requires_grad=True)
    others = torch.tensor([[2.0], [-2.0]])
    nothing = torch.zeros(1, 1)
    loss = batch_loss(outputs, others, torch.zeros(1, 2), nothing, nothing[0], 0.0, 0.0)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(2000.0)
    assert float(outputs.grad) == pytest.approx(1.0)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_items_are_similar_that_share_a_label(form):
    labels = form(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(share_label(labels, np.array([0])), [[True, True, False]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_standardised_rows_have_zero_mean_and_unit_mean_square(form):
    X = np.random.default_rng(0).normal(3.0, 5.0, (50, 4))
    mean, scale = standardisation(form(X))
    Z = (X - mean) / scale
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-12)
    assert np.mean(np.sum(Z**2, axis=1)) == pytest.approx(1.0)


def test_constant_features_are_not_divided_by_zero():
    assert standardisation(np.ones((3, 2)))[1] == 1.0


def test_a_sure_network_turns_a_bit_and_an_unsure_one_does_not():
    result = reconstruct_codes(np.array([[-3.0, -0.5, 3.0]]), np.array([[1.0, 1.0, -1.0]]))
    np.testing.assert_array_equal(result, [[-1.0, 1.0, 1.0]])


@METHODS
def test_numpy_reproduces_the_trained_network(cls, torch, data):
    model = cls(8, **QUICK).fit(data.views, data.labels)
    for view, X in data.views.items():
        hidden = torch.tensor(X @ model.hidden_weights_[view] + model.hidden_biases_[view]).relu()
        expected = hidden.numpy() @ model.output_weights_[view] + model.output_biases_[view]
        np.testing.assert_allclose(model.project(X, view=view), expected)


@METHODS
def test_a_fitted_network_needs_no_torch(cls, torch, data, tmp_path, monkeypatch):
    model = cls(8, **QUICK).fit(data.views, data.labels)
    model.save(tmp_path)
    expected = model.hash(data.views["image"], view="image")
    monkeypatch.setitem(sys.modules, "torch", None)
    loaded = acqh.methods.load_method(tmp_path)
    np.testing.assert_array_equal(loaded.hash(data.views["image"], view="image"), expected)


@METHODS
def test_without_torch_methods_are_listed_and_fit_names_the_extra(cls, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cls.info.name in acqh.methods.list()
    with pytest.raises(MissingExtraError, match=r"acqh\[torch\]"):
        cls(8).fit(data.views, data.labels)


@METHODS
def test_a_missing_device_is_an_error(cls, torch, data):
    with pytest.raises(DeviceError, match="cuda:99"):
        cls(8, device="cuda:99").fit(data.views, data.labels)


@METHODS
@pytest.mark.parametrize("device", ["abacus", "meta", ""])
def test_a_device_of_another_kind_is_rejected(cls, device, torch, data):
    with pytest.raises(InvalidInputError, match="not available"):
        cls(8, device=device).fit(data.views, data.labels)


@METHODS
def test_training_leaves_the_random_numbers_of_others_alone(cls, torch, data):
    before = torch.random.get_rng_state()
    cls(8, **QUICK).fit(data.views, data.labels)
    assert torch.equal(torch.random.get_rng_state(), before)


@METHODS
def test_the_loss_falls_over_the_epochs(cls, torch, data):
    model = cls(8, **(QUICK | {"max_epochs": 10})).fit(data.views, data.labels)
    per_network = np.reshape(model.loss_, (-1, 10))
    assert (per_network[:, -1] < per_network[:, 0]).all()


@METHODS
@pytest.mark.parametrize(
    "wrong",
    [{"hidden": 0}, {"max_epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"device": 1}],
    ids=str,
)
def test_wrong_settings_are_rejected_by_name(cls, wrong, data):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        cls(8, **wrong).fit(data.views, data.labels)


def test_an_unknown_base_view_is_rejected(torch, data):
    with pytest.raises(ViewError, match="base_view is 'sound'"):
        DDCMH(8, base_view="sound", **QUICK).fit(data.views, data.labels)


@pytest.mark.slow
@METHODS
def test_unseen_wiki_items_are_found_far_better_than_by_chance(cls, torch, data_dir):
    wiki = acqh.load_dataset("wiki", data_dir=data_dir)
    model = cls(16, hidden=128, max_epochs=10, random_state=0)
    rows = evaluate(model, wiki, make_split(wiki, "labelled", official=True), database="single")
    assert min(row.map_all for row in rows) > 0.15  # chance is 0.111
