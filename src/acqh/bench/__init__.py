"""Protocols, runner, result rows, tables, figures."""

from acqh.bench._evaluate import ResultRow, evaluate
from acqh.bench._protocols import make_split, seeds
from acqh.bench._split import Protocol, Split, SplitParts, list_protocols

__all__ = [
    "Protocol",
    "ResultRow",
    "Split",
    "SplitParts",
    "evaluate",
    "list_protocols",
    "make_split",
    "seeds",
]
