from acqh.index.code_index import CodeIndex as CodeIndex
from acqh.index.exchange import exhaustive_search as exhaustive_search
from acqh.index.hamming_index import HammingIndex as HammingIndex
from acqh.index.search import SearchResult as SearchResult
