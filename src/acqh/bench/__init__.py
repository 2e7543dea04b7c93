"""Protocols, runner, result rows, tables, figures."""

from acqh.bench._cells import Cell
from acqh.bench._evaluate import ResultRow, evaluate
from acqh.bench._protocols import make_split, seeds
from acqh.bench._split import Protocol, Split, SplitParts, list_protocols
from acqh.bench._store import Store

__all__ = [
    "Cell",
    "Protocol",
    "ResultRow",
    "Split",
    "SplitParts",
    "Store",
    "evaluate",
    "list_protocols",
    "make_split",
    "seeds",
]
