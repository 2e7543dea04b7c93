import doctest
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.parametrize(("page", "least"), [("features.md", 10), ("general-model.md", 8)])
def test_the_examples_of_the_guide_print_what_they_say(page: str, least: int) -> None:
    result = doctest.testfile(str(GUIDE / page), module_relative=False)
    assert result.attempted > least
    assert result.failed == 0
