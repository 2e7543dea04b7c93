import pytest

import acqh


@pytest.fixture(scope="session")
def items():
    return acqh.make_multiview(230, n_labels=4, random_state=0)


@pytest.fixture(scope="session")
def model(items):
    return acqh.ACQH(8, n_codebooks=2, random_state=0).fit(items)
