"""Encoders: raw images and texts become rows of numbers."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
