"""``acqh index``: from codes to an index."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._cluster import DaskOption, cluster
from acqh.cli._options import ModelArgument
from acqh.cli._output import JsonOption, claimed, print_result
from acqh.cli._progress import reporting
from acqh.errors import InvalidInputError


def index(
    model: ModelArgument,
    codes: Annotated[
        list[Path],
        typer.Argument(metavar="CODES", help="What acqh encode made: .npy files or folders."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the index.")],
    shards: Annotated[
        int | None, typer.Option(min=1, help="Make this many indexes that are searched as one.")
    ] = None,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an index of codes, for acqh search --queries or Python; .npy rows are numbered."""
    from acqh.methods import load_method
    from acqh.scale import build_index, build_shards

    if dask is not None and shards is None:
        raise typer.BadParameter("workers make an index by shards: give --shards, one or more")
    started = time.perf_counter()
    fitted = load_method(model)
    if not hasattr(fitted, "codebooks_"):
        raise InvalidInputError(f"{model} has no codebooks: only additive codes can be indexed")
    made: Any
    with claimed(out), cluster(dask) as client, reporting() as show:
        if shards is None:
            made = build_index(fitted.codebooks_, lambda: _read(fitted, codes), progress=show)
            made.save(out)
        else:
            parts = _one_folder(fitted, codes)
            made = build_shards(
                fitted.codebooks_, parts, out, n_shards=shards, client=client, progress=show
            )
    facts = {
        "n_items": len(made),
        "bytes_per_item": made.bytes_per_item,
        "seconds": time.perf_counter() - started,
    }
    print_result(
        facts,
        f"{out}: {facts['n_items']:,} items in {facts['bytes_per_item']:.2f} bytes each without "
        f"ids; {facts['seconds']:.1f} s.",
        as_json,
    )


def _one_folder(model: Any, paths: list[Path]) -> Any:
    if len(paths) > 1 or paths[0].is_file():
        raise typer.BadParameter("--shards are made of one folder of codes, not of .npy files")
    return _open_parts(model, paths[0])


def _open_parts(model: Any, path: Path) -> Any:
    from acqh.methods import fingerprint
    from acqh.scale import CodeParts

    parts = CodeParts(path)
    if parts.model != fingerprint(model):
        raise InvalidInputError(f"{path} holds codes of another model")
    return parts


def _read(model: Any, paths: list[Path]) -> Iterator[tuple[Any, Any]]:
    """Yield codes and ids; no ids for a file without any."""
    from acqh.scale import CodeFiles

    for path in paths:
        if path.is_file():
            yield from CodeFiles(path)
        else:
            yield from _open_parts(model, path)
