"""Commands that make collections and change them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Context, Exit, Option

from acqh.cli._options import (
    BytesOption,
    CollectionArgument,
    ComponentsOption,
    LabelSeparatorOption,
    MaxPixelsOption,
    SeedOption,
    TargetsOption,
    find_id,
    flag,
    parse_targets,
)
from acqh.cli._output import count, print_result, print_skipped, reporting, voice
from acqh.errors import InvalidInputError

# A change waits so long for another one: retraining takes minutes.
_PATIENCE_SECONDS = 3_600.0
# Options that are not called as the settings of Python are.
_RENAMED = {"random_state": "--seed", "n_codebooks": "--bytes"}
# Options that go with --relearn.
_RELEARN_OPTIONS = ("--relearn", "--json", "--verbose", "--quiet")

SourceArgument = Annotated[
    Path,
    Argument(
        metavar="SOURCE",
        help="A folder of images; a table (CSV, TSV, JSON lines, Parquet) with the columns image, "
        "text, labels separated by |, id; a WebDataset .tar, or a Hugging Face data set; or "
        "vectors, in any layout that acqh compress takes.",
    ),
]
ImageEncoderOption = Annotated[str, Option(help="efficientnet, hog, clip:PATH, or the best here.")]
TextEncoderOption = Annotated[str, Option(help="minilm, tfidf, clip:PATH, or the best here.")]
EncoderOption = Annotated[
    str | None, Option(help="One for both, in one space: clip, siglip, clip:PATH or onnx:FOLDER.")
]
ImageRootOption = Annotated[
    Path | None, Option(help="Where the images of a table are; by default beside it.")
]
RelearnOption = Annotated[
    bool,
    flag("relearn", "SOURCE is a collection: learn again from what it keeps; it can be searched."),
]
DeleteOption = Annotated[bool, flag("delete", "Remove items whose images are gone, even if many.")]
DryRunOption = Annotated[bool, flag("dry-run", "Say what would be done, and change nothing.")]
ForgetOption = Annotated[bool, flag("forget", "Erase what is kept of items whose files are gone.")]


def build(
    context: Context,
    source: SourceArgument,
    out: Annotated[Path | None, Option(help="Folder to make; by default SOURCE.acqh.")] = None,
    image_encoder: ImageEncoderOption = "auto",
    text_encoder: TextEncoderOption = "auto",
    encoder: EncoderOption = None,
    n_components: ComponentsOption = 128,
    n_codebooks: BytesOption = 8,
    targets: TargetsOption = None,
    image_root: ImageRootOption = None,
    label_separator: LabelSeparatorOption = None,
    max_pixels: MaxPixelsOption = None,
    strict: Annotated[bool, flag("strict", "Fail if an item cannot be used.")] = False,
    overwrite: Annotated[bool, flag("overwrite", "Replace the collection that is there.")] = False,
    relearn: RelearnOption = False,
    seed: SeedOption = 0,
) -> None:
    """Make a collection of a folder or a table of images and texts.

    Describes them, learns from labels and content, and indexes all items.
    """
    from acqh.collection import Collection
    from acqh.collection.build.sources import kind_of
    from acqh.collection.disk.generations import is_vacant

    if not source.exists():
        near = get_close_matches(source.name, [it.name for it in source.parent.glob("*")], n=1)
        hint = f"; did you mean {source.with_name(near[0])}?" if near else ""
        raise InvalidInputError(f"there is nothing at {source}{hint}")
    if relearn:
        if ignored := [it for it in _given_options(context) if it not in _RELEARN_OPTIONS]:
            raise BadParameter(
                f"--relearn keeps the settings of the collection; remove {', '.join(ignored)}"
            )
        with reporting() as progress, Collection.open(source, timeout=_PATIENCE_SECONDS) as old:
            collection = old.retrain(progress=progress)
        with collection:
            _print_built(source, collection.info(), collection.skipped)
        return
    out = out or _beside(source)
    if not (overwrite or is_vacant(out)):
        can_sync = kind_of(source) == "images"
        follow = f"acqh sync {source} {out} takes in what is new, " if can_sync else ""
        raise InvalidInputError(
            f"{out} already exists; {follow}--overwrite builds it again, --out makes another"
        )
    kind = kind_of(source)
    of_manifest: dict[str, Any]
    of_manifest = {"--image-root": image_root, "--label-separator": label_separator}
    of_raw = {"--encoder": encoder, "--image-encoder": image_encoder != "auto",
              "--text-encoder": text_encoder != "auto", "--max-pixels": max_pixels}  # fmt: skip
    unused = {"features": of_manifest | of_raw, "images": of_manifest}.get(kind, {})
    why = "the file brings features" if kind == "features" else "the folder has no manifest"
    for option in (option for option, given in unused.items() if given):
        voice.note(f"acqh: {option} has no effect, since {why}")
    tables = source.glob("metadata.*") if kind == "images" else ()
    for table in tables:
        voice.note(f"acqh: {table.name} is not read, since it has no column file_name")
    with reporting() as progress:
        collection = Collection.build(
            source,
            out,
            image_encoder=encoder or image_encoder,
            text_encoder=encoder or text_encoder,
            n_components=n_components,
            n_codebooks=n_codebooks,
            targets=parse_targets(targets) if targets else None,
            strict=strict,
            overwrite=overwrite,
            image_root=image_root,
            label_separator=label_separator,
            max_pixels=max_pixels,
            random_state=seed,
            progress=progress,
        )
    with collection:
        _print_built(out, collection.info(), collection.skipped)


def _given_options(context: Context) -> Iterator[str]:
    """Yield the names of the options that were given to a command."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name != "DEFAULT" and parameter.opts[0].startswith("-"):
            yield parameter.opts[0]


def _beside(source: Path) -> Path:
    """Return where a collection is made unless ``--out`` says so.

    Examples
    --------
    >>> str(_beside(Path("photos.csv")))
    'photos.acqh'
    """
    if not source.is_dir():
        return source.with_suffix(".acqh")
    folder = source if source.name not in ("", "..") else source.resolve()
    return folder.with_name(f"{folder.name}.acqh")


def _print_built(out: Path, info: Any, skipped: Sequence[tuple[str, str]]) -> None:
    seconds = voice.seconds
    print_skipped(skipped)
    names = ("n_items", "n_labelled", "n_trained", "trained_on", "settings", "size_on_disk")
    labelled = "none with labels"
    if info.n_labels:
        labelled = f"{info.n_labelled:,} of them with {info.n_labels} labels"
    facts = {"path": out, **{name: getattr(info, name) for name in names}}
    print_result(
        {**facts, "seconds": round(seconds, 3), "skipped": skipped},
        f"{out}: {count(info.n_items, 'item')}, {labelled}, {len(skipped)} left out; "
        f"{info.code_bytes} bytes per item, {info.size_on_disk / 1e6:.1f} MB in all, "
        f"{seconds:.1f} s.\nLearnt from {info.n_trained:,} by {info.trained_on}.",
    )
    # Of features alone, words are looked up in texts and names, and mean nothing.
    asked = "WORDS" if info.encoders else "--like ID, or WORDS of texts and names"
    voice.note(f"search it: acqh search {out} {asked}, or on a page: acqh serve {out}")


def add(
    path: CollectionArgument,
    manifest: Annotated[
        Path | None, Argument(metavar="TABLE", help="As for acqh build; or give one item below.")
    ] = None,
    image: Annotated[Path | None, Option(help="Image of one item.")] = None,
    text: Annotated[str, Option(help="Text of one item.")] = "",
    label: Annotated[list[str] | None, Option(help="A label of it; may be repeated.")] = None,
    identifier: Annotated[str | None, Option("--id", help="Its id; else a digest of it.")] = None,
    label_separator: LabelSeparatorOption = None,
    max_pixels: MaxPixelsOption = None,
    replace: Annotated[bool, flag("replace", "Replace items that have the same ids.")] = False,
    strict: Annotated[bool, flag("strict", "Add all or nothing.")] = False,
) -> None:
    """Add the items of a manifest, or one item."""
    from acqh.collection import Collection, Item
    from acqh.collection.build.sources import open_source

    if manifest is None and image is None and not text:
        raise BadParameter("give a manifest, or --image and --text of one item")
    if manifest is not None and (image or text or label or identifier):
        raise BadParameter("--image, --text, --label and --id are of one item, not a manifest")
    items: Any = Item(image, text, label or (), identifier, origin="the item")
    if manifest is not None:
        items = open_source(manifest, label_separator=label_separator)
    with Collection.open(path, timeout=_PATIENCE_SECONDS) as collection, reporting() as progress:
        change = collection.upsert if replace else collection.add
        report = change(items, strict=strict, max_pixels=max_pixels, progress=progress)
        _print_changed(path, report, len(collection), "{} added, {:,} in all")
    if manifest is None and report.skipped:
        raise Exit(1)


def label(
    path: CollectionArgument,
    table: Annotated[
        Path, Argument(metavar="TABLE", help="With id, file or image; and text, labels, others.")
    ],
    label_separator: LabelSeparatorOption = None,
    clear: Annotated[
        bool, flag("clear", "Remove the text, labels or value where a cell is empty.")
    ] = False,
) -> None:
    """Give items texts, labels and columns from a table.

    An empty cell leaves what the item has, unless you pass --clear.
    """
    from acqh.collection import Collection

    with Collection.open(path, timeout=_PATIENCE_SECONDS) as collection, reporting() as progress:
        report = collection.annotate(
            table, label_separator=label_separator, clear=clear, progress=progress
        )
        _print_changed(path, report, len(collection), "{} labelled, {:,} in all")


def _print_changed(path: Path, report: Any, n_items: int, said: str) -> None:
    print_skipped(report.skipped)
    facts = {"ids": report.ids, "skipped": report.skipped, "n_items": n_items}
    print_result(facts, f"{path}: {said.format(count(len(report.ids), 'item'), n_items)}")


def remove(
    path: CollectionArgument,
    items: Annotated[
        list[str], Argument(metavar="ID|FILE...", help="Ids of the items, or their files.")
    ],
) -> None:
    """Remove items by id or by file; if one is unknown, none."""
    from acqh.collection import Collection

    with Collection.open(path, timeout=_PATIENCE_SECONDS) as collection:
        n_removed = collection.remove([find_id(collection, item) for item in items])
        n_items = len(collection)
    facts = {"n_removed": n_removed, "n_items": n_items}
    print_result(facts, f"{path}: {count(n_removed, 'item')} removed, {n_items:,} left")


def sync(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A folder of images.")],
    path: CollectionArgument,
    delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    forget: ForgetOption = False,
    max_pixels: MaxPixelsOption = None,
) -> None:
    """Bring a collection up to date with a folder of images.

    Adds new images, reads changed ones again, follows moved ones, and removes deleted ones.

    Only images of this folder are compared; a collection can follow several folders.
    Where there is no collection yet, build it, as acqh build does.
    """
    from acqh.collection import Collection, SyncReport
    from acqh.collection.build.folder import folder_items
    from acqh.collection.disk.generations import is_vacant

    n_items, drift = 0, None
    with reporting() as progress:
        given: dict[str, Any] = {"max_pixels": max_pixels, "progress": progress}
        if not is_vacant(path):
            with Collection.open(path, timeout=_PATIENCE_SECONDS) as collection:
                changes: dict[str, Any] = {"delete": delete, "dry_run": dry_run, "forget": forget}
                report = collection.sync(folder, **changes, **given)
                n_items, drift = len(collection), collection.drift
        elif dry_run:
            report = SyncReport(new=tuple(item.id for item in folder_items(folder).items))
        else:
            with Collection.build(folder_items(folder), path, **given) as collection:
                report = SyncReport(new=tuple(collection), unreadable=collection.skipped)
                n_items = len(collection)
    print_skipped(report.unreadable)
    plan = {name: getattr(report, name) for name in ("new", "changed", "moved", "deleted")}
    counts = {name: len(ids) for name, ids in plan.items()}
    counts |= {"unchanged": report.n_unchanged, "unreadable": len(report.unreadable)}
    facts = {"path": path, "n_items": n_items, **counts, "skipped": report.unreadable}
    said = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    said = f"{path}: {n_items:,} items; {'would be: ' if dry_run else ''}{said}"
    if dry_run:
        facts["plan"] = plan
        said = "\n".join([said, *(f"{name}: {it}" for name, ids in plan.items() for it in ids)])
    if drift is not None:
        facts["drift"] = drift.to_dict()
    print_result(facts, said)
    if drift is not None and drift.ratio is not None:
        how = f": acqh build {path} --relearn" if drift.retraining_recommended else ""
        voice.note(f"{drift}{how}")


def duplicates(
    path: CollectionArgument,
    keep: Annotated[
        Literal["best"] | None,
        Option(
            help="Compare the files of each group with its best one, and print those that it could "
            "replace, one a line. Nothing is deleted."
        ),
    ] = None,
) -> None:
    """List possible duplicates: the same files, the same images, and similar ones."""
    from acqh.cli.search import file_of
    from acqh.collection import Collection

    with Collection.open(path) as collection, reporting() as progress:
        groups = collection.duplicates(progress=progress)
        names = {id_: file_of(collection.item(id_)) or id_ for each in groups for id_ in each.ids}
        removable = collection.removable(groups, progress=progress) if keep else {}
    # A name that a terminal cannot show, or of two lines, could be read as another one.
    files = sorted(name for name in map(str, removable.values()) if name.isprintable())

    def show() -> None:
        for file in files:
            print(file)
        for each in () if keep else groups:
            tier = f"possible duplicates ({each.tier})"
            print(tier, *(f"  {names[id_]}" for id_ in each.ids), sep="\n")
        found = (
            f"{count(len(files), 'file')} could be removed" if keep else "--keep best lists files"
        )
        voice.note(
            f"{count(len(groups), 'group')} of possible duplicates; {found}; nothing was deleted"
        )

    facts = {"groups": [asdict(each) for each in groups]}
    print_result(facts | ({"removable": files} if keep else {}), show)


def verify(
    path: Annotated[Path, Argument(metavar="PATH", help="A collection, index, codes or model.")],
    clean: Annotated[bool, flag("clean", "Also remove what killed builds left.")] = False,
) -> None:
    """Check every byte of what acqh has written."""
    if clean:
        from acqh.collection.disk.generations import remove_unused

        n_bytes = remove_unused(path)
        voice.note(f"{path}: {n_bytes:,} bytes of killed builds removed")
    report, facts = _check(path)
    lines = (f"{path}: {said}" for said in report.problems or (f"whole. {facts}",))
    print_result(asdict(report), "\n".join(lines))
    if report.problems:
        raise Exit(1)


def _check(path: Path) -> tuple[Any, str]:
    from acqh._load import verify as check
    from acqh.io import BundleReport

    report = check(path)
    if not isinstance(report, BundleReport):
        notes = "".join(f" {note[0].upper()}{note[1:]}." for note in report.notes)
        built = " ".join(_as_options(report.settings or {}))
        return report, (
            f"collection, {report.n_items:,} items, {report.n_bytes:,} bytes."
            + (f" Built with {built}." if built else "")
            + notes
        )
    if report.kind == "code-parts" and report.ok:
        from acqh.scale import CodeParts

        parts = CodeParts(path)
        return report, f"codes of {len(parts):,} items in {parts.n_parts:,} parts."
    title = f" '{report.name}'" if report.name else ""
    return report, (
        f"{report.kind}{title}, {report.n_members} members, {report.n_bytes:,} bytes, "
        f"format {report.version}."
    )


def _as_options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of ``acqh build`` that say how a collection was built."""
    for name, value in settings.items():
        option = _RENAMED.get(name) or f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif name == "targets" and value:
            weights = (f"{view}={target['weight']:g}" for view, target in value.items())
            yield f"{option} {','.join(weights)}"
        elif value is not None and value is not False:
            yield f"{option} {shlex.quote(str(value))}"
