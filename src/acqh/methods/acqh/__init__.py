"""ACQH: the estimator, its targets, its solvers, its similarities."""

from acqh.methods.acqh.estimator import ACQH
from acqh.methods.acqh.paper import ACQHPaper
from acqh.methods.target import Target

__all__ = ["ACQH", "ACQHPaper", "Target"]
