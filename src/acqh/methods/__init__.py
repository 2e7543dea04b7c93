"""ACQH and its baselines behind one API.

The classes of methods are loaded on first use: ``from acqh.methods import DCH``.
"""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
