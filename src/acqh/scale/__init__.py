"""Out of core and on clusters: coding in parts that a killed run keeps, and indexes in shards."""

from acqh.scale.build import build_index
from acqh.scale.chunks import DaskViews
from acqh.scale.cluster import connect
from acqh.scale.code_files import CodeFiles
from acqh.scale.compress.compress import compress
from acqh.scale.compress.compressed import Compressed
from acqh.scale.compress.report import CompressionReport
from acqh.scale.encode import encode_chunk, encode_parts
from acqh.scale.fit import fit
from acqh.scale.parts import CodePart, CodeParts
from acqh.scale.search_parts import SearchPart, SearchParts
from acqh.scale.search_source import search_chunk, search_parts
from acqh.scale.sharded import ShardedIndex
from acqh.scale.shards import build_shards

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
