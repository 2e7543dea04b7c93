"""Exact top-k search over segments of codes."""
