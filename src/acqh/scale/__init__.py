"""Out of core: coding in parts that a killed run keeps, and indexes of what does not fit one."""

from acqh.scale._build import build_index
from acqh.scale._encode import encode_chunk, encode_parts
from acqh.scale._parts import CodePart, CodeParts
from acqh.scale._sharded import ShardedIndex

__all__ = ["CodePart", "CodeParts", "ShardedIndex", "build_index", "encode_chunk", "encode_parts"]
