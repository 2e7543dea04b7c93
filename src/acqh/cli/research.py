"""Commands that compare methods on data sets."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from typer import BadParameter, Context, Exit

from acqh.cli._options import parse_list
from acqh.cli._output import count, print_result, print_table, reporting
from acqh.errors import InvalidInputError

# The trivial baselines that --methods all includes.
_TRIVIAL = ("label-ridge", "cca", "random")


def bench(
    out: Path,
    data: list[str] | None = None,
    data_dir: Path | None = None,
    methods: str = "all",
    method_files: list[str] | None = None,
    trivial: bool = False,
    n_bytes: str = "1,2,4,8,16",
    protocol: str | None = None,
    splits: int | None = None,
    seed: int = 0,
    split: str | None = None,
    threads: int | None = None,
    retry_failed: bool = False,
    dry_run: bool = False,
) -> None:
    """Benchmark methods on data sets.

    If a run is interrupted, the same command continues it.

    Example: acqh bench emoji --methods acqh,dch --bytes 4 --out results

    Documentation: docs/how-to/bench.md

    Parameters
    ----------
    out : Output, DIR
        Folder for the results. An interrupted run in it continues.
    data : DATA
        Names of data sets, or files. Default: all that are found.
    methods : Methods, NAME,...
        Methods, such as acqh,dch. 'NAME rbf' or 'NAME kernel' adds kernel features.
    method_files : Methods, --method-file, FILE:CLASS
        A method of your own, such as mine.py:Mine; may be repeated.
    trivial : Methods
        Add the trivial baselines label-ridge, cca and random.
    n_bytes : Methods, --bytes, N,...
        Bytes per item, from 1 to 16.
    protocol : Protocol, NAME,...
        Protocols: labelled, unlabelled, label-free or field. Default: the first two.
    splits : Protocol, 1..
        Number of random splits. Default: 5 with all methods, otherwise 1.
    seed : Protocol, 0..
        Random seed of the first split; the next ones follow.
    split : Protocol, official|NAME
        Split that comes with the data, instead of random ones.
    threads : Resources, 1..
        Number of threads. Default: one per core.
    retry_failed : Runs
        Repeat runs that failed.
    dry_run : Runs
        List the runs with their estimated time, and stop.
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
            bits=_lengths(n_bytes),
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
    if summary.n_left:
        raise Exit(1)


def _lengths(n_bytes: str) -> list[int]:
    """Return code lengths in bits."""
    sizes = parse_list(n_bytes)
    if not sizes or not all(part.isdecimal() and 1 <= int(part) <= 16 for part in sizes):
        raise BadParameter(
            f"--bytes takes whole numbers from 1 to 16 such as 1,2,4, got {n_bytes!r}"
        )
    return [8 * int(part) for part in sizes]


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
    columns = [name for name in (rows or [{}])[0] if name in used - {"key"}]
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
    directory: Path,
    out: Path | None = None,
    merge: list[Path] | None = None,
) -> None:
    """Write an HTML report with tables and plots from benchmark results.

    The tables are also written as CSV, LaTeX and Markdown.

    Example: acqh report results

    Documentation: docs/how-to/bench.md

    Parameters
    ----------
    directory : DIR
        Folder of acqh bench.
    out : Output, DIR
        Folder to write. Default: the folder report in DIR.
    merge : Input, CSV
        Results of others with the columns of results.csv; may be repeated.
    """
    from acqh.bench import write_report

    with reporting() as progress:
        files = write_report(
            directory, out, merge=merge or (), on_step=lambda step: progress(0, None, step)
        )
    text = (
        f"Wrote {files.page} and {len(files.tables)} files of tables: "
        f"{files.n_runs:,} runs, {files.n_failed:,} failed."
    )
    print_result(asdict(files), text)


def datasets(context: Context, data_dir: Path | None = None) -> None:
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
    name: str,
    source: Path,
    data_dir: Path | None = None,
    features: str = "edge",
) -> None:
    """Convert a data set from the files of its publisher.

    Example: acqh datasets prepare wiki --from wikipedia_dataset --data-dir data

    Documentation: docs/reference/data.md

    Parameters
    ----------
    name : NAME
        Data set that acqh datasets lists.
    source : Input, --from, FOLDER
        Folder with the original files or their .zip archives.
    data_dir : Output, DIR
        Folder to write to. Default: the environment variable ACQH_DATA.
    features : Input, edge|network
        Image features of mirflickr25k: edge histograms, or the built-in network.
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
