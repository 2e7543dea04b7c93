"""CodeIndex and HammingIndex: exact search over codes."""

from acqh.index._code_index import CodeIndex
from acqh.index._faiss import faiss_codes
from acqh.index._hamming import HammingIndex
from acqh.index._result import SearchResult
from acqh.index._torch import score_all
from acqh.index._vectors import VectorFile

__all__ = ["CodeIndex", "HammingIndex", "SearchResult", "VectorFile", "faiss_codes", "score_all"]
