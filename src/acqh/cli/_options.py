"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A folder that acqh fit made.")
]
ComponentsOption = Annotated[int, typer.Option(min=1, help="Length of query vectors.")]
CodebooksOption = Annotated[int, typer.Option(min=1, max=16, help="Bytes per item.")]
ChunkSizeOption = Annotated[int, typer.Option(min=1, help="Items in memory at a time.")]
DataDirOption = Annotated[
    Path | None, typer.Option(help="Folder with the data files; by default $ACQH_DATA.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
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
