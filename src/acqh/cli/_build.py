"""``acqh build``: a collection from a manifest or a folder of images."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from acqh.cli._collections import LabelSeparatorOption, MaxPixelsOption, print_skipped
from acqh.cli._output import JsonOption, print_json
from acqh.cli._progress import reporting
from acqh.cli._targets import TargetsOption, parse_targets

# Files that bring features instead of images and texts.
_FEATURE_FILES = (".npz", ".mat")


def build(
    source: Annotated[
        Path,
        typer.Argument(
            help="A manifest (CSV, TSV, JSON lines or Parquet with the columns image, text, labels "
            "separated by |, id; others are kept), a folder with manifest.csv, a folder of "
            "images, or a file of features (.npz, .mat)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to make.")],
    image_encoder: Annotated[
        str,
        typer.Option(
            help="auto (efficientnet where installed, else hog), efficientnet, hog, clip:PATH."
        ),
    ] = "auto",
    text_encoder: Annotated[
        str,
        typer.Option(help="auto (minilm where installed, else tfidf), minilm, tfidf, clip:PATH."),
    ] = "auto",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="One for images and texts, in place of these two and in one space: clip, siglip, "
            "or clip:PATH (extra clip)."
        ),
    ] = None,
    n_components: Annotated[int, typer.Option(min=1, help="Length of query vectors.")] = 64,
    n_codebooks: Annotated[int, typer.Option(min=1, max=16, help="Bytes of a code.")] = 8,
    targets: TargetsOption = None,
    auto_labels: Annotated[int | None, typer.Option(hidden=True)] = None,
    image_root: Annotated[
        Path | None,
        typer.Option(help="Folder that images are relative to and lie in; the manifest's."),
    ] = None,
    label_separator: LabelSeparatorOption = None,
    max_pixels: MaxPixelsOption = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="A collection whose encoders and model to use, instead of learning: both can then "
            "be searched and served as one."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if an item cannot be used.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the collection that is there.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Describe images and texts, learn from labels and content, and index all items."""
    from acqh.collection import Collection

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
        stats, skipped = collection.stats(), collection.skipped
    print_skipped(skipped)
    if as_json:
        print_json({"path": str(out), "n_items": stats.n_items, "n_labelled": stats.n_labelled,
                    "n_trained": stats.n_trained, "trained_on": stats.trained_on,
                    "settings": stats.settings,
                    "size_on_disk": stats.size_on_disk, "seconds": round(seconds, 3),
                    "skipped": [list(entry) for entry in skipped]})  # fmt: skip
        return
    print(
        f"{out}: {stats.n_items:,} items, {stats.n_labelled:,} of them with {stats.n_labels} "
        f"labels; learnt from {stats.n_trained:,} by {stats.trained_on}. {len(skipped)} left out. "
        f"{stats.code_bytes} bytes per item, {stats.size_on_disk / 1e6:.1f} MB in all, "
        f"{seconds:.1f} s."
    )


def _read(source: Path) -> Any:
    if source.suffix.lower() not in _FEATURE_FILES:
        return source
    from acqh.data import MultiViewData

    return MultiViewData.from_files(source)
