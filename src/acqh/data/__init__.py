"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
