"""Methods on data sets: `running` stores what comes out, `report` makes tables of it."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
