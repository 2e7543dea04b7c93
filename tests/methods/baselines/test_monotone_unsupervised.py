"""Objectives of unsupervised methods with exact steps never rise."""

import warnings

import numpy as np
import pytest

import acqh
from acqh.errors import FewerBitsWarning

MONOTONE = ["cmfh", "cre", "fsh", "qch", "stacked"]
SIZES = [
    {"n_bits": 3, "n_anchors": 30, "n_codebooks": 2, "codebook_size": 8},
    {"n_bits": 17, "n_anchors": 30, "n_codebooks": 4, "codebook_size": 4},
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MONOTONE)
def test_the_objective_never_rises(name, seed):
    data = acqh.make_multiview(
        90, {"image": 12, "text": 8}, n_labels=5, single_label=seed > 0, random_state=seed
    )
    cls = acqh.methods.get(name)
    parameters = cls().get_params()
    for sizes in SIZES:
        method = cls(**{key: sizes[key] for key in sizes if key in parameters}, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewerBitsWarning)
            method.fit(data.views, data.labels)
        values = np.array(method.objective_)
        assert len(values) == method.n_iter_ > 1
        assert np.all(np.diff(values) <= 1e-9 * np.abs(values[:-1]))
