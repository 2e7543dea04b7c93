"""``acqh sync``: a collection follows a folder of images."""

from pathlib import Path
from typing import Annotated

import typer

from acqh.cli._options import CollectionArgument, MaxPixelsOption
from acqh.cli._output import JsonOption, print_result, print_skipped
from acqh.cli._progress import reporting


def sync(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of images, without a manifest.")
    ],
    path: CollectionArgument,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Remove items even if none of the images is left.")
    ] = False,
    max_pixels: MaxPixelsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add new images, read changed ones again, follow moved ones, and remove deleted ones.

    Where there is no collection yet, build it, as acqh build does.
    """
    from acqh.collection import Collection, SyncReport, folder_items

    with reporting() as progress:
        if path.exists():
            with Collection.open(path) as collection:
                report = collection.sync(
                    folder, allow_empty=allow_empty, max_pixels=max_pixels, progress=progress
                )
                n_items = len(collection)
        else:
            images = folder_items(folder)
            with Collection.build(
                images, path, max_pixels=max_pixels, progress=progress
            ) as collection:
                report = SyncReport(new=tuple(collection), unreadable=collection.skipped)
                n_items = len(collection)
    print_skipped(report.unreadable)
    counts = {
        "new": len(report.new),
        "changed": len(report.changed),
        "moved": len(report.moved),
        "deleted": len(report.deleted),
        "unchanged": report.n_unchanged,
        "unreadable": len(report.unreadable),
    }
    facts = {"path": str(path), "n_items": n_items, **counts, "skipped": report.unreadable}
    said = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    print_result(facts, f"{path}: {n_items:,} items; {said}", as_json)
