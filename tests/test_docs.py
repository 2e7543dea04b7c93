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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_documentation_lead_somewhere(name):
    """Sphinx checks the links of all other pages."""
    text = (DOCS.parent / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        target = DOCS.parent / path
        assert target.is_file(), link
        if anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", target.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
