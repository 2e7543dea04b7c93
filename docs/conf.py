"""Sphinx settings."""

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
