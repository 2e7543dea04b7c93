"""ACQH: the estimator, its targets, its solvers, its similarities."""

from acqh._core.imports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
