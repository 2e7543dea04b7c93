"""CodeIndex and HammingIndex: exact search over codes."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
