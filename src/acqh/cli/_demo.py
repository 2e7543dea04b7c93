"""``acqh demo``: the embedded emoji set, from pictures and names to a table."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from acqh.cli._output import JsonOption, print_json, print_table, progress


def demo(
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Open the search page afterwards.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit and evaluate on the embedded emoji set; print the table."""
    if serve:
        raise typer.BadParameter("the search page is not part of this version; use --no-serve")
    started = time.perf_counter()
    with progress() as bar:
        task = bar.add_task("loading pictures", total=None)
        data = _emoji_with_features(lambda text: bar.update(task, description=text))
        rows = list(_evaluate(data, seed, lambda text: bar.update(task, description=text)))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    _print(data, rows, time.perf_counter() - started)


def _emoji_with_features(say: Any) -> Any:
    """Return the emoji set with features made from its pictures and names, as users would."""
    from acqh.data import load_dataset
    from acqh.features import HogColour

    data = load_dataset("emoji")
    say("describing pictures")
    return data.with_views({**data.views, "image": HogColour().transform(data.items["picture"])})


def _evaluate(data: Any, seed: int, say: Any) -> Iterator[Any]:
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    from acqh.bench import evaluate, make_split
    from acqh.features import TagSVD, Tfidf
    from acqh.methods import get
    from acqh.methods.registry import DatabaseMode

    maps = {"text": make_pipeline(Tfidf(), TagSVD(400, random_state=seed))}
    methods = [
        get("acqh")(32, n_codebooks=4, feature_maps=maps, random_state=seed),
        get("label-ridge")(ridge="auto", feature_maps=maps),
    ]
    runs: list[tuple[str, DatabaseMode]] = [
        ("labelled", "learnt"),
        ("unlabelled", "hashed"),
        ("unlabelled", "unified"),
    ]
    for method in methods:
        for protocol, database in runs:
            split = make_split(data, protocol, seed=seed, groups="family")
            say(f"{method.info.name}, {protocol} database")
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
    print_table("Emoji: pictures find names, names find pictures", columns, cells, caption=caption)
