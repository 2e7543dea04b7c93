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
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove items whose images are gone, even if many.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Forget texts, labels and columns that removed items were given."
        ),
    ] = False,
    max_pixels: MaxPixelsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add new images, read changed ones again, follow moved ones, and remove deleted ones.

    Only images of this folder are compared; a collection can follow several folders.
    Where there is no collection yet, build it, as acqh build does.
    """
    from acqh.collection import Collection, SyncReport, folder_items

    with reporting() as progress:
        if path.exists():
            with Collection.open(path) as collection:
                report = collection.sync(
                    folder,
                    delete=delete,
                    dry_run=dry_run,
                    forget=forget,
                    max_pixels=max_pixels,
                    progress=progress,
                )
                n_items = len(collection)
        elif dry_run:
            report, n_items = SyncReport(new=tuple(it.id for it in folder_items(folder))), 0
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
    lines = [f"{path}: {n_items:,} items; {'would be: ' if dry_run else ''}{said}"]
    if dry_run:
        plan = {name: getattr(report, name) for name in ("new", "changed", "moved", "deleted")}
        facts["plan"] = plan
        lines += [f"{name}: {each}" for name, ids in plan.items() for each in ids]
    print_result(facts, "\n".join(lines), as_json)
