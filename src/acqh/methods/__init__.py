"""ACQH and its baselines behind one API.

The classes of methods are loaded on first use: ``from acqh.methods import DCH``.
"""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
