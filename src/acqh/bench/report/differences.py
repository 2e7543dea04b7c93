"""Where a run differs from what the paper says of its own, in words."""

from collections.abc import Iterable
from functools import cache

from acqh.bench.report.paper import load_paper
from acqh.bench.report.results import Run
from acqh.data import DatasetInfo, list_datasets
from acqh.methods.registry import get

_COUNTS = {"n_train": "training", "n_query": "query", "n_database": "database"}
# Said of data sets that are the paper's own.
_SAME = ("", "in nothing known")


def differences(run: Run, n_seeds: int) -> list[str]:
    """Return what of a run is not as in the paper.

    Its figure is the mean of `n_seeds` splits. No sentences if nothing is known to differ. Of
    methods that are not in the paper only data and protocol are compared.
    """
    return [*_data(run), *_protocol(run, n_seeds), *_method(run)]


def _data(run: Run) -> Iterable[str]:
    name = run.setting["dataset"]
    known = {info.name: info.differs for info in _datasets()}
    differs = known.get(name, "not one of the paper's data sets")
    if differs not in _SAME:
        yield f"Data {name}: {differs}."


def _protocol(run: Run, n_seeds: int) -> Iterable[str]:
    paper = load_paper()
    counts = paper.counts.get(run.setting["dataset"])
    if counts is not None:
        for name, word in _COUNTS.items():
            if run.row[name] != counts[name]:
                yield f"{run.row[name]:,} {word} items; the paper has {counts[name]:,}."
    if n_seeds != paper.n_runs:
        yield f"{n_seeds} split{'s' * (n_seeds != 1)}; the paper has {paper.n_runs}."
    if run.setting.get("official"):
        yield "The source's own split; the paper draws splits at random."


def _method(run: Run) -> Iterable[str]:
    if load_paper().row_of(run.method) is None:
        return
    asked = run.n_components
    if asked is not None and run.row["n_components"] != asked:
        yield "The data carry fewer than K directions, so codes are shorter."
    if run.setting["feature_maps"] is not None:
        yield "With other features than the method's own."
    if run.method.startswith("dcmh"):
        yield "Two methods are called DCMH; which one the paper means is not known."
    if run.method == "acqh":
        yield "The corrected problem by our own solver; acqh-paper is the paper's Algorithm 1."
    if get(run.method).info.reconstruction:
        yield "In part our reconstruction, not the authors' program; see the list of methods."


@cache
def _datasets() -> tuple[DatasetInfo, ...]:
    # Looking for files takes a while, and a table asks for every cell.
    return tuple(list_datasets())
