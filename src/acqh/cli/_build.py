"""``acqh build``: a collection from a manifest or a folder of images."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._options import (
    CodebooksOption,
    ComponentsOption,
    LabelSeparatorOption,
    MaxPixelsOption,
    SeedOption,
)
from acqh.cli._output import JsonOption, print_result, print_skipped
from acqh.cli._progress import reporting
from acqh.cli._targets import TargetsOption, parse_targets
from acqh.cli._voice import voice

# Files that bring features instead of images and texts.
_FEATURE_FILES = (".npz", ".mat")


SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="A manifest (CSV, TSV, JSON lines or Parquet with the columns image, text, labels "
        "separated by |, id; others are kept), a folder with manifest.csv, a folder of "
        "images, or a file of features (.npz, .mat).",
    ),
]
ImageEncoderOption = Annotated[
    str,
    typer.Option(
        help="auto (efficientnet where installed, else hog), efficientnet, hog, clip:PATH."
    ),
]
TextEncoderOption = Annotated[
    str, typer.Option(help="auto (minilm where installed, else tfidf), minilm, tfidf, clip:PATH.")
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        help="One for images and texts, in place of these two and in one space: clip, siglip, "
        "or clip:PATH (extra clip)."
    ),
]
ImageRootOption = Annotated[
    Path | None,
    typer.Option(help="Folder that paths of images are relative to; by default the manifest's."),
]
LikeOption = Annotated[
    Path | None,
    typer.Option(
        help="A collection whose encoders and model to use, instead of learning: both can then "
        "be searched and served as one."
    ),
]


def build(
    source: SourceArgument,
    out: Annotated[Path, typer.Option(help="Folder to make.")],
    image_encoder: ImageEncoderOption = "auto",
    text_encoder: TextEncoderOption = "auto",
    encoder: EncoderOption = None,
    n_components: ComponentsOption = 128,
    n_codebooks: CodebooksOption = 8,
    targets: TargetsOption = None,
    auto_labels: Annotated[int | None, typer.Option(hidden=True)] = None,
    image_root: ImageRootOption = None,
    label_separator: LabelSeparatorOption = None,
    max_pixels: MaxPixelsOption = None,
    like: LikeOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if an item cannot be used.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the collection that is there.")
    ] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Describe images and texts, learn from labels and content, and index all items."""
    from acqh.collection import Collection

    of_manifest = {"--image-root": image_root, "--label-separator": label_separator}
    of_raw = {"--encoder": encoder, "--image-encoder": image_encoder != "auto",
              "--text-encoder": text_encoder != "auto", "--max-pixels": max_pixels}  # fmt: skip
    _note_unused(source, of_manifest, of_raw)
    started = time.perf_counter()
    with reporting() as progress:
        collection = Collection.build(
            _read(source),
            out,
            image_encoder=encoder or image_encoder,
            text_encoder=encoder or text_encoder,
            n_components=n_components,
            n_codebooks=n_codebooks,
            targets=parse_targets(targets),
            auto_labels=auto_labels,
            strict=strict,
            overwrite=overwrite,
            image_root=image_root,
            label_separator=label_separator,
            max_pixels=max_pixels,
            random_state=seed,
            like=like,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    with collection:
        _print(out, collection.stats(), collection.skipped, seconds, as_json)


def _note_unused(source: Path, of_manifest: dict[str, Any], of_raw: dict[str, Any]) -> None:
    """Name options that were given and have no effect on items of such a source."""
    from acqh.collection.sources.folder import find_manifest

    if _has_features(source):
        unused, why = of_manifest | of_raw, "the file brings features"
    elif source.is_dir() and find_manifest(source) is None:
        unused, why = of_manifest, "the folder has no manifest"
    else:
        return
    for option in (option for option, given in unused.items() if given):
        voice.note(f"acqh: {option} has no effect, since {why}")


def _has_features(source: Path) -> bool:
    return source.suffix.lower() in _FEATURE_FILES


def _read(source: Path) -> Any:
    if not _has_features(source):
        return source
    from acqh.data import MultiViewData

    return MultiViewData.from_files(source)


def _print(
    out: Path, stats: Any, skipped: Sequence[tuple[str, str]], seconds: float, as_json: bool
) -> None:
    print_skipped(skipped)
    names = ("n_items", "n_labelled", "n_trained", "trained_on", "settings", "size_on_disk")
    labelled = "none with labels"
    if stats.n_labels:
        labelled = f"{stats.n_labelled:,} of them with {stats.n_labels} labels"
    facts = {"path": str(out), **{name: getattr(stats, name) for name in names}}
    print_result(
        {**facts, "seconds": round(seconds, 3), "skipped": skipped},
        f"{out}: {stats.n_items:,} items, {labelled}; learnt from {stats.n_trained:,} by "
        f"{stats.trained_on}. {len(skipped)} left out. "
        f"{stats.code_bytes} bytes per item, {stats.size_on_disk / 1e6:.1f} MB in all, "
        f"{seconds:.1f} s.",
        as_json,
    )
