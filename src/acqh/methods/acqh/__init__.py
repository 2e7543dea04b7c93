"""ACQH: the estimator, its targets, its solvers, its similarities."""

from acqh.methods._target import Target
from acqh.methods.acqh._estimator import ACQH
from acqh.methods.acqh._paper import ACQHPaper

__all__ = ["ACQH", "ACQHPaper", "Target"]
