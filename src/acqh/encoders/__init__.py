"""Encoders: raw images and texts become rows of numbers."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
