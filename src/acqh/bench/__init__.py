"""Methods on data sets: `running` stores what comes out, `reporting` makes tables of it."""

from acqh.bench.reporting._field import PublishedRow, load_field
from acqh.bench.reporting._paper import Paper, PaperTable, load_paper
from acqh.bench.reporting._report import ReportFiles, write_report
from acqh.bench.running._cells import Cell
from acqh.bench.running._estimate import Estimator
from acqh.bench.running._evaluate import ResultRow, evaluate
from acqh.bench.running._protocols import make_split, seeds
from acqh.bench.running._run import Plan, plan, run
from acqh.bench.running._runner import RunSummary, Watch
from acqh.bench.running._split import Protocol, Split, SplitParts, list_protocols
from acqh.bench.running._store import Store

__all__ = [
    "Cell",
    "Estimator",
    "Paper",
    "PaperTable",
    "Plan",
    "Protocol",
    "PublishedRow",
    "ReportFiles",
    "ResultRow",
    "RunSummary",
    "Split",
    "SplitParts",
    "Store",
    "Watch",
    "evaluate",
    "list_protocols",
    "load_field",
    "load_paper",
    "make_split",
    "plan",
    "run",
    "seeds",
    "write_report",
]
