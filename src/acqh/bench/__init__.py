"""Methods on data sets: `run` stores what comes out, `report` makes tables of it."""

from acqh.bench.protocol.draw import make_split, seeds
from acqh.bench.protocol.split import Protocol, Split, SplitParts, list_protocols
from acqh.bench.report.field import PublishedRow, load_field
from acqh.bench.report.paper import Paper, PaperTable, load_paper
from acqh.bench.report.report import ReportFiles, write_report
from acqh.bench.run.cells import Cell
from acqh.bench.run.estimate import Estimator
from acqh.bench.run.evaluate import ResultRow, evaluate
from acqh.bench.run.plan import Plan, plan, run
from acqh.bench.run.runner import RunSummary, Watch
from acqh.bench.run.store import Store

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
