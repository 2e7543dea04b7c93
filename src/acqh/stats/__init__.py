"""Sums over items, per view and per label set: additive, mergeable, streaming."""
