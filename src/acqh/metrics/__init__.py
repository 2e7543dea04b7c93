"""Relevance, average precision, topN precision, precision-recall curves: exact, ties included."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
