"""The Python examples of every page print what the page shows.

A page names the packages that its examples need in a comment: ``<!-- needs: pyarrow -->``.
"""

import doctest
import re
from pathlib import Path
from unittest.mock import patch

import pytest

from acqh.encoders import named

DOCS = Path(__file__).resolve().parents[1] / "docs"
# These have tests of their own: tutorials run commands too, recipes one section at a time.
ELSEWHERE = {"tutorials", "frameworks.md"}
PAGES = [
    page.relative_to(DOCS).as_posix()
    for page in sorted(DOCS.rglob("*.md"))
    if "\n>>> " in page.read_text(encoding="utf-8")
    and not ELSEWHERE & {page.parent.name, page.name}
    and not {"_build", "gallery", "generated"} & set(page.parts)
]


def test_many_pages_have_examples():
    assert len(PAGES) >= 10


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page_print_the_stated_output(page, tmp_path, monkeypatch):
    text = (DOCS / page).read_text(encoding="utf-8")
    for package in re.findall(r"[\w.]+", "".join(re.findall(r"<!-- needs: (.*) -->", text))):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    options = doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS
    examples = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    with patch.dict(named.STORED):  # examples may register an encoder
        result = doctest.DocTestRunner(optionflags=options).run(examples)
    assert result.attempted > 0
    assert result.failed == 0
