import doctest
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("faiss")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "export.md"


def test_the_examples_of_the_guide_print_what_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
