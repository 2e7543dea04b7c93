"""Exact top-k search over segments of codes."""

from acqh.index._search.topk import (
    Stop,
    Target,
    TopRows,
    as_stop,
    in_blocks,
    search_targets,
    unpack_keys,
)

__all__ = ["Stop", "Target", "TopRows", "as_stop", "in_blocks", "search_targets", "unpack_keys"]
