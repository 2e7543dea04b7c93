"""Relevance, average precision, topN precision, precision-recall, nDCG: exact, ties included."""
