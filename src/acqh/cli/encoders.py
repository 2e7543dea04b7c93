"""The command that lists encoders and downloads CLIP models."""

import os
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from acqh.cli._options import option
from acqh.cli._output import output, print_done, print_result, print_table

DownloadOption = Annotated[
    str | None,
    option(
        "Download a CLIP model, such as siglip or OWNER/NAME@REVISION, and exit.",
        "Input",
        metavar="NAME",
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
