"""Results to stdout, as tables or as JSON."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._voice import voice
from acqh.errors import InvalidInputError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_MAX_SKIPPED_LINES = 20


def refuse_existing(path: Path) -> None:
    """Raise InvalidInputError where something is at the path of an ``--out`` already."""
    if path.exists():
        raise InvalidInputError(f"{path} exists; remove it, or choose another --out")


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Make the folder of an ``--out`` before the work, so that of two commands one is refused.

    It is removed again where the work fails. Raises InvalidInputError where something is there.
    """
    try:
        path.mkdir()
    except FileExistsError:
        refuse_existing(path)
        raise
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))


def print_result(facts: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a command has done: as JSON, or as a sentence."""
    if as_json:
        print_json(facts)
    else:
        print(sentence)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = ""
) -> None:
    """Print a table; columns after the first whose cells are all numbers are set to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for position, column in enumerate(columns):
        digits = [row[position].replace(",", "").replace(".", "", 1) for row in rows]
        is_number = bool(position) and all(cell.isdigit() for cell in digits)
        table.add_column(column, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say on stderr which items were left out, and why; the first of them."""
    for what, why in skipped[:_MAX_SKIPPED_LINES]:
        voice.note(f"left out {printable(what)}: {printable(why)}")
    if len(skipped) > _MAX_SKIPPED_LINES:
        voice.note(f"... and {len(skipped) - _MAX_SKIPPED_LINES} more")


def printable(text: str) -> str:
    """Return a text without what could move the cursor or colour a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
