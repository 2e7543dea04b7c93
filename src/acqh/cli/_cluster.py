"""The option ``--dask``: where the work of a command is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS|local",
        help="Work on a Dask cluster: its scheduler's address, or local for a process per core.",
    ),
]


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Give a client of the cluster, or None where the work is done here."""
    if address is None:
        yield None
        return
    from acqh.scale import connect

    with connect(address) as client:
        yield client
