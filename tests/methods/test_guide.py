import doctest
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "methods.md"


@pytest.mark.parametrize("page", ["methods.md", "targets.md"])
def test_the_examples_of_the_guide_print_what_they_say(page):
    found = doctest.testfile(str(GUIDE.parent / page), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_table_of_the_guide_is_that_of_the_registry():
    spec = importlib.util.spec_from_file_location("table", ROOT / "tools" / "methods_table.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = GUIDE.read_text(encoding="utf-8")
    assert tool.renew(page) == page, "run: python tools/methods_table.py"
