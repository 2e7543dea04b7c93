"""``acqh search``: what a collection has for a query, or indexes for a file of queries."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from acqh.cli._bulk_search import search_all
from acqh.cli._cluster import DaskOption
from acqh.cli._options import MaxPixelsOption
from acqh.cli._output import JsonOption, print_json, print_table, printable

_TEXT_WIDTH = 60
# What --json says of a hit.
_FIELDS = ("id", "text", "labels", "columns", "has_thumbnail", "code", "score", "why")


PathsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="COLLECTION|INDEX...",
        help="A folder that acqh build has made, or several made with --like, as one; with "
        "--queries what acqh index has made, or several of one model.",
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="label=NAME or COLUMN=VALUE; may be repeated, and all must hold.",
    ),
]
ModeOption = Annotated[
    Literal["auto", "words", "meaning"],
    typer.Option(help="By words in captions, names or labels, by meaning, or by both."),
]
QueriesOption = Annotated[
    str | None, typer.Option(help="A file or folder of features to search indexes for.")
]
ModelOption = Annotated[
    Path | None,
    typer.Option(help="With --queries: the model that made the codes; none for acqh compress's."),
]
ViewOption = Annotated[str | None, typer.Option(help="With --queries: their view to search by.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="With --queries: a folder for parts, where a stopped run goes on; or a .csv or "
        ".parquet file."
    ),
]
ChunkSizeOption = Annotated[
    int, typer.Option(min=1, help="With --queries: how many in memory at a time.")
]


def search(
    paths: PathsArgument,
    text: Annotated[str | None, typer.Option(help="Words to search for.")] = None,
    image: Annotated[Path | None, typer.Option(help="An image to search for.")] = None,
    item: Annotated[str | None, typer.Option(help="Id of an item: find others like it.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many hits.")] = 10,
    where: WhereOption = None,
    text_weight: Annotated[float, typer.Option(min=0, help="How much the text counts.")] = 1.0,
    image_weight: Annotated[float, typer.Option(min=0, help="How much the image counts.")] = 1.0,
    max_pixels: MaxPixelsOption = None,
    mode: ModeOption = "auto",
    queries: QueriesOption = None,
    model: ModelOption = None,
    view: ViewOption = None,
    out: OutOption = None,
    chunk_size: ChunkSizeOption = 8_192,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search a collection, or several as one; with text and image, by both together.

    With --queries, search indexes for all items of a file, and write what is found.
    """
    if queries is not None:
        if text is not None or image is not None or item is not None or where:
            raise typer.BadParameter("--queries goes without --text, --image, --item and --where")
        if out is None or (model is not None and view is None):
            raise typer.BadParameter("--queries needs --out, and with --model also --view")
        search_all(paths, model, queries, out, view, k, chunk_size, dask, as_json)
        return
    if model is not None or view is not None or out is not None or dask is not None:
        raise typer.BadParameter("--model, --view, --out and --dask go with --queries")
    if text is None and image is None and item is None:
        raise typer.BadParameter("give --text, --image or --item; or --queries")
    from acqh.collection import open_collections

    given = {"text": (text, text_weight), "image": (image, image_weight)}
    weights = {name: weight for name, (value, weight) in given.items() if value is not None}
    with open_collections(paths) as collection:
        answer = collection.search(
            text=text,
            image=image,
            item=item,
            weights=weights,
            k=k,
            where=where,
            mode=mode,
            max_pixels=max_pixels,
        )
    if as_json:
        print_json(_as_json(answer))
    else:
        _print(answer)


def _as_json(answer: Any) -> dict[str, Any]:
    hits = [
        {**{name: getattr(hit, name) for name in _FIELDS}, "code": list(hit.code)}
        for hit in answer.hits
    ]
    times = {name: round(value, 3) for name, value in answer.milliseconds.items()}
    return {
        "hits": hits,
        "n_items": answer.n_items,
        "n_candidates": answer.n_candidates,
        "n_seen": answer.n_seen,
        "milliseconds": times,
    }


def _print(answer: Any) -> None:
    if not answer.hits:
        print(f"nothing found among {answer.n_items:,} items")
        return
    from rich.markup import escape

    table = {
        "rank": [str(rank) for rank, _ in enumerate(answer.hits, start=1)],
        "score": [f"{hit.score:.3f}" for hit in answer.hits],
        "id": [hit.id for hit in answer.hits],
        # Of a folder's image the id is where it was first seen.
        "file": [_moved_to(hit) for hit in answer.hits],
        "why": [", ".join(hit.why) for hit in answer.hits],
        "labels": [", ".join(hit.labels) for hit in answer.hits],
        "text": [printable(hit.text)[:_TEXT_WIDTH] for hit in answer.hits],
    }
    table = {name: cells for name, cells in table.items() if any(cells)}
    rows = [[escape(printable(cell)) for cell in row] for row in zip(*table.values(), strict=True)]
    times = answer.milliseconds
    caption = (
        f"{answer.n_items:,} items, {answer.n_seen:,} codes looked at; "
        f"{times['encode']:.1f} ms to describe the query, "
        f"{times['search']:.2f} ms to search, {times['items']:.1f} ms to read what was found"
    )
    print_table("Hits", [*table], rows, caption=caption)


def _moved_to(hit: Any) -> str:
    """Return the file of a hit where its id is another."""
    file = hit.columns.get("file")
    return file if isinstance(file, str) and file != hit.id else ""
