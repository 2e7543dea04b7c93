"""Commands that build and change collections, and list encoders."""

import os
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Exit

from acqh.cli._options import (
    BytesOption,
    CollectionArgument,
    LabelSeparatorOption,
    LanguageOption,
    MegapixelsOption,
    OverwriteOption,
    PortOption,
    SeedOption,
    TargetsOption,
    as_pixels,
    find_id,
    flag,
    option,
    parse_targets,
)
from acqh.cli._output import (
    count,
    in_options,
    output,
    print_done,
    print_result,
    print_rows,
    print_skipped,
    print_table,
    printable,
    reporting,
)
from acqh.errors import AcqhError, CollectionError, InvalidInputError

# Seconds between two checks of a watched folder.
_WATCH_SECONDS = 2.0
# Seconds that a change waits for another one: retraining takes minutes.
_TIMEOUT_SECONDS = 3_600.0

SourceArgument = Annotated[
    Path,
    Argument(
        metavar="SOURCE",
        help="Folder of images; or table (CSV, TSV, JSON lines, Parquet) with the columns image, "
        "text, labels, id; WebDataset .tar; Hugging Face data set; or vectors in any format that "
        "acqh compress reads.",
    ),
]
ImageEncoderOption = Annotated[
    str,
    option(
        "Image encoder: efficientnet, hog or a CLIP model. 'auto' takes the best installed one.",
        metavar="NAME",
    ),
]
TextEncoderOption = Annotated[
    str,
    option(
        "Text encoder: minilm, tfidf or a CLIP model. 'auto' takes the best installed one.",
        metavar="NAME",
    ),
]
EncoderOption = Annotated[
    str | None,
    option(
        "CLIP model for images and texts: a name that acqh encoders lists, OWNER/NAME on the "
        "Hugging Face Hub, or a folder. Downloaded if needed.",
        metavar="NAME",
    ),
]
ImageRootOption = Annotated[
    Path | None,
    option("Folder with the images of a table. Default: the folder of the table.", metavar="DIR"),
]
StrictOption = Annotated[bool, flag("strict", "Stop at the first item that cannot be read.")]
OcrOption = Annotated[
    bool, flag("ocr", "Read the text in images that look like documents or screenshots.")
]
OcrAllOption = Annotated[
    bool, flag("ocr-all", "Read the text in all images: 1 to 10 s of processor time each.")
]


def build(
    source: SourceArgument,
    image_root: ImageRootOption = None,
    label_separator: LabelSeparatorOption = None,
    max_megapixels: MegapixelsOption = None,
    strict: StrictOption = False,
    ocr: OcrOption = False,
    ocr_all: OcrAllOption = False,
    image_encoder: ImageEncoderOption = "auto",
    text_encoder: TextEncoderOption = "auto",
    encoder: EncoderOption = None,
    language: LanguageOption = "auto",
    n_components: Annotated[
        int | None,
        option(
            "Dimensions of query vectors. Default: 256 for photos without captions, otherwise 128.",
            min=1,
        ),
    ] = None,
    n_codebooks: BytesOption = 8,
    targets: TargetsOption = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None, option("Collection to create. Default: SOURCE.acqh.", metavar="PATH")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Index a folder of images, or a table of images and texts.

    Captions and labels improve the search, but are not required.

    Example: acqh build photos

    Documentation: docs/how-to/photos.md
    """
    from acqh.collection import Collection
    from acqh.collection.build.sources import kind_of
    from acqh.collection.generations import is_vacant
    from acqh.encoders.models import is_model_name

    _check_source(source)
    out = out or _beside(source)
    kind = kind_of(source)
    if not (overwrite or is_vacant(out)):
        update = f"acqh sync {out} {source} updates it, " if kind == "images" else ""
        raise InvalidInputError(f"{out} already exists; {update}--overwrite replaces it")
    of_tables: dict[str, Any]
    of_tables = {"--image-root": image_root, "--label-separator": label_separator}
    of_raw = {"--encoder": encoder, "--image-encoder": image_encoder != "auto",
              "--text-encoder": text_encoder != "auto", "--language": language != "auto",
              "--max-megapixels": max_megapixels, "--ocr": ocr, "--ocr-all": ocr_all}  # fmt: skip
    unused = {"features": of_tables | of_raw, "images": of_tables}.get(kind, {})
    reason = "the file has vectors" if kind == "features" else "the folder has no table"
    for name in (name for name, value in unused.items() if value):
        output.note(f"acqh: {name} has no effect: {reason}")
    for table in source.glob("metadata.*") if kind == "images" else ():
        output.note(f"acqh: {table.name} is ignored: it has no column file_name")
    names = {"image_encoder": encoder or image_encoder, "text_encoder": encoder or text_encoder}
    for name in sorted(set(names.values())) if kind != "features" else ():
        if is_model_name(name):
            fetch_model(name)
    with reporting() as progress:
        collection = Collection.build(
            source,
            out,
            **names,
            language=language,
            n_components=n_components,
            n_codebooks=n_codebooks,
            targets=parse_targets(targets) if targets else None,
            strict=strict,
            overwrite=overwrite,
            image_root=image_root,
            label_separator=label_separator,
            max_pixels=as_pixels(max_megapixels),
            ocr="all" if ocr_all else "documents" if ocr else None,
            random_state=seed,
            progress=progress,
        )
    with collection:
        _print_built(out, collection, "Indexed", "photo" if kind == "images" else "item")


def _check_source(source: Path) -> None:
    """Raise InvalidInputError if a source does not exist."""
    if not source.exists():
        near = get_close_matches(source.name, [path.name for path in source.parent.glob("*")], n=1)
        hint = f"; did you mean {source.with_name(near[0])}?" if near else ""
        raise InvalidInputError(f"{source} does not exist{hint}")


def _beside(source: Path) -> Path:
    """Return the default path of a collection.

    Examples
    --------
    >>> str(_beside(Path("photos.csv")))
    'photos.acqh'
    """
    if not source.is_dir():
        return source.with_suffix(".acqh")
    folder = source if source.name not in ("", "..") else source.resolve()
    return folder.with_name(f"{folder.name}.acqh")


def _print_built(out: Path, collection: Any, verb: str, noun: str) -> None:
    seconds, summary, skipped = output.seconds, collection.info(), collection.skipped
    print_skipped(skipped)
    names = ("n_items", "n_labelled", "n_trained", "trained_on", "settings", "size_on_disk")
    facts = {"path": out, **{name: getattr(summary, name) for name in names}}
    size = f"{summary.size_on_disk / 1e6:.1f} MB, {seconds:.1f} s"
    items = count(summary.n_items, noun)
    lines = [f"{verb} {items} in {out}; {len(skipped):,} skipped ({size})."]
    if summary.n_labels:
        lines.append(f"{count(summary.n_labelled, noun)} with {count(summary.n_labels, 'label')}.")
    if output.verbose:
        lines.append(
            f"{summary.code_bytes} bytes per item, trained on {summary.n_trained:,}; "
            f"weights: {summary.trained_on}."
        )
    print_result({**facts, "seconds": round(seconds, 3), "skipped": skipped}, "\n".join(lines))
    # Without encoders, only keywords in captions and names are searched.
    query = "WORDS..." if summary.encoders else "--like ID"
    output.note(f"Next: acqh search {_quoted(out)} {query}, or acqh serve {_quoted(out)} --open")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def open_folder(
    source: Annotated[
        Path, Argument(metavar="FOLDER", help="Folder of images, table, or collection.")
    ],
    port: PortOption = 0,
    watch: Annotated[
        bool, flag("watch", "Keep the collection in sync while the folder changes.")
    ] = False,
    max_megapixels: MegapixelsOption = None,
) -> None:
    """Search a folder of photos in the browser.

    Builds the collection FOLDER.acqh or updates it, starts the server on this computer, and opens
    the browser, where you can also edit captions and labels. Stop it with Ctrl-C.

    Example: acqh open photos --watch

    Documentation: docs/tutorials/search.md
    """
    from acqh.cli.search import serve
    from acqh.collection.build.sources import kind_of
    from acqh.collection.generations import is_vacant
    from acqh.io.manifest import MANIFEST_NAME

    _check_source(source)
    path = source if (source / MANIFEST_NAME).is_file() else _beside(source)
    if is_vacant(path):
        build(source, out=path, max_megapixels=max_megapixels)
    elif path != source and kind_of(source) == "images":
        try:
            sync(path, source, max_megapixels=max_megapixels)
        except CollectionError as error:
            output.note(f"acqh: {path} was not updated: {in_options(str(error))}")
    with _watching(path, max_megapixels) if watch else nullcontext():
        serve(path, port=port, open_browser=True, workers=1, write_token=os.access(path, os.W_OK))


@contextmanager
def _watching(path: Path, max_megapixels: float | None) -> Iterator[None]:
    """Keep a collection in sync with its tracked folders, in a thread."""
    from acqh.collection import Collection

    with Collection.open(path) as collection:
        if not collection.info().folders:
            raise InvalidInputError(f"{path} tracks no folder to watch; remove --watch")
    is_over = threading.Event()

    def stop(*_: object) -> None:
        if is_over.is_set():
            raise SystemExit  # ends the thread

    def watch() -> None:
        last, seconds = "", 0.0
        while not is_over.wait(_WATCH_SECONDS):
            try:
                with Collection.open(path, timeout=_TIMEOUT_SECONDS) as collection:
                    # Checking 1,000 files takes 0.03 s: at most a tenth of the time.
                    while not is_over.wait(max(_WATCH_SECONDS, 10 * seconds)):
                        started = time.perf_counter()
                        for folder in collection.info().folders:
                            pixels = as_pixels(max_megapixels)
                            report = collection.sync(folder, max_pixels=pixels, progress=stop)
                            if last := _changes(report):
                                output.note(f"{path}: {last}")
                        seconds = time.perf_counter() - started
            except (AcqhError, OSError) as error:
                note = f"acqh: {path} was not updated: {in_options(str(error))}"
                if note != last:
                    output.note(note)
                last = note

    thread = threading.Thread(target=watch, name="acqh-watch")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _changes(report: Any) -> str:
    """Return what a sync has changed, in a line; empty for nothing."""
    names = ("new", "changed", "moved", "deleted")
    counts = {name: len(getattr(report, name)) for name in names}
    return ", ".join(f"{n:,} {name}" for name, n in counts.items() if n)


def add(
    path: CollectionArgument,
    table: Annotated[
        Path | None, Argument(metavar="TABLE", help="Table as for acqh build, or use options.")
    ] = None,
    image: Annotated[
        Path | None, option("Image of one item.", metavar="FILE", panel="One item")
    ] = None,
    text: Annotated[str, option("Text of the item.")] = "",
    label: Annotated[
        list[str] | None, option("Label of the item; may be repeated.", metavar="NAME")
    ] = None,
    identifier: Annotated[
        str | None,
        option(
            "Id of the item. Default: the path of its image, or a digest.", "--id", metavar="ID"
        ),
    ] = None,
    label_separator: LabelSeparatorOption = None,
    max_megapixels: MegapixelsOption = None,
    overwrite: Annotated[bool, flag("overwrite", "Replace items that have the same ids.")] = False,
    strict: StrictOption = False,
) -> None:
    """Add the items of a table, or one item.

    Example: acqh add photos.acqh more.csv

    Example: acqh add photos.acqh --image rose.jpg --text "a red rose"

    Documentation: docs/how-to/sync.md
    """
    from acqh.collection import Collection, Item
    from acqh.collection.build.sources import open_source

    if table is None and image is None and not text:
        raise BadParameter("TABLE is missing; pass a table, or --image or --text for one item")
    if table is not None and (image or text or label or identifier):
        raise BadParameter(
            "--image, --text, --label and --id exclude TABLE; remove TABLE or the options"
        )
    items: Any = Item(image, text, label or (), identifier, origin="the item")
    if table is not None:
        items = open_source(table, label_separator=label_separator)
    with Collection.open(path, timeout=_TIMEOUT_SECONDS) as collection, reporting() as progress:
        change = collection.upsert if overwrite else collection.add
        pixels = as_pixels(max_megapixels)
        report = change(items, strict=strict, max_pixels=pixels, progress=progress)
        _print_changed(report, len(collection), f"Added {{}} to {path}; it has {{:,}} items now.")
    if table is None and report.skipped:
        raise Exit(1)


def annotate(
    path: CollectionArgument,
    table: Annotated[
        Path,
        Argument(
            metavar="TABLE", help="Table with the column id or file, and text, labels or others."
        ),
    ],
    label_separator: LabelSeparatorOption = None,
    clear: Annotated[
        bool, flag("clear", "Let empty cells delete the text, labels or field.")
    ] = False,
) -> None:
    """Update captions, labels and other fields from a table.

    Empty cells are ignored, unless you pass --clear.

    Example: acqh annotate photos.acqh captions.csv

    Documentation: docs/how-to/sync.md
    """
    from acqh.collection import Collection

    with Collection.open(path, timeout=_TIMEOUT_SECONDS) as collection, reporting() as progress:
        report = collection.annotate(
            table, label_separator=label_separator, clear=clear, progress=progress
        )
        _print_changed(report, len(collection), f"Updated {{}} of {{:,}} in {path}.")


def _print_changed(report: Any, n_items: int, text: str) -> None:
    print_skipped(report.skipped)
    facts = {"ids": report.ids, "skipped": report.skipped, "n_items": n_items}
    print_result(facts, text.format(count(len(report.ids), "item"), n_items))


def remove(
    path: CollectionArgument,
    items: Annotated[list[str], Argument(metavar="ID", help="Ids of items, or their image files.")],
) -> None:
    """Remove items by id or file.

    If one of them is unknown, nothing is removed. Image files are not deleted.

    Example: acqh remove photos.acqh roses/1.jpg

    Documentation: docs/how-to/sync.md
    """
    from acqh.collection import Collection

    with Collection.open(path, timeout=_TIMEOUT_SECONDS) as collection:
        n_removed = collection.remove([find_id(collection, item) for item in items])
        n_items = len(collection)
    facts = {"n_removed": n_removed, "n_items": n_items}
    print_result(facts, f"Removed {count(n_removed, 'item')} from {path}; {n_items:,} left.")


def sync(
    path: CollectionArgument,
    folder: Annotated[
        Path | None,
        Argument(
            metavar="FOLDER",
            help="Folder of images. Default: all folders that the collection tracks.",
        ),
    ] = None,
    delete: Annotated[
        bool,
        flag("delete", "Remove the items of missing photos, even if they are many."),
    ] = False,
    dry_run: Annotated[
        bool, flag("dry-run", "Print what would change, and change nothing.")
    ] = False,
    forget: Annotated[
        bool,
        flag("forget", "Also discard the remembered captions and labels of removed items."),
    ] = False,
    max_megapixels: MegapixelsOption = None,
) -> None:
    """Update a collection from a folder of images.

    Adds new images, reads changed ones again, tracks moved ones and removes missing ones. Photos
    are never deleted. If the collection does not exist, FOLDER is built.

    Example: acqh sync photos.acqh

    Documentation: docs/how-to/sync.md
    """
    from acqh.collection import Collection, SyncReport
    from acqh.collection.build.folder import folder_items
    from acqh.collection.build.sources import prepared
    from acqh.collection.generations import is_vacant

    if folder is not None and folder.suffix == ".acqh" != path.suffix:
        raise BadParameter(f"the collection comes first; use: acqh sync {folder} {path}")
    n_items, drift = 0, None
    options: dict[str, Any] = {"max_pixels": as_pixels(max_megapixels)}
    with reporting() as progress:
        options["progress"] = progress
        if not is_vacant(path):
            changes: dict[str, Any] = {"delete": delete, "dry_run": dry_run, "forget": forget}
            with Collection.open(path, timeout=_TIMEOUT_SECONDS) as collection:
                folders = [folder] if folder is not None else collection.info().folders
                if not folders:
                    raise InvalidInputError(
                        f"{path} tracks no folder; name one: acqh sync {path} FOLDER"
                    )
                reports = [collection.sync(tracked, **changes, **options) for tracked in folders]
                n_items, drift = len(collection), collection.drift
        elif folder is None:
            raise InvalidInputError(
                f"{path} does not exist; build it with: acqh sync {path} FOLDER"
            )
        elif dry_run:
            skipped: list[tuple[str, str]] = []
            items = prepared(folder_items(folder).items, skipped, strict=False)
            ids = tuple(item.id for item in items)
            reports = [SyncReport(new=ids, unreadable=tuple(skipped))]
        else:
            with Collection.build(folder_items(folder), path, **options) as collection:
                reports = [SyncReport(new=tuple(collection), unreadable=collection.skipped)]
                n_items = len(collection)
    _print_synced(path, reports, n_items, drift, dry_run=dry_run)


def _print_synced(
    path: Path, reports: Sequence[Any], n_items: int, drift: Any, *, dry_run: bool
) -> None:
    skipped = [row for report in reports for row in report.unreadable]
    print_skipped(skipped)
    plan = {
        name: [id_ for report in reports for id_ in getattr(report, name)]
        for name in ("new", "changed", "moved", "deleted")
    }
    counts = {name: len(ids) for name, ids in plan.items()}
    counts["unchanged"] = sum(report.n_unchanged for report in reports)
    facts = {"path": path, "n_items": n_items, **counts, "unreadable": len(skipped)}
    facts |= {"skipped": skipped}
    changes = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    lines = [f"{path}: {count(n_items, 'item')}; {changes}; {len(skipped):,} skipped."]
    if dry_run:
        facts["plan"] = plan
        lines[0] = f"Dry run of {path}: {changes}; {len(skipped):,} skipped."
        lines += [f"{name}: {id_}" for name, ids in plan.items() for id_ in ids]
    if drift is not None:
        facts["drift"] = drift.to_dict()
    print_result(facts, "\n".join(lines))
    _advise_retraining(path, drift)


def _advise_retraining(path: Path, drift: Any) -> None:
    if drift is not None and drift.retraining_recommended:
        output.note(
            f"{count(drift.n_added, 'item')} added since training fit the model poorly. "
            f"Next: acqh retrain {_quoted(path)}"
        )
    elif drift is not None and output.verbose:
        output.note(str(drift))


def retrain(path: CollectionArgument) -> None:
    """Retrain a collection on all its items.

    Do so after many additions; acqh sync and acqh info recommend it. The collection can be
    searched meanwhile.

    Example: acqh retrain photos.acqh

    Documentation: docs/how-to/sync.md
    """
    from acqh.collection import Collection

    with reporting() as progress, Collection.open(path, timeout=_TIMEOUT_SECONDS) as old:
        collection = old.retrain(progress=progress)
    with collection:
        _print_built(path, collection, "Retrained", "item")


def info(path: CollectionArgument) -> None:
    """Show the items, folders, encoders and dates of a collection.

    Example: acqh info photos.acqh

    Documentation: docs/reference/file-format.md
    """
    from acqh.collection import Collection

    with Collection.open(path) as collection:
        summary, drift = collection.info(), collection.drift
    built, changed = map(datetime.fromisoformat, (summary.built, summary.changed))
    is_due = drift.retraining_recommended or summary.model_outdated
    rows = [
        ("items", f"{summary.n_items:,}"),
        ("with labels", f"{summary.n_labelled:,} ({count(summary.n_labels, 'label')})"),
        ("size on disk", f"{summary.size_on_disk / 1e6:.1f} MB"),
        *(("tracked folder", folder) for folder in summary.folders),
        *((f"{view} encoder", encoder) for view, encoder in summary.encoders.items()),
        ("built", f"{built:%Y-%m-%d %H:%M} UTC with acqh {summary.version}"),
        ("last change", f"{changed:%Y-%m-%d %H:%M} UTC"),
        ("added since training", f"{drift.n_added:,}"),
        ("retraining", "recommended" if is_due else "not needed"),
    ]
    if output.verbose:
        rows += [("bytes per item", str(summary.code_bytes)), ("trained on", summary.trained_on)]
    print_result({"path": path, **asdict(summary)}, lambda: print_rows(rows))
    if summary.model_outdated:
        output.note(
            "The collection was built with an older version of the built-in image-text model; "
            f"the installed one finds more. Next: acqh retrain {_quoted(path)}"
        )
    else:
        _advise_retraining(path, drift)


def duplicates(
    path: CollectionArgument,
    list_removable: Annotated[
        bool,
        flag(
            "list-removable",
            "Compare the original files, and print those that the best of each group can replace.",
        ),
    ] = False,
) -> None:
    """Find duplicate and near-duplicate images.

    Nothing is deleted.

    Example: acqh duplicates photos.acqh

    Documentation: docs/how-to/duplicates.md
    """
    from acqh.cli.search import file_of
    from acqh.collection import Collection

    with Collection.open(path) as collection, reporting() as progress:
        groups = collection.duplicates(progress=progress)
        names = {id_: file_of(collection.item(id_)) or id_ for group in groups for id_ in group.ids}
        removable = collection.removable(groups, progress=progress) if list_removable else {}
    # A name with control characters could be read as another one.
    files = sorted(name for name in map(str, removable.values()) if name.isprintable())

    def show() -> None:
        for file in files:
            print(file)
        for group in () if list_removable else groups:
            print(f"possible duplicates ({group.tier})",
                  *(f"  {printable(names[id_])}" for id_ in group.ids), sep="\n")  # fmt: skip
        hint = "--list-removable lists files that could be removed"
        if list_removable:
            hint = f"{count(len(files), 'file')} could be removed"
        output.note(
            f"{count(len(groups), 'group')} of possible duplicates; {hint}; nothing was deleted."
        )

    facts = {"groups": [asdict(group) for group in groups]}
    print_result(facts | ({"removable": files} if list_removable else {}), show)


def verify(
    path: Annotated[
        Path, Argument(metavar="PATH", help="Collection, index, codes or model made by acqh.")
    ],
    clean: Annotated[
        bool, flag("clean", "Also remove files that interrupted builds left.")
    ] = False,
) -> None:
    """Check every byte of a collection, an index, codes or a model.

    Example: acqh verify photos.acqh

    Documentation: docs/reference/file-format.md
    """
    if clean:
        from acqh.collection.generations import remove_unused

        n_bytes = remove_unused(path)
        output.note(f"Removed {n_bytes:,} bytes of interrupted builds from {path}.")
    report, contents = _check(path)
    lines = [f"{path}: {problem}" for problem in report.problems] or [f"OK: {path}, {contents}"]
    print_result(asdict(report), "\n".join(lines))
    if report.problems:
        raise Exit(1)


def _check(path: Path) -> tuple[Any, str]:
    from acqh._load import verify as check
    from acqh.io import BundleReport

    report = check(path)
    if not isinstance(report, BundleReport):
        notes = "".join(f" {note[0].upper()}{note[1:]}." for note in report.notes)
        items = count(report.n_items, "item")
        return report, f"a collection of {items}, {report.n_bytes:,} bytes.{notes}"
    if report.kind == "code-parts" and report.ok:
        from acqh.scale import CodeParts

        parts = CodeParts(path)
        return report, f"codes of {count(len(parts), 'item')} in {count(parts.n_parts, 'part')}."
    title = f" '{report.name}'" if report.name else ""
    return report, (
        f"{report.kind}{title}, {count(report.n_members, 'file')}, {report.n_bytes:,} bytes, "
        f"format {report.version}."
    )


DownloadOption = Annotated[
    str | None,
    option(
        "Download a CLIP model, such as siglip or OWNER/NAME@REVISION, and exit.", metavar="NAME"
    ),
]


def encoders(download: DownloadOption = None) -> None:
    """List the encoders that are installed, cached and known by name.

    The names are for --encoder, --image-encoder and --text-encoder of acqh build.

    Example: acqh encoders

    Example: acqh encoders --download siglip

    Documentation: docs/how-to/encoders.md
    """
    if download is not None:
        model = fetch_model(download)
        facts = {"source": model.source, "folder": str(model.folder)}
        print_done(facts, f"The model {model.source} is in {model.folder}")
        return
    from acqh.encoders import list_encoders

    infos = list_encoders()
    print_result([asdict(info) for info in infos], partial(_print_encoders, infos))


def fetch_model(name: str) -> Any:
    """Download a CLIP model unless it is on this machine; return its files.

    The hub's package shows progress bars of its own, which would not mix with those of a build.
    """
    from acqh.encoders.models import find_model

    if output.quiet:
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # read when the package is imported
    return find_model(name)


def _print_encoders(infos: list[Any]) -> None:
    views = {"image": "images", "text": "texts", "both": "both"}
    rows = [
        [
            info.name,
            views[info.views],
            info.status,
            "-" if info.megabytes is None else f"{info.megabytes:,.0f} MB",
            info.languages or "-",
            info.licence or "-",
        ]
        for info in infos
    ]
    columns = ["name", "encodes", "status", "size", "languages", "licence"]
    print_table("Encoders", columns, rows)
    output.note("Next: acqh build FOLDER --encoder NAME")
