"""``acqh fit`` and ``acqh encode``: from files of features to a model, and to codes."""

import time
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from acqh.cli._cluster import DaskOption, cluster
from acqh.cli._options import (
    ChunkSizeOption,
    CodebooksOption,
    ComponentsOption,
    ModelArgument,
    SeedOption,
)
from acqh.cli._output import JsonOption, claimed, print_result, refuse_existing
from acqh.cli._progress import reporting
from acqh.cli._targets import TargetsOption, parse_targets

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A file or folder of features (.npz, .npy, Zarr, .mat, Parquet, CSV)."
    ),
]

SimilarityOption = Annotated[
    Literal["shared", "dot", "cosine", "jaccard"],
    typer.Option(help="How alike items are by their labels."),
]
# A model that fits all but exactly is nowhere near its bound in per cent, which then says nothing.
_TELLING_GAP = 10.0


def fit(
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    n_components: ComponentsOption = 32,
    n_codebooks: CodebooksOption = 4,
    similarity: SimilarityOption = "shared",
    targets: TargetsOption = None,
    chunk_size: ChunkSizeOption = 65_536,
    seed: SeedOption = 0,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn ACQH from a file of features, with labels or without, in one pass, chunk by chunk."""
    from acqh.methods.acqh import ACQH
    from acqh.scale import fit as fit_source

    started = time.perf_counter()
    model = ACQH(
        n_components,
        n_codebooks=n_codebooks,
        similarity=similarity,
        targets=parse_targets(targets),
        random_state=seed,
    )
    with claimed(out), cluster(dask) as client, reporting() as show:
        fit_source(model, data, chunk_size=chunk_size, client=client, progress=show)
        model.save(out)
    gap = float(model.optimality_gap_)
    facts = {
        "n_items": int(model.stats_.n_items),
        "views": dict(model.n_features_in_),
        "n_labels": len(model.label_names_),
        "targets": {name: float(target.weight) for name, target in model.targets_.items()},
        "bytes_per_item": model.bytes_per_item,
        "optimality_gap": gap,
        "seconds": time.perf_counter() - started,
    }
    above = f" at most {gap:.2%} above the best possible;" if gap < _TELLING_GAP else ""
    print_result(
        facts,
        f"{out}: learnt from {facts['n_items']:,} items with {facts['n_labels']} labels; views "
        f"{', '.join(model.n_features_in_)}; {facts['bytes_per_item']} bytes per item;{above} "
        f"{facts['seconds']:.1f} s.",
        as_json,
    )


def encode(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            help="File for the codes (.npy), or a folder for parts, where a stopped run goes on."
        ),
    ],
    by_labels: Annotated[
        bool, typer.Option("--by-labels", help="Code items by their labels, where they have any.")
    ] = False,
    chunk_size: ChunkSizeOption = 65_536,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turn items into codes, one row of bytes each, by their views or by their labels."""
    from acqh.methods import load_method
    from acqh.scale import encode_parts

    if dask is not None and out.suffix == ".npy":
        raise typer.BadParameter("workers write parts: give --out a folder, not a .npy file")
    if out.suffix == ".npy" or out.is_file():
        refuse_existing(out)
    started = time.perf_counter()
    fitted = load_method(model)
    if out.suffix == ".npy":
        facts = _encode_whole(fitted, data, out, by_labels, chunk_size)
        what = f"{facts['n_codes']:,} different codes"
    else:
        with cluster(dask) as client, reporting() as show:
            parts = encode_parts(
                fitted,
                data,
                out,
                by_labels=by_labels,
                chunk_size=chunk_size,
                client=client,
                progress=show,
            )
        facts = {
            "n_items": len(parts),
            "bytes_per_item": parts.bytes_per_item,
            "n_parts": parts.n_parts,
        }
        what = f"{parts.n_parts:,} parts"
    seconds = time.perf_counter() - started
    print_result(
        {**facts, "seconds": seconds},
        f"{out}: {facts['n_items']:,} items in {facts['bytes_per_item']} bytes each, {what}; "
        f"{seconds:.1f} s.",
        as_json,
    )


def _encode_whole(
    model: Any, data: str, out: Path, by_labels: bool, chunk_size: int
) -> dict[str, int]:
    """Code all items into one file; return facts about the codes."""
    import numpy as np

    from acqh.data import list_pieces, read_pieces
    from acqh.io import replace_file
    from acqh.scale import encode_chunk

    pieces = list_pieces(data, chunk_size=chunk_size)
    codes = np.empty((pieces.n_items, model.bytes_per_item), dtype=np.uint8)
    reader = read_pieces(pieces)
    with reporting() as show:
        for piece in pieces:
            rows = slice(piece.start, piece.stop)
            codes[rows] = encode_chunk(model, next(reader), by_labels=by_labels)
            show(piece.stop, pieces.n_items, f"{piece.stop:,} items coded")
    content = BytesIO()
    np.save(content, codes, allow_pickle=False)
    replace_file(out, content.getvalue())
    return {
        "n_items": len(codes),
        "bytes_per_item": int(codes.shape[1]),
        "n_codes": len(np.unique(codes, axis=0)),
    }
