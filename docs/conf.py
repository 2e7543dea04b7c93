"""Sphinx settings, and the gallery: pages made of the notebooks in examples/."""

import base64
import json
from pathlib import Path

from sphinx.application import Sphinx

import acqh

project = "acqh"
author = "the acqh authors"
project_copyright = "2026, the acqh authors"
version = release = acqh.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"acqh {release}"
html_static_path = ["_static"]
html_css_files = ["acqh.css"]


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


def setup(app: Sphinx) -> None:
    """Have the gallery written before the pages are read."""
    app.connect("builder-inited", write_gallery)
