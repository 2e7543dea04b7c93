"""Relevance, average precision, topN precision, precision-recall, nDCG: exact, ties included."""

from acqh.metrics._average_precision import average_precision, mean_average_precision
from acqh.metrics._curves import PrecisionRecallCurve, precision_at
from acqh.metrics._evaluator import RetrievalMetrics, RetrievalResult, precision_recall_curve
from acqh.metrics._found import evaluate
from acqh.metrics._ndcg import ndcg
from acqh.metrics._radius import RadiusMetrics, precision_recall_by_radius
from acqh.metrics._relevance import relevance, shared_labels

__all__ = [
    "PrecisionRecallCurve",
    "RadiusMetrics",
    "RetrievalMetrics",
    "RetrievalResult",
    "average_precision",
    "evaluate",
    "mean_average_precision",
    "ndcg",
    "precision_at",
    "precision_recall_by_radius",
    "precision_recall_curve",
    "relevance",
    "shared_labels",
]
