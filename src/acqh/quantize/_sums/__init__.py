"""Sums of rows by word and of words by row, compiled."""
