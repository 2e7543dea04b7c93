"""Out of core and on clusters: coding in parts that a killed run keeps, and indexes in shards."""

from acqh.scale._build import build_index
from acqh.scale._code_files import CodeFiles
from acqh.scale._compress import compress
from acqh.scale._compressed import Compressed
from acqh.scale._dask._chunks import DaskViews
from acqh.scale._dask._cluster import connect
from acqh.scale._encode import encode_chunk, encode_parts
from acqh.scale._fit import fit
from acqh.scale._parts import CodePart, CodeParts
from acqh.scale._report import CompressionReport
from acqh.scale._search_parts import SearchPart, SearchParts
from acqh.scale._search_source import search_chunk, search_parts
from acqh.scale._sharded import ShardedIndex
from acqh.scale._shards import build_shards

__all__ = [
    "CodeFiles",
    "CodePart",
    "CodeParts",
    "Compressed",
    "CompressionReport",
    "DaskViews",
    "SearchPart",
    "SearchParts",
    "ShardedIndex",
    "build_index",
    "build_shards",
    "compress",
    "connect",
    "encode_chunk",
    "encode_parts",
    "fit",
    "search_chunk",
    "search_parts",
]
