"""Sufficient statistics of views, pairs of views and label sets: additive, mergeable, streaming."""

from acqh.stats.moments import StatisticsConfig
from acqh.stats.ridge import Regression, regress
from acqh.stats.statistics import Statistics

__all__ = ["Regression", "Statistics", "StatisticsConfig", "regress"]
