"""Sums over items, per view and per label set: additive, mergeable, streaming."""

from acqh.stats._label_sets import LabelSets
from acqh.stats._regression import Regression, regress
from acqh.stats._statistics import Statistics, ViewStatistics

__all__ = ["LabelSets", "Regression", "Statistics", "ViewStatistics", "regress"]
