"""What the commands about collections share: progress and what was left out."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from acqh._core.progress import Progress
from acqh.cli._output import progress as progress_bar

CollectionArgument = Annotated[
    Path, typer.Argument(metavar="COLLECTION", help="A folder that acqh build has made.")
]
_MAX_SKIPPED_LINES = 20


@contextmanager
def reporting() -> Iterator[Progress]:
    """Give a function that shows progress on stderr, where that is a terminal."""
    with progress_bar(of_items=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int | None, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield show


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say on stderr which items were left out, and why; the first of them."""
    for what, why in skipped[:_MAX_SKIPPED_LINES]:
        print(f"left out {printable(what)}: {printable(why)}", file=sys.stderr)
    if len(skipped) > _MAX_SKIPPED_LINES:
        print(f"... and {len(skipped) - _MAX_SKIPPED_LINES} more", file=sys.stderr)


def printable(text: str) -> str:
    """Return a text without what could move the cursor or colour a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
