"""What the commands about collections share: their argument, and what was left out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from acqh.cli._voice import voice

CollectionArgument = Annotated[
    Path, typer.Argument(metavar="COLLECTION", help="A folder that acqh build has made.")
]
MaxPixelsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Refuse images of more pixels, before decoding them; 64000000 if not given.",
    ),
]
LabelSeparatorOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="What stands between a manifest's labels; by default a vertical bar."
    ),
]
_MAX_SKIPPED_LINES = 20


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say on stderr which items were left out, and why; the first of them."""
    for what, why in skipped[:_MAX_SKIPPED_LINES]:
        voice.note(f"left out {printable(what)}: {printable(why)}")
    if len(skipped) > _MAX_SKIPPED_LINES:
        voice.note(f"... and {len(skipped) - _MAX_SKIPPED_LINES} more")


def printable(text: str) -> str:
    """Return a text without what could move the cursor or colour a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
