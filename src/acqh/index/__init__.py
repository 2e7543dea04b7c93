"""CodeIndex and HammingIndex: exact search over codes."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
