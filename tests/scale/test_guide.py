import doctest
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.parametrize("page", ["compress.md", "scale.md"])
def test_the_examples_of_the_guide_print_what_they_say(tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(GUIDE / page), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
