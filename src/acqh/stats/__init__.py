"""Sums over items, per view, pair of views and label set: additive, mergeable, streaming."""

from acqh.stats.label_sets import LabelSets
from acqh.stats.moments import Keep, Moments, Pair, ViewStatistics, pair_of
from acqh.stats.ridge import (
    HELD_ROWS,
    Regression,
    RidgeSolver,
    error_directions,
    regress,
    regress_moments,
    regress_rows,
)
from acqh.stats.sample import RowSample
from acqh.stats.sums import Statistics

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
