"""``acqh export``: items for Parquet, Faiss or Milvus."""

import logging
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from acqh.cli._output import JsonOption, print_result
from acqh.cli._progress import reporting

_TOKEN = "ACQH_MILVUS_TOKEN"  # noqa: S105


TokenFileOption = Annotated[
    Path | None,
    typer.Option(help=f"File with the token of the server; or set {_TOKEN}. For milvus."),
]


def export(
    source: Annotated[
        Path, typer.Argument(metavar="INDEX", help="An index or a collection that acqh made.")
    ],
    to: Annotated[Literal["milvus", "faiss", "parquet"], typer.Option(help="What to write.")],
    out: Annotated[Path | None, typer.Option(help="File to write, for faiss and parquet.")] = None,
    uri: Annotated[
        str | None, typer.Option(help="Server, or NAME.db for Milvus Lite; for milvus.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Collection to make; for milvus.")] = None,
    token_file: TokenFileOption = None,
    index_type: Annotated[
        Literal["FLAT", "AUTOINDEX"], typer.Option(help="FLAT is exact; for milvus.")
    ] = "FLAT",
    codes: Annotated[
        bool, typer.Option("--codes", help="Write codes, not vectors; for faiss and parquet.")
    ] = False,
    metadata: Annotated[
        bool,
        typer.Option(
            "--metadata/--no-metadata", help="Export texts, labels and columns of a collection too."
        ),
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what already exists.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Export an index or a collection as vectors whose inner product is the score.

    The texts, labels and columns of a collection are exported with them.
    """
    started = time.perf_counter()
    with reporting() as progress:
        common: dict[str, Any] = {
            "metadata": metadata,
            "overwrite": overwrite,
            "progress": progress,
        }
        if to == "milvus":
            if uri is None or name is None or out is not None or codes:
                raise typer.BadParameter("milvus takes --uri and --name, no --out and no --codes")
            report = _to_milvus(source, uri, name, token_file, index_type=index_type, **common)
            where = f"{uri}, {name}"
        else:
            if out is None or uri is not None or name is not None or token_file is not None:
                raise typer.BadParameter(f"{to} takes --out, and nothing that is for milvus")
            report = _to_file(source, out, to, codes=codes, **common)
            where = ", ".join(str(file) for file in report.files)
    _print(report, where, time.perf_counter() - started, as_json)


def _to_milvus(source: Path, uri: str, name: str, token_file: Path | None, **options: Any) -> Any:
    from acqh.export import export_milvus

    # It logs tracebacks of errors, which reach people as messages.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return export_milvus(source, uri, name, token=_token(token_file), **options)


def _token(file: Path | None) -> str | None:
    if file is not None:
        return file.read_text().strip()
    return os.environ.get(_TOKEN)


def _to_file(source: Path, out: Path, to: str, **options: Any) -> Any:
    from acqh.export import export_faiss, export_parquet

    return (export_faiss if to == "faiss" else export_parquet)(source, out, **options)


def _print(report: Any, where: str, seconds: float, as_json: bool) -> None:
    facts = {
        "n_items": report.n_items,
        "files": [str(file) for file in report.files],
        "n_bytes": report.n_bytes,
        "seconds": round(seconds, 3),
    }
    size = f", {report.n_bytes / 1e6:.1f} MB" if report.files else ""
    print_result(facts, f"{where}: {report.n_items:,} items{size}; {seconds:.1f} s.", as_json)
