"""HammingIndex: exact search over binary codes."""

from acqh.index._hamming._index import HammingIndex

__all__ = ["HammingIndex"]
