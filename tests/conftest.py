"""Fixtures every room's tests may use."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder with the real data sets, or skip: they cannot be shipped with the code."""
    for candidate in (os.environ.get("ACQH_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (Path(candidate) / "wiki.npz").is_file():
            return Path(candidate)
    pytest.skip("real data not found: set ACQH_DATA to the folder that holds wiki.npz")
