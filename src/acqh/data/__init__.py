"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""

from acqh.data._datasets import DatasetInfo, list_datasets, load_dataset
from acqh.data._files import DataFile, DataFolder
from acqh.data._multiview import MultiViewData
from acqh.data._named import NamedDataset
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
from acqh.data._splits import official_rows, split_rows
from acqh.data._synthetic import make_like, make_multiview

__all__ = [
    "DataFile",
    "DataFolder",
    "DatasetInfo",
    "Manifest",
    "MultiViewData",
    "NamedDataset",
    "Piece",
    "Pieces",
    "list_datasets",
    "list_pieces",
    "load_dataset",
    "make_like",
    "make_multiview",
    "official_rows",
    "read",
    "read_chunks",
    "read_manifest",
    "read_manifest_chunks",
    "read_pieces",
    "read_records",
    "save_npz",
    "split_rows",
]
