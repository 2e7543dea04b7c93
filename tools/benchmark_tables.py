"""Print what ``acqh bench`` stored as the Markdown tables of docs/benchmarks.md.

``python tools/benchmark_tables.py FOLDER`` prints one table per data set, protocol and kind of
database: a row per method, the mean over splits of MAP over the whole ranking, a column per number
of bytes or, of runs with ``--paper``, per K with the processor seconds of a fit. Best first; the
best of a column is bold; controls are in italics. A method that cannot use all bytes it is offered
stands at those it takes.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from acqh.bench import Store

DIRECTIONS = {"image->text": "I→T", "text->image": "T→I"}
CONTROLS = ("label-ridge", "random")
PAPER_LENGTHS = (8, 32, 128)

Figures = dict[tuple[str, int], float]


def rows_of(store: Store, *, paper: bool) -> Iterator[tuple[tuple[str, str, str], str, Any, Any]]:
    """Yield the table, the method, the record and the row of each figure."""
    experiment = "paper-map" if paper else "fair"
    for record in store.records():
        if experiment not in record["experiments"] or record["status"] != "done":
            continue
        for row in record["rows"]:
            # A labelled database has one coding per method: that of its own paper.
            coding = "" if row["protocol"] == "labelled" else row["database"]
            yield (row["dataset"], row["protocol"], coding), record["label"], record, row


def is_control(label: str) -> bool:
    return label.startswith(CONTROLS)


def tables_of(store: Store, *, paper: bool) -> dict[tuple[str, str, str], dict[str, Figures]]:
    """Return for each table and method the means over splits, by direction and length."""
    found: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for table, label, record, row in rows_of(store, paper=paper):
        length = record["n_components_asked"] if paper else row["bytes_per_item"]
        found[table][label][row["direction"], length].append(row["map_all"])
        if paper:
            found[table][label]["fit s", length].append(record["fit_cpu_seconds"])
    return {
        table: {
            label: {column: float(np.mean(figures)) for column, figures in columns.items()}
            for label, columns in methods.items()
        }
        for table, methods in found.items()
    }


def columns_of(store: Store, *, paper: bool) -> list[tuple[str, int]]:
    """Return directions and lengths, of all that were asked for; not every method takes them."""
    if paper:
        timed = [("fit s", length) for length in PAPER_LENGTHS[1:]]
        return [(direction, length) for direction in DIRECTIONS for length in PAPER_LENGTHS] + timed
    asked = {record["bytes_asked"] for record in store.records()} - {None}
    return [(direction, length) for direction in DIRECTIONS for length in sorted(asked)]


def figure(label: str, own: Figures, column: tuple[str, int]) -> float | None:
    """Return a figure, or None; real vectors of label-ridge have one length, not the column's."""
    if label.startswith("label-ridge"):
        return next((value for at, value in own.items() if at[0] == column[0]), None)
    return own.get(column)


def markdown(
    methods: dict[str, Figures], columns: list[tuple[str, int]], *, paper: bool
) -> Iterator[str]:
    unit = "K={}" if paper else "{} B"
    heads = [f"{DIRECTIONS.get(it, it)}, {unit.format(length)}" for it, length in columns]
    yield "| method | " + " | ".join(heads) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    rows = {
        label: [figure(label, own, column) for column in columns] for label, own in methods.items()
    }
    quality = sum(column[0] in DIRECTIONS for column in columns)
    best = [
        max((round(row[at], 3) for row in rows.values() if row[at] is not None), default=None)
        for at in range(quality)
    ]

    def mean(label: str) -> float:
        return float(np.mean([it for it in rows[label][:quality] if it is not None]))

    for label in sorted(rows, key=mean, reverse=True):
        judged = zip(rows[label][:quality], best, strict=True)
        cells = [written(it, is_control(label), top) for it, top in judged]
        cells += ["" if it is None else f"{float(f'{it:.2g}'):g}" for it in rows[label][quality:]]
        name = f"*{label}*" if is_control(label) else f"`{label}`"
        yield f"| {name} | " + " | ".join(cells) + " |"


def written(value: float | None, control: bool, best: float | None) -> str:
    if value is None:
        return ""
    mark = "*" * (control + 2 * (round(value, 3) == best))
    return f"{mark}{value:.3f}{mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="what `acqh bench --out` was given")
    store = Store(parser.parse_args().folder)
    for paper in (True, False):
        columns = columns_of(store, paper=paper)
        for (dataset, protocol, coding), methods in sorted(tables_of(store, paper=paper).items()):
            kind = "the paper's protocol" if paper else "equal bytes"
            print(f"\n{dataset}, {kind}, {protocol} {coding}\n".replace(" \n", "\n"))
            print("\n".join(markdown(methods, columns, paper=paper)))


if __name__ == "__main__":
    main()
