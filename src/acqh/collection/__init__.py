"""Items, the model that codes them and the index that finds them, in one folder."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
