"""``acqh remove``: take items out of a collection."""

from typing import Annotated

import typer

from acqh.cli._options import CollectionArgument
from acqh.cli._output import JsonOption, print_result


def remove(
    path: CollectionArgument,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of the items.")],
    as_json: JsonOption = False,
) -> None:
    """Remove items by their ids: all of them, or none if one is unknown."""
    from acqh.collection import Collection

    with Collection.open(path) as collection:
        n_removed = collection.remove(ids)
        n_items = len(collection)
    facts = {"n_removed": n_removed, "n_items": n_items}
    print_result(facts, f"{path}: {n_removed:,} items removed, {n_items:,} left", as_json)
