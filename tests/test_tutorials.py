import doctest
import re
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"


@pytest.mark.parametrize("page", ["compare.md", "compress.md", "search.md"])
def test_every_python_block_of_a_tutorial_runs_and_prints_what_it_says(tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    text = (TUTORIALS / page).read_text(encoding="utf-8")
    assert all(first.startswith(">>>") for first in re.findall(r"```python\n *(\S+)", text))
    found = doctest.testfile(str(TUTORIALS / page), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
