"""Readers of files: .npz, folders of .npy, Matlab, Parquet and Arrow, CSV."""

from acqh.data._readers._dispatch import (
    read,
    read_chunks,
    read_manifest,
    read_manifest_chunks,
)
from acqh.data._readers._manifest import Manifest
from acqh.data._readers._records import read_records
from acqh.data._readers._save import save_npz

__all__ = [
    "Manifest",
    "read",
    "read_chunks",
    "read_manifest",
    "read_manifest_chunks",
    "read_records",
    "save_npz",
]
