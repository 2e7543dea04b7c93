"""Handing items over to other systems: Parquet files, Faiss."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
