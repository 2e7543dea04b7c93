"""Sums over items, per view, pair of views and label set: additive, mergeable, streaming."""

from acqh.stats._label_sets import LabelSets
from acqh.stats._moments import Keep, Moments, Pair, pair_of
from acqh.stats._regression import (
    HELD_ROWS,
    Regression,
    regress,
    regress_moments,
    regress_rows,
)
from acqh.stats._ridge_solver import RidgeSolver, error_directions
from acqh.stats._sample import RowSample
from acqh.stats._statistics import Statistics
from acqh.stats._view_statistics import ViewStatistics

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
