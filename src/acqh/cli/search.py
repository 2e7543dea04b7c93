"""Commands that answer: from a collection, or from indexes for a file of queries."""

import logging
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from acqh.cli._options import CollectionArgument, DaskOption, JsonOption, MaxPixelsOption, working
from acqh.cli._output import (
    print_json,
    print_result,
    print_table,
    printable,
    refuse_existing,
    voice,
)

_TEXT_WIDTH = 60
# What --json says of a hit.
_FIELDS = ("id", "text", "labels", "columns", "has_thumbnail", "code", "score", "why")


PathsArgument = Annotated[
    list[Path],
    Argument(
        metavar="COLLECTION|INDEX...",
        help="A folder that acqh build has made; with --queries what acqh index has made, or "
        "several of one model.",
    ),
]
WhereOption = Annotated[
    list[str] | None,
    Option(
        metavar="CONDITION", help="label=NAME or COLUMN=VALUE; may be repeated, and all must hold."
    ),
]
ModeOption = Annotated[
    Literal["auto", "words", "meaning"],
    Option(help="By words in captions, names or labels, by meaning, or by both."),
]
QueriesOption = Annotated[
    str | None, Option(help="A file or folder of features to search indexes for.")
]
ModelOption = Annotated[
    Path | None,
    Option(help="With --queries: the model that made the codes; none for acqh compress's."),
]
ViewOption = Annotated[str | None, Option(help="With --queries: their view to search by.")]
OutOption = Annotated[
    Path | None,
    Option(help="With --queries: a .csv or .parquet file."),
]
ChunkSizeOption = Annotated[
    int, Option(min=1, help="With --queries: how many in memory at a time.")
]


def search(
    paths: PathsArgument,
    text: Annotated[str | None, Option(help="Words to search for.")] = None,
    image: Annotated[Path | None, Option(help="An image to search for.")] = None,
    item: Annotated[str | None, Option(help="Id of an item: find others like it.")] = None,
    k: Annotated[int, Option("-k", min=1, help="How many hits.")] = 10,
    where: WhereOption = None,
    text_weight: Annotated[float, Option(min=0, help="How much the text counts.")] = 1.0,
    image_weight: Annotated[float, Option(min=0, help="How much the image counts.")] = 1.0,
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
    """Search a collection; with text and image, by both together.

    With --queries, search indexes for all items of a file, and write what is found.
    """
    if queries is not None:
        if text is not None or image is not None or item is not None or where:
            raise BadParameter("--queries goes without --text, --image, --item and --where")
        if out is None or (model is not None and view is None):
            raise BadParameter("--queries needs --out, and with --model also --view")
        search_all(paths, model, queries, out, view, k, chunk_size, dask, as_json)
        return
    if model is not None or view is not None or out is not None or dask is not None:
        raise BadParameter("--model, --view, --out and --dask go with --queries")
    if text is None and image is None and item is None:
        raise BadParameter("give --text, --image or --item; or --queries")
    if len(paths) > 1:
        raise BadParameter("give one collection; several paths go with --queries")
    from acqh.collection import Collection

    given = {"text": (text, text_weight), "image": (image, image_weight)}
    weights = {name: weight for name, (value, weight) in given.items() if value is not None}
    with Collection.open(paths[0]) as collection:
        asked: dict[str, Any] = {"text": text, "image": image, "item": item, "weights": weights}
        answer = collection.search(**asked, k=k, where=where, mode=mode, max_pixels=max_pixels)
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
    counts = {name: getattr(answer, name) for name in ("n_items", "n_candidates", "n_seen")}
    return {"hits": hits, **counts, "milliseconds": times}


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


def search_all(
    indexes: list[Path],
    model: Path | None,
    queries: str,
    out: Path,
    view: str | None,
    k: int,
    chunk_size: int,
    dask: str | None,
    as_json: bool,
) -> None:
    """Search for all queries of a file; write a table of hits."""
    from acqh.methods import load_method
    from acqh.scale import search_table

    refuse_existing(out)
    fitted = None if model is None else load_method(model)
    index = indexes[0] if len(indexes) == 1 else indexes
    with working(dask) as given:
        asked: dict[str, Any] = {"view": view, "k": k, "chunk_size": chunk_size}
        n_queries = search_table(fitted, index, queries, out, **asked, **given)
    facts = {"n_queries": n_queries, "k": k, "seconds": voice.seconds}
    sentence = f"{out}: the best {k} for each of {n_queries:,} queries; {facts['seconds']:.1f} s."
    print_result(facts, sentence, as_json)


def serve(
    collection: CollectionArgument,
    host: Annotated[
        str | None, Option(help="Address to listen on; any but loopback needs a token.")
    ] = None,
    port: Annotated[
        int | None, Option(min=0, max=65535, help="Port to listen on; by default 8000.")
    ] = None,
    token_file: Annotated[
        Path | None, Option(help="File with the token that readers must send.")
    ] = None,
    write_token_file: Annotated[
        Path | None, Option(help="File with the token that adds and removes items.")
    ] = None,
    image_root: Annotated[
        Path | None,
        Option(
            exists=True,
            file_okay=False,
            help="Folder of the image files, to link to them as they were.",
        ),
    ] = None,
    root_path: Annotated[
        str | None, Option(help="What a proxy puts before every path, such as /photos.")
    ] = None,
) -> None:
    """Serve a collection and its search page, to this machine and read-only unless told otherwise.

    Every setting may also be given in the environment, such as ACQH_MAX_K=100.
    """
    from acqh.serve import run

    settings = _settings(
        collection=collection, host=host, port=port, token_file=token_file,
        write_token_file=write_token_file, image_root=image_root, root_path=root_path,
    )  # fmt: skip
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=voice.level(logging.INFO)
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    run(settings, lambda address: print(f"serving {collection} at {address}", file=sys.stderr))


def _settings(**given: Any) -> Any:
    """Return the settings given, the others from the environment; refuse what is wrong in it."""
    from pydantic import ValidationError

    from acqh.serve import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in wrong["loc"])
        variable = f"ACQH_{name.upper()}"
        said = variable if given.get(name) is None else f"--{name.replace('_', '-')}"
        # The one setting with a pattern is the path that a proxy puts before all others.
        is_path = wrong["type"] == "string_pattern_mismatch"
        why = "give a path such as /photos" if is_path else wrong["msg"]
        raise BadParameter(f"{said}: {why}, got {wrong['input']!r}") from None
