import pytest


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    """Keep models that the user has downloaded out of the tests."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
