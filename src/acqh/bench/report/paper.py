"""The figures printed in the paper, as data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

PaperQuantity = Literal["map", "fit_seconds", "query_seconds"]


@dataclass(frozen=True)
class PaperTable:
    """One direction of one data set in one table of the paper.

    Attributes
    ----------
    number : int
        1 to 3 are mean average precision, 4 is training time, 5 is query time.
    quantity : {"map", "fit_seconds", "query_seconds"}
    dataset : str
    direction : str or None
        None where the table has no directions.
    rows : mapping of str to mapping of int to float
        The paper's name of a method, then the number of components, to the printed figure.
    """

    number: int
    quantity: PaperQuantity
    dataset: str
    direction: str | None
    rows: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Paper:
    """What the paper prints of its experiments.

    Attributes
    ----------
    source : str
    machine : str
        What its times were measured on.
    n_runs : int
        Random splits that a figure is the mean of.
    n_components : tuple of int
    methods : mapping of str to tuple of str
        The paper's name of a method to the methods here that it may be, likeliest first.
    counts : mapping of str to mapping of str to int
        Number of training, query and database items by data set.
    tables : tuple of PaperTable
    """

    source: str
    machine: str
    n_runs: int
    n_components: tuple[int, ...]
    methods: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, Mapping[str, int]]
    tables: tuple[PaperTable, ...]

    def row_of(self, method: str) -> str | None:
        """Return the paper's name of one of our methods, None if it has no such row."""
        return next((name for name, ours in self.methods.items() if method in ours), None)

    def figure(
        self, quantity: PaperQuantity, dataset: str, method: str, n_components: int, direction: str
    ) -> float | None:
        """Return what the paper prints, None where it prints nothing.

        Parameters
        ----------
        quantity : {"map", "fit_seconds", "query_seconds"}
        dataset : str
        method : str
            Our name of the method, such as ``"dch"``.
        n_components : int
        direction : str
            Such as ``"image->text"``; of no account where the paper's table has none.
        """
        row = self.row_of(method)
        for table in self.tables:
            if (table.quantity, table.dataset) == (quantity, dataset) and table.direction in (
                None,
                direction,
            ):
                return None if row is None else table.rows[row].get(n_components)
        return None


@cache
def load_paper() -> Paper:
    """Return the figures of Tables 1 to 5 of the ACQH paper.

    Returns
    -------
    Paper

    Examples
    --------
    >>> load_paper().figure("map", "wiki", "acqh-paper", 32, "text->image")
    0.7098
    """
    text = files("acqh.bench.report").joinpath("paper_figures.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    widths = tuple(facts["n_components"])
    return Paper(
        source=facts["source"],
        machine=facts["machine"],
        n_runs=facts["n_runs"],
        n_components=widths,
        methods=MappingProxyType({name: tuple(ours) for name, ours in facts["methods"].items()}),
        counts=MappingProxyType(facts["counts"]),
        tables=tuple(_table(entry, widths) for entry in facts["tables"]),
    )


def _table(entry: Mapping[str, Any], widths: tuple[int, ...]) -> PaperTable:
    return PaperTable(
        number=entry["table"],
        quantity=entry["quantity"],
        dataset=entry["dataset"],
        direction=entry["direction"],
        rows={
            name: dict(zip(widths, figures, strict=True)) for name, figures in entry["rows"].items()
        },
    )
