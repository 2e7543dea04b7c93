import doctest
from pathlib import Path

from acqh.features import named

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "collections.md"


def test_the_examples_of_the_guide_print_what_they_say(monkeypatch):
    # The guide registers a class of its own.
    monkeypatch.setattr(named, "_STORABLE", dict(named._STORABLE))
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
