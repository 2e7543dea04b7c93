"""``acqh remove``: take items out of a collection."""

from typing import Annotated

import typer

from acqh.cli._collections import CollectionArgument
from acqh.cli._output import JsonOption, print_json


def remove(
    path: CollectionArgument,
    ids: Annotated[list[str], typer.Argument(help="Ids of the items.")],
    as_json: JsonOption = False,
) -> None:
    """Remove items by their ids: all of them, or none if one is not there."""
    from acqh.collection import Collection

    with Collection.open(path) as collection:
        n_removed = collection.remove(ids)
        n_items = len(collection)
    if as_json:
        print_json({"n_removed": n_removed, "n_items": n_items})
    else:
        print(f"{path}: {n_removed:,} items removed, {n_items:,} left")
