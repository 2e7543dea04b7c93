"""Readers of files: .npz, folders of .npy, Matlab, Parquet and Arrow, CSV, vectors."""

from acqh.data._readers._dispatch import (
    list_pieces,
    read,
    read_chunks,
    read_manifest,
    read_manifest_chunks,
)
from acqh.data._readers._manifest import Manifest
from acqh.data._readers._pieces import Piece, Pieces, read_pieces
from acqh.data._readers._records import read_records
from acqh.data._readers._save import save_npz

__all__ = [
    "Manifest",
    "Piece",
    "Pieces",
    "list_pieces",
    "read",
    "read_chunks",
    "read_manifest",
    "read_manifest_chunks",
    "read_pieces",
    "read_records",
    "save_npz",
]
