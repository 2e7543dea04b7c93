"""What tests of commands share."""

import pytest


@pytest.fixture
def plain_defaults(monkeypatch):
    """Let the default encoders be quick ones: training with the others takes five seconds."""
    second = {"image": "hog", "text": "tfidf"}
    monkeypatch.setattr("acqh.encoders.named._best_installed", second.get)
