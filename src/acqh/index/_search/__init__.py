"""Exact top-k search over segments of codes."""

from acqh.index._search.topk import Target, TopRows, in_blocks, search_targets, unpack_keys

__all__ = ["Target", "TopRows", "in_blocks", "search_targets", "unpack_keys"]
