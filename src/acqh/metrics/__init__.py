"""Relevance, average precision, topN precision, precision-recall, nDCG: exact, ties included."""

from acqh.metrics._relevance import relevance, shared_labels

__all__ = ["relevance", "shared_labels"]
