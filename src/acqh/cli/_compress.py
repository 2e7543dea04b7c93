"""``acqh compress``: from embeddings to an index of a few bytes per item."""

from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._cluster import DaskOption, cluster
from acqh.cli._options import ChunkSizeOption, SeedOption
from acqh.cli._output import JsonOption, claimed, print_json, print_table
from acqh.cli._progress import reporting
from acqh.cli._voice import voice


def compress(
    items: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS",
            help="A file or folder of vectors (.npy, .npz, Parquet, Arrow, .fvecs, .bvecs, .fbin, "
            ".u8bin, .i8bin, a Faiss index).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the index.")],
    queries: Annotated[
        str | None, typer.Option(help="A file of vectors like those that items are searched for.")
    ] = None,
    n_bytes: Annotated[int, typer.Option("--bytes", min=1, max=16, help="Bytes per item.")] = 8,
    view: Annotated[
        str | None, typer.Option(help="Array or column of ITEMS, where there are several.")
    ] = None,
    query_view: Annotated[
        str | None, typer.Option(help="Array or column of the queries, where there are several.")
    ] = None,
    train: Annotated[int, typer.Option(min=1, help="Items to learn from, at most.")] = 65_536,
    chunk_size: ChunkSizeOption = 16_384,
    seed: SeedOption = 0,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compress vectors to a few bytes each, so that expected queries still find them.

    Learns from a sample, under the metric of the queries where that finds more, codes all items a
    chunk at a time, and says how many of the best items queries held out still find.
    """
    from acqh.scale import compress as compress_items

    with claimed(out), cluster(dask) as client, reporting() as show:
        small = compress_items(
            items,
            queries,
            n_bytes,
            view=view,
            query_view=query_view,
            n_train=train,
            chunk_size=chunk_size,
            random_state=seed,
            client=client,
            progress=show,
        )
        small.save(out)
    if small.report.advice:
        voice.note(f"acqh: {small.report.advice}")
    if as_json:
        print_json(small.report.to_dict())
    else:
        _print(small.report, out)


def _print(report: Any, out: Path) -> None:
    rows = [
        ["items", f"{report.n_items:,}"],
        ["components", f"{report.n_components:,}"],
        ["bytes per item, code", f"{report.bytes_per_item}"],
        ["bytes per item, index without ids", f"{report.index_bytes_per_item:.2f}"],
        ["bytes in all, codebooks and ids included", f"{report.n_bytes:,}"],
        ["times smaller than float32", f"{report.compression:.3g}"],
        *([f"recall@{k}", f"{value:.3f}"] for k, value in report.recall.items()),
        ["relative error", f"{report.error:.3f}"],
        ["queries given", f"{report.n_queries:,}"],
        ["queries held out", f"{report.n_held_out:,}"],
        ["shrinkage to the plain metric", f"{report.shrinkage:g}"],
        *([f"seconds, {step}", f"{value:.1f}"] for step, value in report.seconds.items()),
    ]
    asked = "queries held out" if report.n_queries else "items, each left out of its own answer"
    search = f"acqh search {out} --queries FILE --out FILE"
    caption = f"recall of {asked}, against exact search; search with: {search}"
    print_table(str(out), ["", "value"], rows, caption=caption)
