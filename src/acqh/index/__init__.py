"""CodeIndex and HammingIndex: exact search over codes."""

from typing import TYPE_CHECKING

from acqh._core.imports import lazy_names

if TYPE_CHECKING:
    from acqh.index._code_index import CodeIndex
    from acqh.index._faiss import faiss_codes
    from acqh.index._hamming import HammingIndex
    from acqh.index._result import SearchResult
    from acqh.index._torch import score_all
    from acqh.index._vectors import VectorFile

__all__ = ["CodeIndex", "HammingIndex", "SearchResult", "VectorFile", "faiss_codes", "score_all"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.index._code_index": "CodeIndex",
            "acqh.index._faiss": "faiss_codes",
            "acqh.index._hamming": "HammingIndex",
            "acqh.index._result": "SearchResult",
            "acqh.index._torch": "score_all",
            "acqh.index._vectors": "VectorFile",
        },
    )
