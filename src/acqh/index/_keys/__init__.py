"""Candidates of a search as numbers that sort by score, then by row."""
