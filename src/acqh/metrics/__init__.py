"""Relevance, average precision, topN precision, precision-recall curves: exact, ties included."""

from acqh.metrics.curves import PrecisionRecallCurve, precision_at, precision_recall_by_radius
from acqh.metrics.evaluate import (
    RetrievalMetrics,
    RetrievalResult,
    average_precision,
    evaluate,
    mean_average_precision,
    precision_recall_curve,
)
from acqh.metrics.rankings import relevance
from acqh.metrics.recall import recall

__all__ = [
    "PrecisionRecallCurve",
    "RetrievalMetrics",
    "RetrievalResult",
    "average_precision",
    "evaluate",
    "mean_average_precision",
    "precision_at",
    "precision_recall_by_radius",
    "precision_recall_curve",
    "recall",
    "relevance",
]
