"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
