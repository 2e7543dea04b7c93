"""Exact top-k search over segments of codes."""

from acqh.index._search.topk import Target, search_targets

__all__ = ["Target", "search_targets"]
