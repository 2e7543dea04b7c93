"""What several commands take: options, and how they are read."""

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from acqh import __version__
from acqh.cli._output import voice
from acqh.errors import AcqhError

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A folder that acqh fit made.")
]
ComponentsOption = Annotated[int, typer.Option(min=1, help="Length of query vectors.")]
CodebooksOption = Annotated[int, typer.Option(min=1, max=16, help="Bytes per item.")]
ChunkSizeOption = Annotated[int, typer.Option(min=1, help="Items in memory at a time.")]
DataDirOption = Annotated[
    Path | None, typer.Option(help="Folder with the data files; by default $ACQH_DATA.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
CollectionArgument = Annotated[
    Path, typer.Argument(metavar="COLLECTION", help="A folder that acqh build has made.")
]
MaxPixelsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Refuse images of more pixels, before decoding them; 64000000 if not given.",
    ),
]
LabelSeparatorOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="What stands between a manifest's labels; by default a vertical bar."
    ),
]


DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS|local",
        help="Work on a Dask cluster: its scheduler's address, or local for a process per core.",
    ),
]


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Give a client of the cluster, or None where the work is done here."""
    if address is None:
        yield None
        return
    from acqh.scale import connect

    with connect(address) as client:
        yield client


TargetsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=WEIGHT,...",
        help="What to learn: labels and the content of views, such as labels=0.5,text=0.5. "
        "Default: labels where there are any, otherwise the content of all views; for a "
        "collection labels=0.42 and content for the rest.",
    ),
]


def parse_targets(text: str | None) -> dict[str, float] | None:
    """Return targets by name.

    `text`: such as ``labels=0.5,text=0.5``; a name alone has weight one. Raises typer.BadParameter:
    a weight that is not a number, or a name twice.

    Examples
    --------
    >>> parse_targets("labels=0.5,text")
    {'labels': 0.5, 'text': 1.0}
    """
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = (each.strip() for each in part.partition("="))
        try:
            number = float(weight or 1.0)
        except ValueError:
            number = float("nan")
        if not name or name in found or number != number:
            raise typer.BadParameter(
                f"targets are names and weights such as labels=0.5,text=0.5, got {text!r}"
            )
        found[name] = number
    return found


_log = logging.getLogger(__name__)
_SHARED = {
    "verbose": Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Log what is done, and show where errors come from."),
    ],
    "quiet": Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")
    ],
}
# What Python calls an option that has another name here.
_ALSO = {
    "n_bytes": "bytes_per_item",
    "seed": "random_state",
    "shards": "n_shards",
    "threads": "n_threads",
    "train": "n_train",
}

# What is advised to be given to another command.
_ELSEWHERE = {"like": "acqh build --like"}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options that all have; what it raises names its options."""
    options = _options(function)

    @functools.wraps(function)
    def run(*, verbose: bool, quiet: bool, **given: Any) -> None:
        if verbose and quiet:
            raise typer.BadParameter("give --verbose or --quiet, not both")
        voice.start(verbose, quiet, options)
        _log.debug("acqh %s, Python %s: %s", __version__, sys.version.split()[0], given)
        try:
            function(**given)
        except (AcqhError, OSError) as error:
            if len(error.args) == 1:  # a sentence of ours, not a number and words of the system
                error.args = (voice.in_options(str(error)),)
            raise

    signature = inspect.signature(function)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in _SHARED.items()
    ]
    parameters = [*signature.parameters.values(), *shared]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, **_SHARED}
    return run


def _options(function: Callable[..., None]) -> dict[str, str]:
    """Return the options of a command by the names that they have in Python."""
    found = dict(_ELSEWHERE)
    for name, parameter in inspect.signature(function).parameters.items():
        for option in get_args(parameter.annotation)[1:]:
            if isinstance(option, typer.models.OptionInfo):
                named = [each for each in option.param_decls or () if each.startswith("-")]
                first = named[0] if named else f"--{name.replace('_', '-')}"
                found[name] = found[_ALSO.get(name, name)] = first.split("/")[0]
    return found
