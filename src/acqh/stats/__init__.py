"""Sums over items, per view, pair of views and label set: additive, mergeable, streaming."""

from acqh.stats.label_sets import LabelSets
from acqh.stats.moments import Keep, Moments, Pair, pair_of
from acqh.stats.regression import (
    HELD_ROWS,
    Regression,
    regress,
    regress_moments,
    regress_rows,
)
from acqh.stats.ridge import RidgeSolver, error_directions
from acqh.stats.sample import RowSample
from acqh.stats.sums import Statistics
from acqh.stats.view_statistics import ViewStatistics

__all__ = [
    "HELD_ROWS",
    "Keep",
    "LabelSets",
    "Moments",
    "Pair",
    "Regression",
    "RidgeSolver",
    "RowSample",
    "Statistics",
    "ViewStatistics",
    "error_directions",
    "pair_of",
    "regress",
    "regress_moments",
    "regress_rows",
]
