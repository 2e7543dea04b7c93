"""Objectives of methods with exact steps never rise."""

import numpy as np
import pytest

import acqh

MONOTONE = ["adch", "dch", "dcmh-discrete", "fdch", "gsph"]


@pytest.mark.parametrize("single_label", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MONOTONE)
def test_the_objective_never_rises(name, seed, single_label):
    data = acqh.make_multiview(
        90, {"image": 12, "text": 8}, n_labels=4, single_label=single_label, random_state=seed
    )
    cls = acqh.methods.get(name)
    sizes = {"n_anchors": 30} if "n_anchors" in cls().get_params() else {}
    for n_bits in (3, 17):
        method = cls(n_bits, random_state=seed, **sizes).fit(data.views, data.labels)
        values = np.array(method.objective_)
        assert len(values) == method.n_iter_
        assert np.all(np.diff(values) <= 1e-9 * np.abs(values[:-1]))
