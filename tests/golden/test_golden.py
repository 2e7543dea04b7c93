"""Results of small cases equal the stored ones."""

import numpy as np
import pytest
from golden_cases import CASES, FOLDER

# Relative to the largest value, by the precision that a case declares through its dtype. Over
# five BLAS kernels, confidence calibrated from float32 scores differed by up to 6e-6.
TOLERANCES = {"f8": 1e-8, "f4": 2e-5, "f2": 0.06}


def check(name, result, stored):
    assert result.dtype.kind == stored.dtype.kind, name
    if stored.dtype.kind != "f":
        np.testing.assert_array_equal(result, stored, err_msg=name)
        return
    tolerance = TOLERANCES[stored.dtype.str[1:]]
    scale = np.abs(stored[np.isfinite(stored)]).max(initial=0)
    np.testing.assert_allclose(result, stored, rtol=tolerance, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_results_equal_the_stored_ones(name):
    results = CASES[name]()
    with np.load(FOLDER / f"{name}.npz") as stored:
        assert results.keys() == set(stored.files)
        for key in stored.files:
            check(key, results[key], stored[key])
