"""The Python examples of every page print the stated output.

A page names the packages that its examples need in a comment: ``<!-- needs: pyarrow -->``.
"""

import doctest
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import acqh
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


ROOT = DOCS.parent
# What examples without stated output take as given, and the packages that they need.
GIVEN = {
    "README.md": "image_vectors, text_vectors = np.random.default_rng(0).normal(size=(2, 600, 16))",
    "docs/explanation/quantizer.md": "vectors, queries = np.random.rand(2, 600, 16)",
    "docs/reference/data.md": "X, T = np.eye(3), np.ones((3, 5))",
    "docs/reference/metrics.md": """
data = acqh.load_dataset("emoji")
train, query = data.split(test_size=0.2, groups="family", random_state=0)
model = acqh.ACQH(16, n_codebooks=2, random_state=0).fit(train.views, train.labels)
index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=train.labels), ids=train.ids)
query_labels, database_labels = query.labels, train.labels
n_queries = len(query)
score = lambda rows: np.ones((len(rows), len(train)))
scores = score(range(n_queries))
""",
    "docs/reference/file-format.md": "",
    "docs/how-to/use-the-library.md": "",
    "docs/how-to/bench.md": """
data = acqh.make_multiview(200, n_labels=4, random_state=0)
acqh.data.save_npz(data, "mine.npz")
setting = {"methods": ["acqh"], "bits": [16], "protocol": "labelled", "n_splits": 1}
acqh.bench.run("mine.npz", **setting, n_threads=1, out="results")
""",
    "docs/how-to/large-data.md": "",
}
NEEDED = {
    "docs/reference/metrics.md": ["pandas"],
    "docs/how-to/large-data.md": ["distributed", "torch"],
}


@pytest.mark.parametrize("page", GIVEN)
def test_examples_without_stated_output_run(page, tmp_path, monkeypatch):
    for package in NEEDED.get(page, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL
    )
    namespace = {"__name__": "page", "acqh": acqh, "np": np}
    exec(GIVEN[page], namespace)  # noqa: S102
    examples = [block for block in blocks if not block.startswith(">>> ")]
    assert examples
    for example in examples:
        exec(example, namespace)  # noqa: S102


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_documentation_lead_somewhere(name):
    """Sphinx checks the links of all other pages."""
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        target = ROOT / path
        assert target.is_file(), link
        if anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", target.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_python_block_belongs_to_a_page_that_is_run():
    not_run = [
        page.relative_to(ROOT).as_posix()
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
        if not {"_build", "gallery", "generated"} & set(page.parts)
        and not ELSEWHERE & {page.parent.name, page.name}
        and re.search(r"(?m)^ *```python\n(?!\s*>>> )", page.read_text(encoding="utf-8"))
    ]
    assert set(not_run) <= set(GIVEN)
