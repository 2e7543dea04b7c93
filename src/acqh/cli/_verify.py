"""``acqh verify``: deep check of anything acqh has written."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from acqh.cli._output import JsonOption, print_json


def verify(
    path: Annotated[Path, typer.Argument(help="A bundle: an index or a fitted method.")],
    as_json: JsonOption = False,
) -> None:
    """Check every byte of a bundle against its checksums, then open what it holds."""
    from acqh._load import verify as check

    report = check(path)
    if as_json:
        print_json({**asdict(report), "path": str(report.path)})
    elif report.problems:
        for problem in report.problems:
            print(f"{path}: {problem}")
    else:
        title = f" '{report.name}'" if report.name else ""
        print(
            f"{path}: whole. {report.kind}{title}, {report.n_members} members, "
            f"{report.n_bytes:,} bytes, format {report.version}."
        )
    if report.problems:
        raise typer.Exit(1)
