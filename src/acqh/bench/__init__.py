"""Methods on data sets: `run` stores what comes out, `report` makes tables of it."""

from acqh.bench.protocol import (
    Protocol,
    Split,
    SplitParts,
    list_protocols,
    make_split,
    seeds,
)
from acqh.bench.report.published import load_field, load_paper, paper_figure
from acqh.bench.report.report import ReportFiles, write_report
from acqh.bench.run.cells import Cell
from acqh.bench.run.evaluate import ResultRow, evaluate
from acqh.bench.run.plan import Plan, plan, run
from acqh.bench.run.runner import Estimator, RunSummary, Watch
from acqh.bench.run.store import Store

__all__ = [
    "Cell",
    "Estimator",
    "Plan",
    "Protocol",
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
    "paper_figure",
    "plan",
    "run",
    "seeds",
    "write_report",
]
