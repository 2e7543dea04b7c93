"""ACQH: the estimator, its targets, its solvers, its similarities."""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
