"""``acqh export``: collections and indexes in other formats."""

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument

from acqh.cli._options import (
    CollectionArgument,
    OverwriteOption,
    WhereOption,
    flag,
    option,
    parse_list,
)
from acqh.cli._output import count, print_done, print_result, reporting

SourceArgument = Annotated[
    Path,
    Argument(
        metavar="SOURCE",
        help="Collection made by acqh build, or index made by acqh compress or acqh index.",
    ),
]
FileOption = Annotated[Path, option("File to write.", metavar="FILE")]
CodesOption = Annotated[bool, flag("codes", "Write codes instead of vectors.")]
MetadataOption = Annotated[
    bool, option("Also write texts, labels and fields.", "--metadata/--no-metadata")
]


def site(
    source: CollectionArgument,
    out: Annotated[
        Path | None,
        option(
            "Folder to write. A site in it is updated. Default: the name of COLLECTION with -site.",
            metavar="DIR",
        ),
    ] = None,
    captions: Annotated[bool, option("Publish texts.", "--captions/--no-captions")] = True,
    fields: Annotated[
        str,
        option(
            "Fields to publish, such as date,author. Default: none.",
            metavar="NAME,...",
            show_default=False,
        ),
    ] = "",
    thumbnails: Annotated[
        Literal["none", "48", "64", "96", "128", "160", "320"],
        option(
            "Longest side of thumbnails in pixels: none, 48, 64, 96, 128, 160 or 320. Above "
            "128 they are made from the original files.",
            metavar="N",
        ),
    ] = "128",
    index_all_fields: Annotated[
        bool,
        flag(
            "index-all-fields",
            "Also publish names of files, words of folders and all fields, texts of images, and "
            "the days of dates, so that they are found.",
        ),
    ] = False,
    where: WhereOption = None,
    base_url: Annotated[
        str | None,
        option("Address of the folder with the original images, to link to them.", metavar="URL"),
    ] = None,
) -> None:
    """Write a search site: a folder of files for any web host.

    Visitors search in their browsers. The site publishes thumbnails with kinds and suggested tags,
    labels, texts and the fields that you name. It never publishes ids or paths, nor hidden items.

    Example: acqh export site photos.acqh --fields date

    Documentation: docs/how-to/site.md
    """
    from acqh.collection import Collection
    from acqh.export import site as write_site

    out = out or source.with_name(f"{source.stem}-site")
    side = None if thumbnails == "none" else int(thumbnails)
    options: dict[str, Any] = {"captions": captions, "thumbnails": side, "base_url": base_url}
    options |= {"fields": parse_list(fields), "where": where, "index_all_fields": index_all_fields}
    with reporting() as progress, Collection.open(source) as collection:
        report = write_site(collection, out, **options, progress=progress)
    parts = ", ".join(f"{name} {size / 1e3:,.0f} kB" for name, size in report.n_bytes.items())
    shown = ["thumbnails, kinds, suggested tags"] * ("images" in report.n_bytes)
    shown += ["labels", "codes"]
    shown += ["names of files, words of folders, fields and images, days"] * index_all_fields
    shown += ["texts"] * captions + [f"field {name}" for name in report.fields]
    shown += ["addresses of originals"] * (base_url is not None)
    unread = (
        f"{count(report.n_unread_originals, 'original')} could not be read; thumbnails of 128 "
        "pixels stand for them.\n"
    )
    missing = "Not found: file names, words of folders, dates; --index-all-fields publishes them.\n"
    text = (
        f"Wrote {count(report.n_items, 'item')} to {out}: "
        f"{sum(report.n_bytes.values()) / 1e6:.1f} MB, "
        f"{report.n_initial_bytes / 1e6:.1f} MB before the first result.\n"
        f"Size: {parts}.\nPublished: {', '.join(shown)}.\n"
        f"{'' if index_all_fields else missing}"
        f"{count(report.n_written, 'file')} written, {report.n_removed:,} removed.\n"
        f"{unread if report.n_unread_originals else ''}"
        f"Preview: python -m http.server --directory {shlex.quote(str(out))}"
    )
    print_result(asdict(report), text)


def _file_command(name: str, form: str) -> Callable[..., None]:
    """Return a command that writes one file."""

    def command(
        source: SourceArgument,
        out: FileOption,
        codes: CodesOption = False,
        metadata: MetadataOption = True,
        overwrite: OverwriteOption = False,
    ) -> None:
        from acqh import export

        with reporting() as progress:
            report = getattr(export, f"export_{name}")(
                source, out, codes=codes, metadata=metadata, overwrite=overwrite, progress=progress
            )
        facts = {name: getattr(report, name) for name in ("n_items", "files", "n_bytes")}
        files = ", ".join(str(file) for file in report.files)
        size = f"{report.n_bytes / 1e6:.1f} MB"
        print_done(facts, f"Wrote {count(report.n_items, 'item')} to {files}, {size}")

    command.__name__ = name
    command.__doc__ = f"""Write vectors or codes as a {form}.

    The inner product of two vectors is their score.

    Example: acqh export {name} photos.acqh --out photos.{name}

    Documentation: docs/how-to/export.md
    """
    return command


parquet = _file_command("parquet", "Parquet table")
faiss = _file_command("faiss", "Faiss index")
