"""``acqh serve``: a collection over HTTP, and its page."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acqh.cli._voice import voice

if TYPE_CHECKING:
    from acqh.serve import Settings


def serve(
    collections: Annotated[
        list[Path],
        typer.Argument(
            metavar="COLLECTION...",
            help="A collection that acqh build made; or several made with --like, as one.",
        ),
    ],
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; any but loopback needs a token.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; by default 8000.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that readers must send.")
    ] = None,
    write_token_file: Annotated[
        Path | None, typer.Option(help="File with the token that adds and removes items.")
    ] = None,
    image_root: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Folder of the image files, to link to them as they were.",
        ),
    ] = None,
    root_path: Annotated[
        str | None, typer.Option(help="What a proxy puts before every path, such as /photos.")
    ] = None,
) -> None:
    """Serve a collection and its search page, to this machine and read-only unless told otherwise.

    Every setting may also be given in the environment, such as ACQH_MAX_K=100.
    """
    from acqh.serve import run

    first, *others = collections
    settings = _settings(
        collection=first,
        shards=others or None,
        host=host,
        port=port,
        token_file=token_file,
        write_token_file=write_token_file,
        image_root=image_root,
        root_path=root_path,
    )
    names = ", ".join(map(str, collections))
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=voice.level(logging.INFO)
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    run(settings, lambda address: print(f"serving {names} at {address}", file=sys.stderr))


def _settings(**given: Any) -> "Settings":
    """Return the settings given, the others from the environment; refuse what is wrong in it."""
    from pydantic import ValidationError

    from acqh.serve import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in wrong["loc"])
        variable = f"ACQH_{name.upper()}"
        said = variable if given.get(name) is None else voice.options.get(name, variable)
        # The one setting with a pattern is the path that a proxy puts before all others.
        is_path = wrong["type"] == "string_pattern_mismatch"
        why = "give a path such as /photos" if is_path else wrong["msg"]
        raise typer.BadParameter(f"{said}: {why}, got {wrong['input']!r}") from None
