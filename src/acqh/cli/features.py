"""Commands that take files of vectors, features and codes."""

import csv
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from acqh.cli._options import (
    BytesOption,
    ChunkSizeOption,
    ComponentsOption,
    DaskOption,
    DeviceOption,
    ModelArgument,
    QueryViewOption,
    SeedOption,
    TargetsOption,
    ViewOption,
    flag,
    parse_targets,
    working,
)
from acqh.cli._output import (
    count,
    new_folder,
    print_done,
    print_result,
    print_table,
    refuse_existing,
    reporting,
    voice,
)
from acqh.errors import InvalidInputError

FigureOption = Annotated[
    Path | None,
    Option(help="A .svg, .png or .pdf file for a figure: recall against bytes per item."),
]
DataArgument = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A file or folder of features (.npz, .npy, Zarr, .mat, Parquet, CSV).",
    ),
]

SimilarityOption = Annotated[
    Literal["shared", "dot", "cosine", "jaccard"],
    Option(help="How alike items are by their labels."),
]


def fit(
    data: DataArgument,
    out: Annotated[Path, Option(help="Folder for the model.")],
    n_components: ComponentsOption = 32,
    n_codebooks: BytesOption = 4,
    similarity: SimilarityOption = "shared",
    targets: TargetsOption = None,
    chunk_size: ChunkSizeOption = 65_536,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    dask: DaskOption = None,
) -> None:
    """Learn ACQH from a file of features, with labels or without."""
    from acqh.methods.acqh import ACQH
    from acqh.scale import fit as fit_source

    wanted: dict[str, Any] = {"n_codebooks": n_codebooks, "similarity": similarity}
    weights = parse_targets(targets) if targets else None
    model = ACQH(n_components, targets=weights, random_state=seed, **wanted)
    with new_folder(out) as folder, working(dask) as given:
        fit_source(model, data, chunk_size=chunk_size, device=device, **given)
        model.save(folder)
    gap = float(model.optimality_gap_)
    facts = {
        "n_items": int(model.stats_.n_items),
        "views": dict(model.n_features_in_),
        "n_labels": len(model.label_names_),
        "targets": {name: float(target.weight) for name, target in model.targets_.items()},
        "bytes_per_item": model.bytes_per_item,
        "optimality_gap": gap,
    }
    said = (
        f"learnt from {facts['n_items']:,} items with {facts['n_labels']} labels; views "
        f"{', '.join(model.n_features_in_)}; {facts['bytes_per_item']} bytes per item; at most "
        f"{gap:.2%} above the best possible"
    )
    print_done(out, facts, said)


def encode(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[Path, Option(help="A .npy file; or a folder, where a stopped run goes on.")],
    by_labels: Annotated[bool, flag("by-labels", "Code items that have labels by these.")] = False,
    chunk_size: ChunkSizeOption = 65_536,
    device: DeviceOption = None,
    dask: DaskOption = None,
) -> None:
    """Turn items into codes, by their views or by their labels."""
    import numpy as np

    from acqh.io.write import replace_file
    from acqh.methods import load_method
    from acqh.scale import encode_parts

    is_file = out.suffix == ".npy"
    if is_file or out.is_file():
        refuse_existing(out)
    fitted = load_method(model)
    options: dict[str, Any] = {"by_labels": by_labels, "chunk_size": chunk_size, "device": device}
    with TemporaryDirectory(dir=out.parent if is_file else None, prefix=".acqh-") as beside:
        with working(dask) as given:
            folder = Path(beside, "codes") if is_file else out
            parts = encode_parts(fitted, data, folder, **options, **given)
        facts = {"n_items": len(parts), "bytes_per_item": parts.bytes_per_item}
        facts["n_parts"], what = parts.n_parts, count(parts.n_parts, "part")
        if is_file:
            codes, content = parts.to_arrays().codes, BytesIO()
            np.save(content, codes, allow_pickle=False)
            replace_file(out, content.getvalue())
            facts["n_codes"] = len(np.unique(codes, axis=0))
            what = f"{facts['n_codes']:,} different codes"
    said = f"{facts['n_items']:,} items in {facts['bytes_per_item']} bytes each, {what}"
    print_done(out, facts, said)


def index(
    model: ModelArgument,
    codes: Annotated[list[Path], Argument(metavar="CODES", help="What acqh encode has made.")],
    out: Annotated[Path, Option(help="Folder for the index.")],
    shards: Annotated[int | None, Option(min=1, help="Indexes to be searched as one.")] = None,
    dask: DaskOption = None,
) -> None:
    """Make an index of codes; rows of .npy files are numbered."""
    from acqh.methods import load_method
    from acqh.scale import build_index, build_shards

    if dask is not None and shards is None:
        raise BadParameter("workers make an index by shards: give --shards, one or more")
    fitted = load_method(model)
    if not hasattr(fitted, "codebooks_"):
        raise InvalidInputError(f"{model} has no codebooks: only additive codes can be indexed")
    made: Any
    with new_folder(out) as folder, working(dask) as given:
        if shards is None:
            source = lambda: _read_codes(fitted, codes)  # noqa: E731
            made = build_index(fitted.codebooks_, source, progress=given["progress"])
            made.save(folder)
        elif len(codes) > 1 or codes[0].is_file():
            raise BadParameter("--shards are made of one folder of codes, not of .npy files")
        else:
            parts = _open_parts(fitted, codes[0])
            made = build_shards(fitted.codebooks_, parts, folder, n_shards=shards, **given)
    facts = {"n_items": len(made), "bytes_per_item": made.bytes_per_item}
    said = f"{len(made):,} items in {made.bytes_per_item:.2f} bytes each without ids"
    print_done(out, facts, said)


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
            help="A file or folder of vectors (.npy, .npz, Parquet, Arrow, HDF5, .fvecs, .fbin, "
            "CSV, JSON lines, Faiss, clip-retrieval, Hugging Face, WebDataset, rclip, immich).",
        ),
    ],
    out: Annotated[Path | None, Option(help="Folder for the index.")] = None,
    queries: Annotated[str | None, Option(help="A file of vectors like those to come.")] = None,
    sweep: Annotated[
        str | None, Option(metavar="2,4,8,...", help="Measure sizes, write no index.")
    ] = None,
    figure: FigureOption = None,
    n_bytes: BytesOption = 8,
    view: ViewOption = None,
    query_view: QueryViewOption = None,
    train: Annotated[int, Option(min=1, help="Items to learn from, at most.")] = 65_536,
    chunk_size: ChunkSizeOption = 16_384,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    dask: DaskOption = None,
) -> None:
    """Compress vectors to a few bytes each, and measure recall.

    Learns from a sample, under the metric of the queries where that finds more, codes all items a
    chunk at a time, and says how many of the best items queries held out still find.
    """
    from acqh.scale import compress as compress_items
    from acqh.scale import sweep as measure_sizes

    read: dict[str, Any] = {"view": view, "query_view": query_view, "chunk_size": chunk_size}
    read |= {"n_train": train, "random_state": seed, "device": device}
    if sweep is not None:
        if out is not None:
            raise BadParameter(
                "--sweep writes no index; leave out --out, or give --out with --bytes instead"
            )
        with working(dask) as given:
            reports, enough = measure_sizes(items, queries, _numbers(sweep), **read, **given)
        _print_sweep(reports, enough, figure)
        return
    if out is None:
        raise BadParameter("give --out FOLDER for the index, or --sweep SIZES to compare sizes")
    with new_folder(out) as folder, working(dask) as given:
        small = compress_items(items, queries, n_bytes, **read, **given)
        small.save(folder)
    if small.report.advice:
        voice.note(f"acqh: {small.report.advice}")
    print_result(small.report.to_dict(), partial(_print_compressed, small.report, out))


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise BadParameter(f"give whole numbers such as 2,4,8, got {text!r}") from None


def _print_sweep(reports: dict[int, Any], enough: int, figure: Path | None) -> None:
    points = {
        f"recall@{k}": [(float(size), each.recall[k]) for size, each in reports.items()]
        for k in next(iter(reports.values())).recall
    }
    _draw(figure, points)
    sizes = {str(size): report.to_dict() for size, report in reports.items()}
    rows = [
        [str(size), *(f"{value:.3f}" for value in each.recall.values()), f"{each.compression:.3g}"]
        for size, each in reports.items()
    ]
    caption = f"{enough} bytes per item are enough: larger codes add less than 0.05 to recall@10"
    if enough == max(reports):
        caption = f"take {enough} bytes per item: they still add to recall@10"
    columns = ["bytes per item", *points, "times smaller"]
    table = partial(print_table, "", columns, rows, caption=caption)
    print_result({"sizes": sizes, "enough": enough}, table)


def _draw(figure: Path | None, points: dict[str, list[tuple[float, float]]]) -> None:
    """Write recall against bytes per item as a figure, if one is asked for."""
    if figure is None:
        return
    from acqh.bench.report.drawing import FORMATS, draw
    from acqh.bench.report.plots import Panel, Plot, Series

    kind = figure.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise BadParameter(f"{figure} must end in one of {', '.join(FORMATS)}")
    refuse_existing(figure)
    series = (
        Series(name, "baseline", *map(tuple, zip(*each, strict=True)))
        for name, each in points.items()
        if each
    )
    panel = Panel("", tuple(series))
    plot = Plot("recall", "", "", "bytes per item", "recall", (panel,), x_log=True)
    figure.write_bytes(draw(plot, kind))


def recall(
    indexes: Annotated[
        list[Path],
        Argument(metavar="INDEX...", help="Indexes of acqh or Faiss, or tables of ids found."),
    ],
    items: Annotated[str, Option(help="A file or folder of the vectors that were indexed.")],
    queries: Annotated[str, Option(help="A file or folder of vectors to ask with.")],
    k: Annotated[str, Option("-k", help="Lengths of answers.")] = "1,10,100",
    metric: Annotated[Literal["ip", "cosine", "l2"], Option(help="What is nearest.")] = "ip",
    view: ViewOption = None,
    query_view: QueryViewOption = None,
    figure: FigureOption = None,
    chunk_size: ChunkSizeOption = 16_384,
) -> None:
    """Say what indexes lose against exact search."""
    from acqh.scale import recall_of_files

    lengths = _numbers(k)
    read: dict[str, Any] = {"view": view, "query_view": query_view, "chunk_size": chunk_size}
    found = recall_of_files(indexes, items, queries, lengths, metric=metric, **read)
    points = {
        name: [(each.bytes_per_item, each.recall[min(lengths, key=lambda n: abs(n - 10))])]
        for name, each in found.items()
        if each.bytes_per_item is not None
    }
    _draw(figure, points)
    rows = [
        [
            name,
            *(f"{value:.3f}" for value in each.recall.values()),
            "" if each.seconds_per_query is None else f"{1e6 * each.seconds_per_query:.0f}",
            "" if each.bytes_per_item is None else f"{each.bytes_per_item:.1f}",
        ]
        for name, each in found.items()
    ]
    columns = ["index", *(f"recall@{each}" for each in lengths), "µs per query", "bytes per item"]
    one = next(iter(found.values()))
    caption = f"{one.n_items:,} items, {one.n_queries:,} queries asked at once, {metric}"
    table = partial(print_table, "", columns, rows, caption=caption)
    print_result({name: each.to_dict() for name, each in found.items()}, table)


def _print_compressed(report: Any, out: Path) -> None:
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
    search = f"acqh query {out} QUERIES"
    caption = f"recall of {asked}, against exact search; search with: {search}"
    print_table(str(out), ["", "value"], rows, caption=caption)


def query(
    indexes: Annotated[
        list[Path],
        Argument(metavar="INDEX...", help="What acqh compress or acqh index has made."),
    ],
    queries: Annotated[str, Argument(metavar="QUERIES", help="A file or folder of vectors.")],
    out: Annotated[Path | None, Option(help="A .csv or .parquet file, not the screen.")] = None,
    model: Annotated[Path | None, Option(help="What acqh fit made, for features.")] = None,
    view: Annotated[str | None, Option(help="The view of the queries to search by.")] = None,
    k: Annotated[int, Option("-k", min=1, help="How many hits of each query.")] = 10,
    chunk_size: Annotated[int, Option(min=1, help="Queries in memory at a time.")] = 8_192,
    dask: DaskOption = None,
) -> None:
    """Search an index for all queries of a file."""
    from acqh.methods import load_method
    from acqh.scale import search_table

    if model is not None and view is None:
        raise BadParameter("a model has several views: with --model give --view")
    fitted = None if model is None else load_method(model)
    index = indexes[0] if len(indexes) == 1 else indexes
    asked: dict[str, Any] = {"view": view, "k": k, "chunk_size": chunk_size}
    with TemporaryDirectory() as folder:
        table = out or Path(folder, "hits.csv")
        refuse_existing(table)
        with working(dask) as given:
            n_queries = search_table(fitted, index, queries, table, **asked, **given)
        if out is None:
            content = table.read_bytes().decode()
            print_result(list(csv.DictReader(StringIO(content))), partial(print, content, end=""))
            return
    said = f"the best {k} for each of {n_queries:,} queries"
    print_done(out, {"n_queries": n_queries, "k": k}, said)


def export(
    source: Annotated[Path, Argument(metavar="COLLECTION|INDEX", help="What acqh has made.")],
    to: Annotated[Literal["site", "faiss", "parquet"], Option(help="What to write.")],
    out: Annotated[Path | None, Option(help="File to write; of a site, the folder.")] = None,
    captions: Annotated[
        bool, Option("--captions/--no-captions", help="Site: publish texts.")
    ] = True,
    columns: Annotated[str, Option(help="Site: columns to publish, such as date,author.")] = "",
    thumbnails: Annotated[
        Literal["none", "48", "64", "96", "128", "160", "320"],
        Option(help="Site: side of small images; above 128 they are made from the originals."),
    ] = "128",
    only: Annotated[str | None, Option(help="Site: publish only items with this label.")] = None,
    base_url: Annotated[str | None, Option(help="Site: where files of originals are.")] = None,
    codes: Annotated[bool, flag("codes", "Write codes, not vectors.")] = False,
    metadata: Annotated[
        bool, Option("--metadata/--no-metadata", help="With texts, labels and columns.")
    ] = True,
    overwrite: Annotated[bool, flag("overwrite", "Replace what already exists.")] = False,
) -> None:
    """Write a search page as files, or for Faiss or Parquet.

    A site is a folder of files that searches in the visitor's browser. Only what is asked for is
    published: small images, texts, labels, and the columns that are named.

    The inner product of vectors is the score. Texts, labels and columns go with them.
    """
    from acqh.export import export_faiss, export_parquet

    if to == "site":
        if out is None:
            raise BadParameter("site takes --out, the folder to write")
        shown = [name.strip() for name in columns.split(",") if name.strip()]
        side = None if thumbnails == "none" else int(thumbnails)
        given = {"captions": captions, "only": only, "base_url": base_url}
        _to_site(source, out, fields=shown, thumbnails=side, **given)
        return
    with reporting() as progress:
        common: dict[str, Any] = {"metadata": metadata, "overwrite": overwrite}
        common["progress"] = progress
        if out is None:
            raise BadParameter(f"--out is required with --to {to}")
        write = export_faiss if to == "faiss" else export_parquet
        report = write(source, out, codes=codes, **common)
        where = ", ".join(str(file) for file in report.files)
    facts = {name: getattr(report, name) for name in ("n_items", "files", "n_bytes")}
    size = f", {report.n_bytes / 1e6:.1f} MB" if report.files else ""
    print_done(where, facts, f"{report.n_items:,} items{size}")


def _to_site(source: Path, out: Path, **given: Any) -> None:
    """Write a site, and say what it publishes and how large each part is."""
    from acqh.collection import Collection
    from acqh.export import site

    with reporting() as progress, Collection.open(source) as collection:
        report = site(collection, out, **given, progress=progress)
    parts = ", ".join(f"{name} {size / 1e3:,.0f} kB" for name, size in report.n_bytes.items())
    shown = ["small images"] * ("images" in report.n_bytes) + ["labels", "codes"]
    shown += ["texts"] * given["captions"] + [f"column {name}" for name in report.fields]
    shown += ["addresses of originals"] * (given["base_url"] is not None)
    said = (
        f"{out}: {report.n_items:,} items, {sum(report.n_bytes.values()) / 1e6:.1f} MB, "
        f"{report.n_first / 1e6:.1f} MB before the first answer.\n"
        f"Parts: {parts}.\nPublished: {', '.join(shown)}; nothing else.\n"
        f"{report.n_written} files are new, {report.n_removed} were removed. "
        f"Look at it: python -m http.server --directory {shlex.quote(str(out))}"
    )
    print_result(asdict(report), said)
