import doctest
from pathlib import Path

from acqh.encoders import named

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "collections.md"


def test_the_examples_of_the_guide_print_what_they_say(monkeypatch):
    # The guide registers a class of its own.
    monkeypatch.delitem(named.STORED, "MeanColour", raising=False)
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
