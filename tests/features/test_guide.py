import doctest
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "features.md"


def test_the_examples_of_the_guide_print_what_they_say() -> None:
    result = doctest.testfile(str(GUIDE), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0
