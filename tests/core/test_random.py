import numpy as np
import pytest

from acqh._core.runtime import check_rng
from acqh.errors import InvalidInputError


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(0)
    assert check_rng(rng) is rng


@pytest.mark.parametrize("wrong", ["x", -1, 0.5])
def test_invalid_seeds_are_rejected(wrong):
    with pytest.raises(InvalidInputError, match="random_state"):
        check_rng(wrong)
