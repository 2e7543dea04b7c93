"""Commands that compare methods on data sets."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Exit, Option

from acqh.cli._options import DataDirOption, flag
from acqh.cli._output import count, print_result, print_table, reporting
from acqh.errors import InvalidInputError

DataArgument = Annotated[
    list[str] | None,
    Argument(metavar="DATA...", help="Names of data sets, or files; by default all found."),
]
OutOption = Annotated[Path, Option(help="Folder for the results; an earlier run in it is resumed.")]
MethodsOption = Annotated[
    str,
    Option(help="Methods, separated by commas; 'NAME rbf' or 'NAME kernel' with such features."),
]
MethodFilesOption = Annotated[
    list[str] | None, Option("--method", metavar="FILE.py:CLASS", help="A method of your own.")
]
BytesOption = Annotated[
    str, Option("--bytes", help="Bytes per item, separated by commas; eight bits of binary codes.")
]
SeedsOption = Annotated[
    int | None,
    Option(min=1, help="Number of random splits; by default 5 of all methods, 1 of those named."),
]
ProtocolOption = Annotated[
    str | None,
    Option(help="labelled, unlabelled, label-free, field; by default the first two."),
]
OfficialOption = Annotated[bool, flag("official", "Use the data's own split, not random ones.")]
RetryOption = Annotated[bool, flag("retry-failed", "Repeat runs that have failed.")]
DryRunOption = Annotated[bool, flag("dry-run", "Only list the runs and estimate their time.")]
SplitOption = Annotated[str | None, Option(help="The data's own split of this name.")]
ThreadsOption = Annotated[int | None, Option(min=1, help="By default one per core.")]


def bench(
    out: OutOption,
    data: DataArgument = None,
    methods: MethodsOption = "all",
    method_files: MethodFilesOption = None,
    n_bytes: BytesOption = "1,2,4,8,16",
    protocol: ProtocolOption = None,
    seeds: SeedsOption = None,
    official: OfficialOption = False,
    split: SplitOption = None,
    threads: ThreadsOption = None,
    data_dir: DataDirOption = None,
    retry_failed: RetryOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run methods on data sets; a stopped run is resumed."""
    from acqh.bench import plan

    try:
        planned = plan(
            data or (),
            out=out,
            methods=[*_listed(methods), *(method_files or ())],
            bits=_lengths(n_bytes),
            protocol=None if protocol is None else _listed(protocol),
            n_splits=seeds,
            official=split or official,
            n_threads=threads,
            data_dir=data_dir,
        )
    except InvalidInputError as error:
        raise BadParameter(str(error)) from None
    if dry_run:
        _print_plan(planned, retry_failed)
        return
    with reporting() as show:
        summary = planned.run(retry_failed=retry_failed, progress=show)
    print_result(asdict(summary), partial(_say, summary))
    if summary.n_left:
        raise Exit(1)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _lengths(n_bytes: str) -> list[int]:
    """Return code lengths in bits."""
    given = _listed(n_bytes)
    if not given or not all(part.isdecimal() and 1 <= int(part) <= 16 for part in given):
        raise BadParameter(f"--bytes takes whole numbers from 1 to 16 such as 1,2,4, not {n_bytes}")
    return [8 * int(part) for part in given]


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
    known = {name for row in rows for name, value in row.items() if value is not None}
    columns = [name for name in (rows or [{}])[0] if name in known - {"key"}]
    texts = [["-" if row[name] is None else str(row[name]) for name in columns] for row in rows]
    caption = (
        f"{count(len(rows), 'run')}, {len(left):,} to run: about {as_duration(seconds)}, "
        "from the time of similar runs in the folder; a run without any counts 3 s."
    )
    table = partial(print_table, "Runs", columns, texts, caption=caption)
    print_result({"runs": rows, "n_to_run": len(left), "seconds": seconds}, table)


def _say(summary: Any) -> None:
    for record in summary.failed:
        print(f"failed: {record['label']} ({record['key']}): {record['reason']}")
    print(
        f"{count(summary.n_done, 'run')} done in {summary.seconds:.0f} s, "
        f"{summary.n_failed:,} failed, {summary.n_stored:,} were there before; "
        f"results in {summary.out / 'results.csv'}"
    )
    if summary.n_left:
        print(f"interrupted: {summary.n_left:,} runs are left; the same command resumes")
    else:
        print(f"tables and figures: acqh report {summary.out}")


def report(
    directory: Annotated[Path, Argument(metavar="FOLDER", help="Folder that acqh bench wrote to.")],
    out: Annotated[Path | None, Option(help="By default FOLDER/report.")] = None,
) -> None:
    """Write the results of a bench as one HTML page and as CSV, LaTeX and Markdown tables."""
    from acqh.bench import write_report

    with reporting() as show:
        made = write_report(directory, out, on_step=lambda step: show(0, None, step))
    said = (
        f"{made.page}\n{made.n_runs:,} runs, {made.n_failed:,} failed; "
        f"{len(made.tables)} files of tables beside the page"
    )
    print_result(asdict(made), said)


def datasets(data_dir: DataDirOption = None) -> None:
    """List the named data sets, and say which are here."""
    from acqh.data import list_datasets

    known = list_datasets(data_dir)
    facts = [{**asdict(info), "available": info.is_available} for info in known]
    print_result(facts, partial(_print_datasets, known))


def _print_datasets(known: Sequence[Any]) -> None:
    rows = [
        [
            info.name,
            "yes" if info.is_available else "no",
            f"{info.n_items:,}",
            ", ".join(f"{view}: {what}" for view, what in info.views.items()),
            str(info.n_labels),
            info.differs or "-",
        ]
        for info in known
    ]
    columns = ["name", "here", "items", "views", "labels", "differs from the paper's"]
    print_table("Data sets", columns, rows)
    for info in known:
        for missing in info.missing:
            where = info.data_dir or "no folder: set ACQH_DATA or give --data-dir"
            print(f"{info.name}: missing {missing}; looked in {where}")
