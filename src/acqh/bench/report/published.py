"""What others have printed, as it stands in the JSON files beside this, and where runs differ."""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from acqh.bench.report.results import Run
from acqh.data import DatasetInfo, list_datasets
from acqh.methods.registry import get

PaperQuantity = Literal["map", "fit_seconds", "query_seconds"]

_COUNTS = {"n_train": "training", "n_query": "query", "n_database": "database"}
# Said of data sets that are the paper's own.
_SAME = ("", "in nothing known")


@cache
def load_paper() -> dict[str, Any]:
    """Return what Tables 1 to 5 of the ACQH paper print, and under which conditions.

    Returns
    -------
    dict
        ``source``; ``machine`` that times were measured on; ``n_runs``, the random splits that a
        figure is the mean of; ``n_components``; ``methods``: by the paper's name of a method, the
        methods here that it may be, likeliest first; ``counts`` of training, query and database
        items by data set; and ``tables``, each with its number (1 to 3: mean average precision,
        4: training time, 5: query time), quantity, data set, direction (None where it has none)
        and rows: by the paper's name of a method, a figure for each of ``n_components``.

    Examples
    --------
    >>> load_paper()["methods"]["DCMH"]
    ['dcmh-discrete', 'dcmh-discriminant']
    """
    return dict(_read("paper_figures.json"))


@cache
def load_field() -> list[dict[str, Any]]:
    """Return figures that were published under the field's protocol.

    Rows are comparable only within one cut-off, and only as far as features and the choice of
    the epoch allow.

    Returns
    -------
    list of dict
        ``method``, ``venue``; ``read_in``, the table that the figures were read in; ``cutoff`` of
        average precision (``"all"``, a number, or ``"not stated"``); ``features``; ``labels``,
        whether training used them; ``epoch``, how the one was chosen that the figures are of; and
        ``figures``: by data set and number of bits, image->text and text->image.

    Examples
    --------
    >>> mith = next(row for row in load_field() if row["method"] == "MITH")
    >>> mith["cutoff"], mith["figures"]["mirflickr25k"]["32"]
    ('all', [0.865, 0.839])
    """
    return list(_read("field_figures.json")["rows"])


def _read(name: str) -> Any:
    return json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def paper_row(method: str) -> str | None:
    """Return the paper's name of one of our methods, None if it has no such row."""
    names = load_paper()["methods"].items()
    return next((name for name, ours in names if method in ours), None)


def paper_figure(
    quantity: PaperQuantity, dataset: str, method: str, n_components: int | None, direction: str
) -> float | None:
    """Return what the paper prints, None where it prints nothing.

    Parameters
    ----------
    quantity : {"map", "fit_seconds", "query_seconds"}
    dataset : str
    method : str
        Our name of the method, such as ``"dch"``.
    n_components : int or None
        None where a method has no choice of it.
    direction : str
        Such as ``"image->text"``; of no account where the paper's table has none.

    Examples
    --------
    >>> paper_figure("map", "wiki", "acqh-paper", 32, "text->image")
    0.7098
    """
    row, widths = paper_row(method), load_paper()["n_components"]
    if row is None or n_components not in widths:
        return None
    for table in load_paper()["tables"]:
        is_wanted = (table["quantity"], table["dataset"]) == (quantity, dataset)
        if is_wanted and table["direction"] in (None, direction):
            return float(table["rows"][row][widths.index(n_components)])
    return None


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
    counts = paper["counts"].get(run.setting["dataset"], {})
    for name, count in counts.items():
        if run.row[name] != count:
            yield f"{run.row[name]:,} {_COUNTS[name]} items; the paper has {count:,}."
    if n_seeds != paper["n_runs"]:
        yield f"{n_seeds} split{'s' * (n_seeds != 1)}; the paper has {paper['n_runs']}."
    if run.setting.get("official"):
        yield "The source's own split; the paper draws splits at random."


def _method(run: Run) -> Iterable[str]:
    if paper_row(run.method) is None:
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
