"""``acqh bench``: run methods on data sets, store every cell, resume where a run stopped."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acqh.cli._output import JsonOption, print_json, print_table, progress

if TYPE_CHECKING:
    from acqh.bench import Cell, Store
    from acqh.bench.running._sources import BenchData

_PAPER_DATA = ("mirflickr25k", "nuswide10", "wiki")

DataArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA...",
        help="Names of data sets, or files; by default every data set found (with --paper, of "
        "the paper's).",
    ),
]
OutOption = Annotated[
    Path, typer.Option("--out", help="Folder for the results; an earlier run in it is resumed.")
]
MethodsOption = Annotated[
    str,
    typer.Option(
        help="Methods, separated by commas; 'NAME rbf' is one with RBF features. 'all' is all "
        "that need no network, and the controls."
    ),
]
MethodFilesOption = Annotated[
    list[str] | None,
    typer.Option("--method", metavar="FILE.py:CLASS", help="Add a method of your own."),
]
BitsOption = Annotated[
    str, typer.Option(help="Code lengths in bits; without --paper, eight times the bytes an item.")
]
ProtocolOption = Annotated[
    str | None, typer.Option(help="labelled or unlabelled; both by default, labelled with --paper.")
]


def bench(
    out: OutOption,
    data: DataArgument = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Run the settings of the paper's tables and figures.")
    ] = False,
    methods: MethodsOption = "all",
    method_files: MethodFilesOption = None,
    bits: BitsOption = "8,16,32,64,128",
    protocol: ProtocolOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 5,
    official: Annotated[
        bool, typer.Option("--official", help="Use the data's own split, not random ones.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of a method; by default one a core.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the data files; by default $ACQH_DATA.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run cells again that have failed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the cells, and say how long they take.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run methods on data sets; store every cell as it ends, so that a run can be resumed."""
    from acqh.bench import Store
    from acqh.bench import seeds as make_seeds
    from acqh.bench.running._machine import count_cores
    from acqh.bench.running._plans import RunGrid, fair_plan, paper_plan
    from acqh.bench.running._worker import WorkerSettings

    if paper and protocol == "unlabelled":
        raise typer.BadParameter("the paper's database is labelled: drop --protocol or --paper")
    n_threads = threads or count_cores()
    files = tuple(method_files or ())
    grid = RunGrid(
        variants=_variants(methods, files),
        lengths=_lengths(bits, paper),
        protocols=_protocols(protocol),
        seeds=make_seeds(seeds),
        n_threads=n_threads,
        official=official,
    )
    sources = _open_all(data or _found(data_dir, paper), data_dir)
    cells = (paper_plan if paper else fair_plan)([source for _, source in sources], grid)
    store = Store(out)
    if dry_run:
        _print_plan(cells, store, retry_failed, as_json)
        return
    settings = WorkerSettings(
        n_threads,
        {source.data.name: argument for argument, source in sources},
        None if data_dir is None else str(data_dir),
        files,
    )
    with store.locked():
        store.write_plan(
            {
                "mode": "paper" if paper else "fair",
                "command": ["acqh", *sys.argv[1:]],
                "keys": [cell.key for cell in cells],
            }
        )
        _run(cells, store, settings, retry_failed, as_json)


def _variants(names: str, files: Sequence[str]) -> tuple[Any, ...]:
    from acqh.bench.running._plugins import load_method_file
    from acqh.bench.running._variants import list_variants, make_variant

    own = [load_method_file(file).info.name for file in files]
    if names.strip() == "all":
        return tuple(list_variants())
    labels = [name.strip() for name in names.split(",") if name.strip()]
    return tuple(make_variant(label) for label in dict.fromkeys([*labels, *own]))


def _lengths(bits: str, paper: bool) -> tuple[int, ...]:
    try:
        lengths = tuple(int(part) for part in bits.split(","))
    except ValueError:
        lengths = ()
    if not lengths or min(lengths) < 1:
        raise typer.BadParameter(f"--bits takes whole numbers such as 8,16,32, not {bits!r}")
    if not paper and any(length % 8 or length > 128 for length in lengths):
        raise typer.BadParameter(
            "items take whole bytes: --bits takes multiples of 8 up to 128, unless with --paper"
        )
    return lengths


def _protocols(protocol: str | None) -> tuple[str, ...]:
    from acqh.bench import list_protocols

    known = tuple(each.name for each in list_protocols())
    if protocol is None:
        return known
    if protocol not in known:
        raise typer.BadParameter(f"--protocol is one of {', '.join(known)}, not {protocol!r}")
    return (protocol,)


def _found(data_dir: Path | None, paper: bool) -> list[str]:
    from acqh.data import list_datasets

    found = [info.name for info in list_datasets(data_dir) if info.found]
    names = [name for name in found if not paper or name in _PAPER_DATA]
    if not names:
        raise typer.BadParameter(
            "no data set was found: name one, or say with --data-dir or ACQH_DATA where files lie"
        )
    return names


def _open_all(arguments: Sequence[str], data_dir: Path | None) -> list[tuple[str, "BenchData"]]:
    from acqh.bench.running._sources import open_data

    opened = [(argument, open_data(argument, data_dir)) for argument in arguments]
    names = [source.data.name for _, source in opened]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"two of the data given are called {name!r}; rename a file")
    return opened


def _print_plan(cells: Sequence["Cell"], store: "Store", retry: bool, as_json: bool) -> None:
    from acqh.bench.running._estimate import Estimator
    from acqh.bench.running._runner import pending

    estimator = Estimator(store.records())
    left = {cell.key for cell in pending(cells, store, retry_failed=retry)}
    rows: list[dict[str, Any]] = [
        {
            "key": cell.key,
            "dataset": cell.dataset,
            "protocol": cell.protocol,
            "database": cell.database,
            "method": cell.label,
            "length": cell.n_components_asked,
            "bytes": cell.bytes_asked,
            "n_train": cell.n_train,
            "seed": cell.seed,
            "state": "run" if cell.key in left else "stored",
            "seconds": round(estimator.seconds([cell]), 1) if cell.key in left else 0.0,
        }
        for cell in cells
    ]
    seconds = sum(row["seconds"] for row in rows)
    if as_json:
        print_json({"cells": rows, "n_to_run": len(left), "seconds": seconds})
        return
    columns = [name for name in rows[0] if name != "key"] if rows else []
    texts = [["-" if row[name] is None else str(row[name]) for name in columns] for row in rows]
    caption = (
        f"{len(cells):,} cells, {len(left):,} to run: about {Estimator.describe(seconds)}, from "
        "the time of like cells in the folder; a cell that is like none counts 3 s."
    )
    print_table("Cells", columns, texts, caption=caption)


def _run(
    cells: Sequence["Cell"], store: "Store", settings: Any, retry: bool, as_json: bool
) -> None:
    from acqh.bench.running._estimate import Estimator
    from acqh.bench.running._runner import pending, run_cells

    left = pending(cells, store, retry_failed=retry)
    waiting = {cell.key: cell for cell in left}
    estimator = Estimator(store.records())
    failed: list[dict[str, Any]] = []
    with progress() as bar:
        task = bar.add_task("starting", total=len(left))

        def on_start(cell: "Cell") -> None:
            time_left = Estimator.describe(estimator.seconds(waiting.values()))
            size = "" if cell.n_components_asked is None else f" {cell.n_components_asked}"
            what = f"{cell.dataset}, {cell.protocol}, {cell.label}{size}, seed {cell.seed}"
            bar.update(task, description=f"{what}; about {time_left} left")

        def on_end(record: dict[str, Any]) -> None:
            del waiting[record["key"]]
            estimator.learn(record)
            bar.advance(task)
            if record["status"] == "failed":
                failed.append(record)

        def on_interrupt() -> None:
            bar.console.print("stopping after this cell; interrupt again to stop at once")

        summary = run_cells(
            cells,
            store,
            settings,
            retry_failed=retry,
            on_start=on_start,
            on_end=on_end,
            on_interrupt=on_interrupt,
        )
    if as_json:
        keys = ("key", "label", "reason")
        reasons = [{key: record[key] for key in keys} for record in failed]
        print_json({"out": str(store.path), **asdict(summary), "failed": reasons})
    else:
        _say(store, summary, failed)
    if summary.n_left:
        raise typer.Exit(1)


def _say(store: "Store", summary: Any, failed: Sequence[dict[str, Any]]) -> None:
    for record in failed:
        print(f"failed: {record['label']} ({record['key']}): {record['reason']}")
    print(
        f"{summary.n_done:,} cells run in {summary.seconds:.0f} s, {summary.n_failed:,} failed, "
        f"{summary.n_stored:,} were there before; results in {store.path / 'results.csv'}"
    )
    if summary.n_left:
        print(f"interrupted: {summary.n_left:,} cells are left; the same command resumes")
    else:
        print(f"tables and figures: acqh report {store.path}")
