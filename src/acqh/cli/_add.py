"""``acqh add``: more items for a collection."""

from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._options import CollectionArgument, LabelSeparatorOption, MaxPixelsOption
from acqh.cli._output import JsonOption, print_result, print_skipped
from acqh.cli._progress import reporting


def add(
    path: CollectionArgument,
    manifest: Annotated[
        Path | None,
        typer.Argument(
            metavar="MANIFEST", help="A manifest as for acqh build; or give one item below."
        ),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="Image of one item.")] = None,
    text: Annotated[str, typer.Option(help="Text of one item.")] = "",
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="A label of it; may be repeated.")
    ] = None,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Its id; by default from its image's path or its content."),
    ] = None,
    label_separator: LabelSeparatorOption = None,
    max_pixels: MaxPixelsOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace items that have the same ids.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Add all or nothing; fail if an item cannot be used.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add the items of a manifest, or one item."""
    from acqh.collection import Collection, Item, read_items

    if manifest is None and image is None and not text:
        raise typer.BadParameter("give a manifest, or --image and --text of one item")
    if manifest is not None and (image or text or label or identifier):
        raise typer.BadParameter(
            "--image, --text, --label and --id are of one item, not a manifest"
        )
    items: Any = Item(image, text, label or (), identifier, origin="the item")
    if manifest is not None:
        items = read_items(manifest, label_separator=label_separator)
    with Collection.open(path) as collection, reporting() as progress:
        change = collection.upsert if replace else collection.add
        report = change(items, strict=strict, max_pixels=max_pixels, progress=progress)
        n_items = len(collection)
    print_skipped(report.skipped)
    print_result(
        {"ids": report.ids, "skipped": report.skipped, "n_items": n_items},
        f"{path}: {len(report.ids):,} items added, {n_items:,} in all",
        as_json,
    )
    if manifest is None and report.skipped:
        raise typer.Exit(1)
