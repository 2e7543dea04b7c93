"""Vector stores of other frameworks, kept in a few bytes per item: LangChain and LlamaIndex.

`acqh.integrations.langchain` and `acqh.integrations.llamaindex` each hold the class for their
framework; `DocumentStore` is what both rest on. `acqh.integrations.mteb` runs mteb's retrieval
tasks on codes.
"""

from acqh._core.imports import door

__getattr__, __dir__, __all__ = door(__name__)
