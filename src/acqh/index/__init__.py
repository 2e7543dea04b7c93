"""CodeIndex and HammingIndex: exact search over codes."""

from typing import TYPE_CHECKING

from acqh._core.imports import lazy_names

if TYPE_CHECKING:
    from acqh.index.code_index import CodeIndex
    from acqh.index.exchange.faiss import faiss_codes
    from acqh.index.exchange.torch import score_all
    from acqh.index.hamming_index import HammingIndex
    from acqh.index.result import SearchResult
    from acqh.index.search.vectors import VectorFile

__all__ = ["CodeIndex", "HammingIndex", "SearchResult", "VectorFile", "faiss_codes", "score_all"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.index.code_index": "CodeIndex",
            "acqh.index.exchange.faiss": "faiss_codes",
            "acqh.index.hamming_index": "HammingIndex",
            "acqh.index.result": "SearchResult",
            "acqh.index.exchange.torch": "score_all",
            "acqh.index.search.vectors": "VectorFile",
        },
    )
