"""Items, the model that codes them and the index that finds them, in one folder."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
