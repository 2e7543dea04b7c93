"""ACQH: the estimator, its solvers, its similarities."""

from acqh.methods.acqh._estimator import ACQH, ACQHPaper, paper_settings

__all__ = ["ACQH", "ACQHPaper", "paper_settings"]
