"""Deep maps: torch encoders fine-tuned towards the targets of the closed form."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
