"""``acqh label``: texts and labels for items that are there."""

from pathlib import Path
from typing import Annotated

import typer

from acqh.cli._options import CollectionArgument, LabelSeparatorOption
from acqh.cli._output import JsonOption, print_result, print_skipped
from acqh.cli._progress import reporting


def label(
    path: CollectionArgument,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="CSV, TSV, JSON lines or Parquet with a column id, file or image, and any of "
            "text, labels (separated by |) and others, which become columns.",
        ),
    ],
    label_separator: LabelSeparatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give items texts, labels and columns; what is empty stays, and no image is read."""
    from acqh.collection import Collection

    with Collection.open(path) as collection, reporting() as progress:
        report = collection.label(table, label_separator=label_separator, progress=progress)
        n_items = len(collection)
    print_skipped(report.skipped)
    facts = {"ids": report.ids, "skipped": report.skipped, "n_items": n_items}
    print_result(facts, f"{path}: {len(report.ids):,} of {n_items:,} items labelled", as_json)
