"""``acqh report``: tables and figures from what bench stored."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from acqh.cli._output import JsonOption, print_json
from acqh.cli._progress import reporting


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder that acqh bench wrote to.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; FOLDER/report by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a page, CSV and LaTeX tables, and figures of what bench stored."""
    from acqh.bench import write_report

    with reporting() as show:
        made = write_report(directory, out, on_step=lambda step: show(0, None, step))
    if as_json:
        facts = asdict(made)
        facts["page"] = str(made.page)
        for name in ("tables", "figures"):
            facts[name] = [str(path) for path in facts[name]]
        print_json(facts)
        return
    print(f"{made.page}")
    print(
        f"{made.n_cells:,} cells, {made.n_failed:,} failed; {len(made.tables)} files of tables and "
        f"{len(made.figures)} of figures beside the page"
    )
    for entry in made.distances:
        if entry.is_closest:
            print(
                f"{entry.dataset}, {entry.rows}: closest to the paper at cut-off {entry.cutoff} "
                f"(mean difference {entry.mean_difference:.4f})"
            )
