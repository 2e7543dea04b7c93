"""Commands that compare methods on data sets."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Context, Exit

from acqh.cli._options import DataDirOption, flag, option, parse_list, parse_numbers
from acqh.cli._output import count, print_result, print_table, reporting
from acqh.errors import InvalidInputError

DataArgument = Annotated[
    list[str] | None,
    Argument(metavar="DATA", help="Names of data sets, or files. Default: all that are found."),
]
OutOption = Annotated[
    Path,
    option("Folder for the results. An interrupted run in it continues.", metavar="DIR"),
]
MethodsOption = Annotated[
    str,
    option(
        "Methods, such as acqh,dch. 'NAME rbf' or 'NAME kernel' adds kernel features.",
        metavar="NAME,...",
    ),
]
# The trivial baselines that --methods all includes.
_TRIVIAL = ("label-ridge", "cca", "random")
MethodFilesOption = Annotated[
    list[str] | None,
    option(
        "A method of your own, such as mine.py:Mine; may be repeated.",
        "--method-file",
        metavar="FILE:CLASS",
    ),
]
BytesOption = Annotated[
    str, option("Bytes per item, from 1 to 16.", "--bytes", metavar="N,...", panel="Methods")
]
SplitsOption = Annotated[
    int | None,
    option("Number of random splits. Default: 5 with all methods, otherwise 1.", min=1),
]
SeedOption = Annotated[
    int, option("Random seed of the first split; the next ones follow.", min=0, panel="Protocol")
]
ProtocolOption = Annotated[
    str | None,
    option(
        "Protocols: labelled, unlabelled, label-free or field. Default: the first two.",
        metavar="NAME,...",
    ),
]
SplitOption = Annotated[
    str | None,
    option("Split that comes with the data, instead of random ones.", metavar="official|NAME"),
]
ThreadsOption = Annotated[int | None, option("Number of threads. Default: one per core.", min=1)]


def bench(
    out: OutOption,
    data: DataArgument = None,
    data_dir: DataDirOption = None,
    methods: MethodsOption = "all",
    method_files: MethodFilesOption = None,
    trivial: Annotated[
        bool, flag("trivial", "Add the trivial baselines label-ridge, cca and random.")
    ] = False,
    n_bytes: BytesOption = "1,2,4,8,16",
    protocol: ProtocolOption = None,
    splits: SplitsOption = None,
    seed: SeedOption = 0,
    split: SplitOption = None,
    threads: ThreadsOption = None,
    retry_failed: Annotated[bool, flag("retry-failed", "Repeat runs that failed.")] = False,
    dry_run: Annotated[
        bool, flag("dry-run", "List the runs with their estimated time, and stop.", panel="Runs")
    ] = False,
) -> None:
    """Benchmark methods on data sets.

    If a run is interrupted, the same command continues it.

    Example: acqh bench emoji --methods acqh,dch --bytes 4 --out results

    Documentation: docs/how-to/bench.md
    """
    from acqh.bench import plan

    names = [*parse_list(methods), *(method_files or ())]
    if trivial and "all" not in names:
        names += [name for name in _TRIVIAL if name not in names]
    try:
        planned = plan(
            data or (),
            out=out,
            methods=names,
            bits=[8 * size for size in parse_numbers(n_bytes, "--bytes", most=16)],
            protocol=None if protocol is None else parse_list(protocol),
            n_splits=splits,
            random_state=seed,
            official=True if split == "official" else split or False,
            n_threads=threads,
            data_dir=data_dir,
        )
    except InvalidInputError as error:
        raise BadParameter(str(error)) from None
    if dry_run:
        _print_plan(planned, retry_failed)
        return
    with reporting() as progress:
        summary = planned.run(retry_failed=retry_failed, progress=progress)
    print_result(asdict(summary), partial(_print_summary, summary))
    if summary.n_left or summary.n_failed:
        raise Exit(1)


def _print_plan(planned: Any, retry_failed: bool) -> None:
    from acqh.bench.running.store import as_duration, expected_seconds

    stored = planned.store.records()
    left = {run.key for run in planned.pending(retry_failed=retry_failed)}
    rows: list[dict[str, Any]] = [
        {
            "key": run.key,
            "dataset": run.dataset,
            "protocol": run.protocol,
            "database": run.database,
            "method": run.label,
            "length": run.n_components_requested,
            "bytes": run.bytes_requested,
            "seed": run.seed,
            "state": "run" if run.key in left else "stored",
            "seconds": round(expected_seconds([run], stored), 1) if run.key in left else 0.0,
        }
        for run in planned.runs
    ]
    seconds = sum(row["seconds"] for row in rows)
    used = {name for row in rows for name, value in row.items() if value is not None}
    hidden = {"key", "length"} if len(left) < len(rows) else {"key", "length", "state"}
    columns = [name for name in (rows or [{}])[0] if name in used - hidden]
    texts = [["-" if row[name] is None else str(row[name]) for name in columns] for row in rows]
    caption = (
        f"{count(len(rows), 'run')}, {len(left):,} to run: about {as_duration(seconds)}, "
        "estimated from similar runs in the folder, otherwise 3 s each."
    )
    table = partial(print_table, "Runs", columns, texts, caption=caption)
    print_result({"runs": rows, "n_to_run": len(left), "seconds": seconds}, table)


def _print_summary(summary: Any) -> None:
    for record in summary.failed:
        print(f"Failed: {record['label']} ({record['key']}): {record['reason']}")
    print(
        f"{count(summary.n_done, 'run')} done in {summary.seconds:.0f} s, "
        f"{summary.n_failed:,} failed, {summary.n_stored:,} were stored before; "
        f"results in {summary.out / 'results.csv'}"
    )
    if summary.n_left:
        print(f"Interrupted: {count(summary.n_left, 'run')} left. The same command continues.")
    else:
        print(f"Next: acqh report {summary.out}")


def report(
    directory: Annotated[Path, Argument(metavar="DIR", help="Folder of acqh bench.")],
    out: Annotated[
        Path | None,
        option("Folder to write. Default: the folder report in DIR.", metavar="DIR"),
    ] = None,
) -> None:
    """Write an HTML report with tables and plots from benchmark results.

    The tables are also written as CSV, LaTeX and Markdown.

    Example: acqh report results

    Documentation: docs/how-to/bench.md
    """
    from acqh.bench import write_report

    with reporting() as progress:
        files = write_report(directory, out, on_step=lambda step: progress(0, None, step))
    text = (
        f"Wrote {files.page} and {len(files.tables)} files of tables: "
        f"{files.n_runs:,} runs, {files.n_failed:,} failed."
    )
    print_result(asdict(files), text)


def datasets(context: Context, data_dir: DataDirOption = None) -> None:
    """List the named data sets: whether their files are found, and where to get them.

    Example: acqh datasets --data-dir data

    Documentation: docs/reference/data.md
    """
    if context.invoked_subcommand:
        return
    from acqh.data import list_datasets

    infos = list_datasets(data_dir)
    facts = [{**asdict(info), "available": info.is_available} for info in infos]
    print_result(facts, partial(_print_datasets, infos))


def _print_datasets(infos: Sequence[Any]) -> None:
    rows = [
        [
            info.name,
            "yes" if info.is_available else "no",
            f"{info.n_items:,}",
            str(info.n_labels),
            info.description,
        ]
        for info in infos
    ]
    print_table("Data sets", ["name", "available", "items", "labels", "contents"], rows)
    for info in infos:
        print(f"\n{info.name}: {info.source}")
        for view, features in info.views.items():
            print(f"  View {view}: {features}.")
        print(f"  Differs from the paper: {info.differences}.")
        print(f"  Licence: {info.licence}.")
        for original in info.originals:
            size = f" ({original.size})" if original.size else ""
            print(f"  Original: {original.name}{size}: {original.page}")
            if original.sha256:
                print(f"    sha256 {original.sha256}")
        if info.originals:
            print(f"  Convert: acqh datasets prepare {info.name} --from FOLDER")
        if not info.is_available:
            where = info.data_dir or "no folder: set ACQH_DATA or pass --data-dir"
            print(f"  Missing: {', '.join(info.files)}; looked in {where}")


def prepare(
    name: Annotated[str, Argument(metavar="NAME", help="Data set that acqh datasets lists.")],
    source: Annotated[
        Path,
        option(
            "Folder with the original files or their .zip archives.", "--from", metavar="FOLDER"
        ),
    ],
    data_dir: Annotated[
        Path | None,
        option(
            "Folder to write to. Default: the environment variable ACQH_DATA.",
            metavar="DIR",
            panel="Output",
        ),
    ] = None,
    features: Annotated[
        str,
        option(
            "Image features of mirflickr25k: edge histograms, or the built-in network.",
            metavar="edge|network",
        ),
    ] = "edge",
) -> None:
    """Convert a data set from the files of its publisher.

    Example: acqh datasets prepare wiki --from wikipedia_dataset --data-dir data

    Documentation: docs/reference/data.md
    """
    from acqh.bench import prepare_dataset

    with reporting() as progress:
        prepared = prepare_dataset(name, source, data_dir, features=features, progress=progress)
    text = f"Wrote {prepared.path}: {count(prepared.n_items, 'item')}."
    if prepared.differences:
        text += (
            f"\nDiffers from the file that the documented results are for: {prepared.differences}."
        )
    else:
        text += " The values are those that the documented results are for."
    print_result(asdict(prepared), text)
