"""CodeIndex and HammingIndex: exact search over codes."""

from acqh.index._code_index import CodeIndex
from acqh.index._faiss import faiss_codes
from acqh.index._hamming import HammingIndex
from acqh.index._result import SearchResult

__all__ = ["CodeIndex", "HammingIndex", "SearchResult", "faiss_codes"]
