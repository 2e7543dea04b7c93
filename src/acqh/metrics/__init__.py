"""Relevance, average precision, topN precision, precision-recall, nDCG: exact, ties included."""

from acqh.metrics.average_precision import average_precision, mean_average_precision
from acqh.metrics.curves import PrecisionRecallCurve, precision_at
from acqh.metrics.evaluate import evaluate
from acqh.metrics.evaluator import RetrievalMetrics, RetrievalResult, precision_recall_curve
from acqh.metrics.ndcg import ndcg
from acqh.metrics.radius import RadiusMetrics, precision_recall_by_radius
from acqh.metrics.relevance import relevance, shared_labels

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
