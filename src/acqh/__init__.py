"""Find texts for an image and images for a text, from a few bytes per item.

The public names below are loaded on first use, so that ``import acqh`` stays quick.
"""

from acqh._core.imports import attach_stub

__version__ = "1.0.0"

__getattr__, __dir__, _names = attach_stub(__name__)
# The server needs an extra, so ``from acqh import *`` does not load it.
__all__ = ["__version__", *(name for name in _names if name != "serve")]
