"""MultiViewData, readers, named data sets, splits, synthetic makers, the embedded emoji set."""

from acqh.data.datasets.catalogue import DatasetInfo, list_datasets, load_dataset
from acqh.data.datasets.files import DataFile, DataFolder
from acqh.data.datasets.named import NamedDataset
from acqh.data.multiview import MultiViewData
from acqh.data.readers.formats import list_pieces, read, read_records
from acqh.data.readers.pieces import Piece, Pieces, read_pieces
from acqh.data.splits import official_rows, split_rows
from acqh.data.synthetic import make_like, make_multiview
from acqh.data.write import save_npz

__all__ = [
    "DataFile",
    "DataFolder",
    "DatasetInfo",
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
    "read_pieces",
    "read_records",
    "save_npz",
    "split_rows",
]
