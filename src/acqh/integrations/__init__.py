"""Vector stores of other frameworks, kept in a few bytes per item: LangChain and LlamaIndex.

`acqh.integrations.langchain` and `acqh.integrations.llamaindex` each hold the class for their
framework; `DocumentStore` is what both rest on.
"""

from acqh.integrations._documents import DocumentStore

__all__ = ["DocumentStore"]
