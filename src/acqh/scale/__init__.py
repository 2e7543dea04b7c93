"""Out-of-core and distributed work: resumable encoding in parts, and sharded indexes."""

from acqh.scale.chunks import keep_vectors
from acqh.scale.cluster import connect
from acqh.scale.compress import compress
from acqh.scale.compressed import Compressed, CompressionReport
from acqh.scale.fit import fit
from acqh.scale.parts import CodeParts, build_index, build_shards, encode_parts, open_shards
from acqh.scale.recall import recall_of_files, sweep
from acqh.scale.search import search_table

__all__ = [
    "CodeParts",
    "Compressed",
    "CompressionReport",
    "build_index",
    "build_shards",
    "compress",
    "connect",
    "encode_parts",
    "fit",
    "keep_vectors",
    "open_shards",
    "recall_of_files",
    "search_table",
    "sweep",
]
