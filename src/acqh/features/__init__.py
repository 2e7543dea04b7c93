"""Feature maps: rows become other rows (bias, RBF anchors, kernels, ...)."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
