"""Protocols, runner, result rows, tables, figures."""

from acqh.bench.reporting._paper import Paper, PaperTable, load_paper
from acqh.bench.reporting._report import ReportFiles, write_report
from acqh.bench.running._cells import Cell
from acqh.bench.running._evaluate import ResultRow, evaluate
from acqh.bench.running._protocols import make_split, seeds
from acqh.bench.running._split import Protocol, Split, SplitParts, list_protocols
from acqh.bench.running._store import Store

__all__ = [
    "Cell",
    "Paper",
    "PaperTable",
    "Protocol",
    "ReportFiles",
    "ResultRow",
    "Split",
    "SplitParts",
    "Store",
    "evaluate",
    "list_protocols",
    "load_paper",
    "make_split",
    "seeds",
    "write_report",
]
