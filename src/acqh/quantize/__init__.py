"""Additive codebooks: train, encode, decode."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
