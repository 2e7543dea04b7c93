"""Relevance, average precision, topN precision, precision-recall curves: exact, ties included."""

from acqh.metrics.average_precision import average_precision, mean_average_precision
from acqh.metrics.curves import PrecisionRecallCurve, precision_at, precision_recall_by_radius
from acqh.metrics.evaluate import (
    RetrievalMetrics,
    RetrievalResult,
    evaluate,
    precision_recall_curve,
)
from acqh.metrics.recall import recall
from acqh.metrics.relevance import relevance

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
