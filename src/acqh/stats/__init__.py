"""Sums over items, per view, pair of views and label set: additive, mergeable, streaming."""

from acqh.stats.moments import Keep
from acqh.stats.ridge import Regression, regress
from acqh.stats.sums import Statistics

__all__ = ["Keep", "Regression", "Statistics", "regress"]
