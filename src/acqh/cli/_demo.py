"""``acqh demo``: the embedded emoji set, from images and names to a table and a search page."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._emoji import cache_folder, emoji_collection
from acqh.cli._output import JsonOption, print_json, print_table
from acqh.cli._progress import Reporter, reporting
from acqh.cli._serve import serve as serve_collection


def demo(
    serve: Annotated[
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Serve the search page afterwards, until Ctrl-C. By default on a terminal, but "
            "not where CI is set or JSON is printed.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = 0,
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="Folder to keep the collection in; by default the user's cache."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Build, evaluate and serve the embedded emoji set: a table, then a search page."""
    with reporting() as say:
        collection = emoji_collection(cache_dir or cache_folder(), say)
    data, rows, seconds = _evaluated(seed)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        _print(data, rows, seconds)
    if serve is None:
        serve = sys.stdout.isatty() and not os.environ.get("CI") and not as_json
    if serve:
        serve_collection([collection], port=port)
    elif not as_json:
        # By the name it was called by: in a virtual environment it may not be on the PATH.
        program = sys.argv[0] if Path(sys.argv[0]).stem == "acqh" else "acqh"
        command = shlex.join([program, "serve", str(collection)])
        print(f"\nThe search page of these emoji: {command}")


def _evaluated(seed: int) -> tuple[Any, list[Any], float]:
    """Return the data, the rows of the table, and the seconds they took."""
    started = time.perf_counter()
    with reporting() as show:
        data = _emoji_with_features(show)
        rows = list(_evaluate(data, seed, show))
    return data, rows, time.perf_counter() - started


def _emoji_with_features(show: Reporter) -> Any:
    """Return the emoji set with features made from its images and names, as users would."""
    from acqh.data import load_dataset
    from acqh.encoders import HogColour

    data = load_dataset("emoji")
    show(0, len(data), "describing images")
    return data.with_views({**data.views, "image": HogColour().transform(data.items["image"])})


def _evaluate(data: Any, seed: int, show: Reporter) -> Iterator[Any]:
    from sklearn.base import clone
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.pipeline import make_pipeline

    from acqh.bench import evaluate, make_split
    from acqh.features import TagSVD
    from acqh.methods import get
    from acqh.methods.registry import DatabaseMode

    maps = {"text": make_pipeline(TfidfTransformer(), TagSVD(400, random_state=seed))}
    methods = [
        get("acqh")(32, n_codebooks=4, feature_maps=maps, random_state=seed),
        get("label-ridge")(ridge="auto", feature_maps=maps),
    ]
    runs: list[tuple[str, DatabaseMode]] = [
        ("labelled", "learnt"),
        ("unlabelled", "hashed"),
        ("unlabelled", "unified"),
    ]
    cells = list(product(methods, runs))
    for number, (method, (protocol, database)) in enumerate(cells):
        show(number, len(cells), f"evaluating: {method.info.name}, {protocol} database")
        split = make_split(data, protocol, seed=seed, groups="family")
        yield from evaluate(clone(method), data, split, database=database)


def _print(data: Any, rows: list[Any], seconds: float) -> None:
    columns = ["method", "bytes", "database", "coded by", "query", "MAP@all", "@50", "@100"]
    cells = []
    for row in rows:
        query, searched = row.direction.split("->")
        coded_from = {"learnt": "labels", "hashed": searched, "unified": "both"}
        figures = (f"{value:.3f}" for value in (row.map_all, row.map_50, row.map_100))
        facts = (row.method, str(row.bytes_per_item), row.protocol, coded_from[row.database])
        cells.append([*facts, query, *figures])
    first, last = rows[0], rows[-1]
    caption = (
        f"{len(data):,} emoji in {len(data.label_names)} groups, variants of one thing kept "
        f"together; {first.n_query} queries against {first.n_database:,} labelled or "
        f"{last.n_database} unlabelled items. Average precision over the relevant items within "
        f"the cut-off, ties in expectation; chance is 0.13. {seconds:.0f} s."
    )
    print_table("Emoji: images find names, names find images", columns, cells, caption=caption)
