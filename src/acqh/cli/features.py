"""Commands that take files of vectors, features and codes."""

import csv
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter

from acqh.cli._options import (
    BytesOption,
    ChunkSizeOption,
    ComponentsOption,
    DaskOption,
    DeviceOption,
    ItemsColumnOption,
    ModelArgument,
    OverwriteOption,
    QueriesColumnOption,
    SeedOption,
    TargetsOption,
    check_kind,
    flag,
    option,
    parse_numbers,
    parse_targets,
    working,
)
from acqh.cli._output import (
    check_file,
    check_vacant,
    count,
    new_folder,
    output,
    print_done,
    print_result,
    print_table,
)
from acqh.errors import InvalidInputError

PlotOption = Annotated[
    Path | None,
    option("Plot recall against bytes per item to a .svg, .png or .pdf file.", metavar="FILE"),
]
RerankOption = Annotated[
    Path | None,
    option(
        "Re-rank hits by the vectors of this .npy file, in the order of the items: the "
        "vectors themselves, or those of acqh compress --keep.",
        metavar="FILE",
    ),
]
RerankKOption = Annotated[
    int | None,
    option("Number of hits to re-rank per query. Default: 200, or k if that is more.", min=1),
]
DataArgument = Annotated[
    str,
    Argument(
        metavar="DATA", help="File or folder of features (.npz, .npy, Zarr, .mat, Parquet, CSV)."
    ),
]
IndexesArgument = Annotated[
    list[Path], Argument(metavar="INDEX", help="Indexes made by acqh compress or acqh index.")
]
SimilarityOption = Annotated[
    Literal["shared", "dot", "cosine", "jaccard"],
    option("Similarity of items by their labels."),
]


def fit(
    data: DataArgument,
    out: Annotated[Path, option("Model to write.", metavar="DIR")],
    n_components: ComponentsOption = 32,
    n_codebooks: BytesOption = 4,
    similarity: SimilarityOption = "shared",
    targets: TargetsOption = None,
    seed: SeedOption = 0,
    chunk_size: ChunkSizeOption = 65_536,
    device: DeviceOption = None,
    dask: DaskOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Fit an ACQH model on features, with or without labels.

    Example: acqh fit items.npz --out model

    Documentation: docs/how-to/large-data.md
    """
    from acqh.methods.acqh import ACQH
    from acqh.scale import fit as fit_source

    settings: dict[str, Any] = {"n_codebooks": n_codebooks, "similarity": similarity}
    weights = parse_targets(targets) if targets else None
    model = ACQH(n_components, targets=weights, random_state=seed, **settings)
    with new_folder(out, overwrite=overwrite) as folder, working(dask) as execution:
        fit_source(model, data, chunk_size=chunk_size, device=device, **execution)
        model.save(folder)
    gap = float(model.optimality_gap_)
    facts: dict[str, Any] = {
        "n_items": int(model.stats_.n_items),
        "views": dict(model.n_features_in_),
        "n_labels": len(model.label_names_),
        "targets": {name: float(target.weight) for name, target in model.targets_.items()},
        "bytes_per_item": model.bytes_per_item,
        "optimality_gap": gap,
    }
    text = (
        f"Fitted {out} on {count(facts['n_items'], 'item')} with "
        f"{count(facts['n_labels'], 'label')} and the views {', '.join(model.n_features_in_)}; "
        f"{facts['bytes_per_item']} bytes per item, objective within {gap:.2%} of its lower bound"
    )
    print_done(facts, text)


def encode(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        option(
            "File .npy to write, or folder. An interrupted run into a folder continues.",
            metavar="PATH",
        ),
    ],
    by_labels: Annotated[
        bool, flag("by-labels", "Encode items that have labels from their labels.")
    ] = False,
    chunk_size: ChunkSizeOption = 65_536,
    device: DeviceOption = None,
    dask: DaskOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Encode items with a model, from their views or labels.

    Example: acqh encode model items.npz --out codes.npy

    Documentation: docs/how-to/large-data.md
    """
    import numpy as np

    from acqh.io.write import replace_file
    from acqh.methods import load_method
    from acqh.scale import encode_parts

    is_file = out.suffix == ".npy"
    if is_file:
        check_file(out, overwrite=overwrite)
    elif out.is_file() or overwrite:
        check_vacant(out, overwrite=overwrite)
    fitted = load_method(model)
    if overwrite and out.is_dir():
        rmtree(out)
    options: dict[str, Any] = {"by_labels": by_labels, "chunk_size": chunk_size, "device": device}
    with TemporaryDirectory(dir=out.parent if is_file else None, prefix=".acqh-") as temporary:
        with working(dask) as execution:
            folder = Path(temporary, "codes") if is_file else out
            parts = encode_parts(fitted, data, folder, **options, **execution)
        facts = {"n_items": len(parts), "bytes_per_item": parts.bytes_per_item}
        facts["n_parts"], detail = parts.n_parts, count(parts.n_parts, "part")
        if is_file:
            codes, content = parts.to_arrays().codes, BytesIO()
            np.save(content, codes, allow_pickle=False)
            replace_file(out, content.getvalue())
            facts["n_codes"] = len(np.unique(codes, axis=0))
            detail = f"{facts['n_codes']:,} distinct codes"
    text = f"{count(facts['n_items'], 'item')} with {facts['bytes_per_item']} bytes each, {detail}"
    print_done(facts, f"Encoded {text}, in {out}")


def index(
    model: ModelArgument,
    codes: Annotated[list[Path], Argument(metavar="CODES", help="Codes made by acqh encode.")],
    out: Annotated[Path, option("Index to write.", metavar="DIR")],
    shards: Annotated[
        int | None, option("Number of shards, which are searched as one index.", min=1)
    ] = None,
    dask: DaskOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Build an index from codes.

    The ids of .npy files are their row numbers.

    Example: acqh index model codes.npy --out items.acqh

    Documentation: docs/how-to/large-data.md
    """
    from acqh.methods import load_method
    from acqh.scale import build_index, build_shards

    if dask is not None and shards is None:
        raise BadParameter("--dask needs --shards N; pass --shards 1 for one index")
    fitted = load_method(model)
    if not hasattr(fitted, "codebooks_"):
        raise InvalidInputError(f"{model} has no codebooks; only additive codes can be indexed")
    built: Any
    with new_folder(out, overwrite=overwrite) as folder, working(dask) as execution:
        if shards is None:
            source = lambda: _read_codes(fitted, codes)  # noqa: E731
            built = build_index(fitted.codebooks_, source, progress=execution["progress"])
            built.save(folder)
        elif len(codes) > 1 or codes[0].is_file():
            raise BadParameter("--shards needs one folder of codes; encode into a folder first")
        else:
            parts = _open_parts(fitted, codes[0])
            built = build_shards(fitted.codebooks_, parts, folder, n_shards=shards, **execution)
    facts = {"n_items": len(built), "bytes_per_item": built.bytes_per_item}
    size = f"{built.bytes_per_item:.2f} bytes each without ids"
    print_done(facts, f"Indexed {count(len(built), 'item')} with {size}, in {out}")


def _open_parts(model: Any, path: Path) -> Any:
    from acqh.methods import fingerprint
    from acqh.scale import CodeParts

    parts = CodeParts(path)
    if parts.model != fingerprint(model):
        raise InvalidInputError(f"{path} holds codes of another model")
    return parts


def _read_codes(model: Any, paths: list[Path]) -> Iterator[tuple[Any, Any]]:
    """Yield codes and ids; no ids for a file without any."""
    import numpy as np

    for path in paths:
        if path.is_file():
            try:
                yield np.load(path, mmap_mode="r", allow_pickle=False), None
            except (ValueError, EOFError) as error:
                raise InvalidInputError(f"{path} is not a .npy file of codes: {error}") from error
        else:
            yield from _open_parts(model, path)


def compress(
    items: Annotated[
        str,
        Argument(
            metavar="ITEMS",
            help="File or folder of vectors (.npy, .npz, Parquet, Arrow, HDF5, .fvecs, .fbin, "
            "CSV, JSON lines, Faiss, clip-retrieval, Hugging Face, WebDataset, rclip, immich).",
        ),
    ],
    queries: Annotated[
        str | None,
        option("Sample of query vectors, to optimize the codes for.", metavar="FILE"),
    ] = None,
    items_column: ItemsColumnOption = None,
    queries_column: QueriesColumnOption = None,
    n_bytes: Annotated[int, option("Bytes per item, from 1 to 64.", "--bytes", min=1, max=64)] = 8,
    metric: Annotated[
        Literal["ip", "cosine", "l2"],
        option("Inner product, cosine similarity or Euclidean distance."),
    ] = "ip",
    append: Annotated[
        Path | None,
        option(
            "Add the vectors to this index, with its codebooks, instead of writing a new one.",
            metavar="INDEX",
        ),
    ] = None,
    keep: Annotated[
        Literal["float16", "int8"] | None,
        option(
            "Also write the vectors in 2 bytes or 1 byte per dimension, to re-rank by, as "
            "DIR.float16.npy or DIR.int8.npy without the suffix of DIR."
        ),
    ] = None,
    rerank: RerankOption = None,
    sweep: Annotated[
        str | None,
        option(
            "Measure several numbers of bytes per item, such as 2,4,8, and write no index.",
            metavar="N,N,...",
        ),
    ] = None,
    train_size: Annotated[int, option("Largest number of items to train on.", min=1)] = 65_536,
    seed: SeedOption = 0,
    chunk_size: ChunkSizeOption = 16_384,
    device: DeviceOption = None,
    dask: DaskOption = None,
    out: Annotated[Path | None, option("Index to write.", metavar="DIR")] = None,
    plot: PlotOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Compress vectors to a few bytes each, and measure recall.

    With --queries, the codes are optimized for such queries, and recall is measured on queries
    that were held out.

    Example: acqh compress images.npy --queries texts.npy --out images.acqh

    Example: acqh compress images.npy --queries texts.npy --sweep 2,4,8,16

    Example: acqh compress images.npy --out images.acqh --keep float16

    Example: acqh compress more.npy --append images.acqh

    Documentation: docs/how-to/compress.md
    """
    from acqh.scale import compress as compress_items
    from acqh.scale import keep_vectors
    from acqh.scale import sweep as measure_sizes

    if append is not None:
        if any(value is not None for value in (out, sweep, queries, dask, keep, rerank)):
            raise BadParameter(
                "--append takes no --out, --sweep, --queries, --dask, --keep or --rerank"
            )
        _append(append, items, items_column, chunk_size)
        return
    options: dict[str, Any] = {"view": items_column, "query_view": queries_column}
    options |= {"chunk_size": chunk_size, "device": device}
    options |= {"n_train": train_size, "random_state": seed, "metric": metric}
    if keep is not None and rerank is not None:
        raise BadParameter("--keep writes vectors to re-rank by, --rerank reads them; pass one")
    options["rerank"] = rerank
    if sweep is not None:
        if out is not None or keep is not None:
            raise BadParameter("--sweep writes no index; remove --out and --keep, or --sweep")
        _check_plot(plot, overwrite)
        sizes = parse_numbers(sweep, "--sweep", most=64)
        with working(dask) as execution:
            reports, enough = measure_sizes(items, queries, sizes, **options, **execution)
        _print_sweep(reports, enough, partial(_draw, plot))
        return
    if out is None:
        raise BadParameter("--out is missing; pass --out DIR, or --sweep 2,4,8 to compare sizes")
    if plot is not None:
        raise BadParameter("--plot draws several sizes; pass --sweep 2,4,8, or remove --plot")
    vectors_path = None if keep is None else out.with_suffix(f".{keep}.npy")
    if vectors_path is not None:
        check_file(vectors_path, overwrite=overwrite)
    with (
        new_folder(out, overwrite=overwrite) as folder,
        TemporaryDirectory(prefix=".acqh-", dir=out.absolute().parent) as scratch,
        working(dask) as execution,
    ):
        if keep is not None:
            options["rerank"] = Path(scratch, "vectors.npy")
            how: dict[str, Any] = {"view": items_column, "chunk_size": chunk_size}
            keep_vectors(items, options["rerank"], keep, **how, progress=execution["progress"])
        small = compress_items(items, queries, n_bytes, **options, **execution)
        small.save(folder)
        if vectors_path is not None:
            options["rerank"].replace(vectors_path)
    if small.report.advice:
        output.note(f"acqh: {small.report.advice}")
    facts = small.report.to_dict() | ({} if vectors_path is None else {"kept": str(vectors_path)})
    print_result(facts, partial(_print_compressed, small.report, out, vectors_path))


def _append(path: Path, items: str, view: str | None, chunk_size: int) -> None:
    """Add the vectors of a file to a saved index, and save it."""
    from acqh.scale import Compressed

    compressed = Compressed.load(path)
    with working(None) as execution:
        n_added = compressed.add_from(
            items, view=view, chunk_size=chunk_size, progress=execution["progress"]
        )
    compressed.save(path)
    drift = compressed.drift
    if drift.retraining_recommended:
        output.note(f"acqh: {drift}; compress all vectors again")
    facts = {"n_added": n_added, "n_items": len(compressed), "drift": drift.to_dict()}
    print_done(facts, f"Added {count(n_added, 'item')} to {path}; {len(compressed):,} in all")


def _print_sweep(reports: dict[int, Any], enough: int, draw: Callable[[Any], None]) -> None:
    points = {
        f"recall@{k}": [(float(size), report.recall[k]) for size, report in reports.items()]
        for k in next(iter(reports.values())).recall
    }
    draw(points)
    sizes = {str(size): report.to_dict() for size, report in reports.items()}
    rows = [
        [
            str(size),
            *(f"{value:.3f}" for value in report.recall.values()),
            *(f"{value:.3f}" for value in report.reranked_recall.values()),
            f"{report.compression:.3g}",
        ]
        for size, report in reports.items()
    ]
    caption = f"{enough} bytes per item are enough: larger codes add less than 0.05 to recall@10."
    if enough == max(reports):
        caption = f"Use {enough} bytes per item or more: recall@10 still grows."
    if reports[enough].compression < 1:
        caption += f" At {enough} bytes, {reports[enough].advice}."
    caption += " Re-ranked: recall@10 after re-ranking so many candidates (--rerank)."
    reranked = [f"re-ranked\n{n}" for n in reports[enough].reranked_recall]
    columns = ["bytes", *points, *reranked, "times\nsmaller"]
    table = partial(print_table, "", columns, rows, caption=caption)
    print_result({"sizes": sizes, "recommended_bytes": enough}, table)


def _check_plot(file: Path | None, overwrite: bool) -> None:
    """Raise for a plot that cannot be written, before recall is measured."""
    if file is None:
        return
    from acqh._core.imports import require
    from acqh.bench.report.plots import FORMATS

    if file.suffix.removeprefix(".") not in FORMATS:
        raise BadParameter(f"--plot takes a file .{', .'.join(FORMATS)}, got {file}")
    check_file(file, overwrite=overwrite)
    require("matplotlib")


def _draw(file: Path | None, points: dict[str, list[tuple[float, float]]]) -> None:
    """Plot recall against bytes per item, if a file is named."""
    if file is None:
        return
    from acqh.bench.report.plots import Panel, Plot, Series, draw

    series = (
        Series(name, "baseline", *map(tuple, zip(*pairs, strict=True)))
        for name, pairs in points.items()
        if pairs
    )
    panel = Panel("", tuple(series))
    plot = Plot("recall", "", "", "bytes per item", "recall", (panel,), x_log=True)
    file.write_bytes(draw(plot, file.suffix.removeprefix(".")))


def recall(
    indexes: Annotated[
        list[Path], Argument(metavar="INDEX", help="Indexes of acqh or Faiss, or tables of ids.")
    ],
    items: Annotated[str, option("Vectors that were indexed.", metavar="FILE")],
    queries: Annotated[str, option("Query vectors.", metavar="FILE")],
    items_column: ItemsColumnOption = None,
    queries_column: QueriesColumnOption = None,
    at: Annotated[str, option("Numbers of hits to measure.", metavar="N,...")] = "1,10,100",
    metric: Annotated[
        Literal["ip", "cosine", "l2"] | None,
        option("Metric of the exact search. Default: that of the indexes, or ip.", panel="Measure"),
    ] = None,
    rerank: RerankOption = None,
    rerank_k: RerankKOption = None,
    chunk_size: ChunkSizeOption = 16_384,
    plot: PlotOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Measure the recall of indexes against exact search.

    Example: acqh recall a.acqh b.faiss --items images.npy --queries texts.npy

    Example: acqh recall a.acqh --items i.npy --queries q.npy --rerank i.npy

    Documentation: docs/how-to/compress.md
    """
    from acqh.scale import recall_of_files

    _check_plot(plot, overwrite)
    lengths = parse_numbers(at, "--at")
    options: dict[str, Any] = {"view": items_column, "query_view": queries_column}
    options |= {"chunk_size": chunk_size, "metric": metric}
    options |= {"rerank": rerank, "rerank_k": rerank_k}
    reports = recall_of_files(indexes, items, queries, lengths, **options)
    drawn = min(lengths, key=lambda n: abs(n - 10))
    points = {
        name: [(report.bytes_per_item, value)]
        for name, report in reports.items()
        if report.bytes_per_item is not None and (value := report.recall[drawn]) is not None
    }
    _draw(plot, points)
    rows = [
        [
            name,
            *("" if value is None else f"{value:.3f}" for value in report.recall.values()),
            "" if report.seconds_per_query is None else f"{1e6 * report.seconds_per_query:.0f}",
            "" if report.bytes_per_item is None else f"{report.bytes_per_item:.1f}",
        ]
        for name, report in reports.items()
    ]
    columns = ["index", *(f"recall@{k}" for k in lengths), "µs per query", "bytes per item"]
    one = next(iter(reports.values()))
    caption = f"{one.n_items:,} items, {one.n_queries:,} queries in one batch, metric {one.metric}"
    table = partial(print_table, "", columns, rows, caption=caption)
    print_result({name: report.to_dict() for name, report in reports.items()}, table)


def _print_compressed(report: Any, out: Path, vectors_path: Path | None) -> None:
    rows = [
        ["items", f"{report.n_items:,}"],
        ["dimensions", f"{report.n_components:,}"],
        ["metric", report.metric],
        ["bytes per item, code", f"{report.bytes_per_item}"],
        ["bytes per item, index without ids", f"{report.index_bytes_per_item:.2f}"],
        ["bytes in total, with codebooks and ids", f"{report.n_bytes:,}"],
        ["times smaller than float32", f"{report.compression:.3g}"],
        *([f"recall@{k}", f"{value:.3f}"] for k, value in report.recall.items()),
        *(
            [f"recall@10 with re-ranking of {n}", f"{value:.3f}"]
            for n, value in report.reranked_recall.items()
        ),
        ["relative error", f"{report.error:.3f}"],
        ["query sample", f"{report.n_queries:,}"],
        ["held-out queries", f"{report.n_held_out:,}"],
    ]
    if output.verbose:
        rows.append(["shrinkage to the Euclidean metric", f"{report.shrinkage:g}"])
        rows += [[f"seconds, {step}", f"{value:.1f}"] for step, value in report.seconds.items()]
    queries = "held-out queries" if report.n_queries else "items as queries, without themselves,"
    option = "" if vectors_path is None else f" --rerank {vectors_path}"
    caption = f"Recall of {queries} against exact search. Next: acqh query {out} QUERIES{option}"
    print_table(str(out), ["", "value"], rows, caption=caption)


def query(
    indexes: IndexesArgument,
    queries: Annotated[str, Argument(metavar="QUERIES", help="File or folder of query vectors.")],
    model: Annotated[
        Path | None,
        option("Model made by acqh fit, if the queries are features.", metavar="DIR"),
    ] = None,
    modality: Annotated[
        str | None,
        option(
            "Modality of the queries, such as image or text; or their array in the file.",
            metavar="NAME",
        ),
    ] = None,
    k: Annotated[int, option("Number of hits per query.", "-k", min=1)] = 10,
    rerank: RerankOption = None,
    rerank_k: RerankKOption = None,
    out: Annotated[
        Path | None,
        option("File .csv or .parquet to write. Default: print CSV.", metavar="FILE"),
    ] = None,
    overwrite: OverwriteOption = False,
    chunk_size: Annotated[int, option("Number of queries in memory at a time.", min=1)] = 8_192,
    dask: DaskOption = None,
) -> None:
    """Search an index with all vectors of a file.

    For collections of photos and texts, use acqh search.

    Example: acqh query images.acqh texts.npy -k 10 --out hits.csv

    Documentation: docs/how-to/search-an-index.md
    """
    from acqh.methods import load_method
    from acqh.scale import search_table

    for path in indexes:
        check_kind(path, is_collection=False)
    if model is not None and modality is None:
        raise BadParameter("--modality is missing; with --model, pass --modality image or text")
    fitted = None if model is None else load_method(model)
    index = indexes[0] if len(indexes) == 1 else indexes
    options: dict[str, Any] = {"view": modality, "k": k, "chunk_size": chunk_size}
    options |= {"rerank": rerank, "rerank_k": rerank_k}
    with TemporaryDirectory() as folder:
        table = out or Path(folder, "hits.csv")
        check_file(table, overwrite=overwrite)
        with working(dask) as execution:
            options |= {"overwrite": overwrite, **execution}
            n_queries = search_table(fitted, index, queries, table, **options)
        if out is None:
            content = table.read_bytes().decode()
            print_result(list(csv.DictReader(StringIO(content))), partial(print, content, end=""))
            return
    facts = {"n_queries": n_queries, "k": k}
    print_done(facts, f"Wrote the best {k} hits of {n_queries:,} queries to {out}")
