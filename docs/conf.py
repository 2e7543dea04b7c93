"""Sphinx settings; pages made of the notebooks in examples/, and reference pages."""

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from sphinx.application import Sphinx

import acqh

sys.path.insert(0, str(Path(__file__).parent))
import reference_pages

project = "acqh"
author = "the acqh authors"
project_copyright = "2026, the acqh authors"
version = release = acqh.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
templates_path = ["_templates"]
exclude_patterns = ["_build", "reference/generated/_*.md", "reference/cards.md"]
smartquotes = False
html_theme = "furo"
html_title = f"acqh {release}"
html_static_path = ["_static"]
html_css_files = ["acqh.css"]
# Where the pages are published, for canonical links; where their sources are, for edit links.
html_baseurl = os.environ.get("ACQH_DOCS_URL", "")
if repository := os.environ.get("ACQH_DOCS_REPOSITORY"):
    html_theme_options = {
        "source_repository": repository,
        "source_branch": "main",
        "source_directory": "docs/",
    }


def is_reachable(address: str) -> bool:
    """Return whether a project's inventory of names can be downloaded."""
    try:
        with urlopen(f"{address}/objects.inv", timeout=5):  # noqa: S310  constant addresses
            return True
    except OSError:
        return False


# Without a network, names of these projects are not linked.
intersphinx_mapping = {
    name: (address, None)
    for name, address in {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "scipy": "https://docs.scipy.org/doc/scipy",
        "sklearn": "https://scikit-learn.org/stable",
    }.items()
    if is_reachable(address)
}


def write_gallery(app: Sphinx) -> None:
    """Write a page for each notebook of examples/, with its stored outputs."""
    root = Path(app.srcdir)
    folder = root / "gallery"
    folder.mkdir(exist_ok=True)
    for path in sorted((root.parent / "examples").glob("*.ipynb")):
        parts = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else fence("python", source))
            for output in cell.get("outputs", ()):
                if "text" in output:
                    parts.append(fence("text", "".join(output["text"])))
                else:
                    image = folder / f"{path.stem}-{len(parts)}.png"
                    image.write_bytes(base64.b64decode(output["data"]["image/png"]))
                    parts.append(f"![What the cell above draws]({image.name})")
        parts.append(f"This page is the notebook `examples/{path.name}`.")
        (folder / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def fence(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def write_reference(app: Sphinx) -> None:
    """Write the pages that are generated from the program."""
    reference_pages.write(Path(app.srcdir) / "reference" / "generated")


def skip_inherited(*arguments: Any) -> bool | None:
    """Skip what scikit-learn and others define, and what collections have for acqh alone."""
    member = arguments[3]
    module = getattr(getattr(member, "fget", member), "__module__", None)
    is_public = not isinstance(module, str) or re.match(r"acqh(?!\.collection\.disk)", module)
    return None if is_public else True


def setup(app: Sphinx) -> None:
    """Write generated pages before the pages are read."""
    app.connect("builder-inited", write_gallery)
    app.connect("builder-inited", write_reference)
    app.connect("autodoc-skip-member", skip_inherited)
