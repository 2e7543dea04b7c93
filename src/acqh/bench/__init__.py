"""Methods on data sets: `running` stores what comes out, `report` makes tables of it."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
