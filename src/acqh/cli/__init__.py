"""The program `acqh`: its commands, and how errors reach a person."""

import functools
import inspect
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from acqh import __version__
from acqh.cli import collections, demo, features, research, search
from acqh.cli._options import flag
from acqh.cli._output import voice
from acqh.errors import AcqhError

app = typer.Typer(
    help="Find texts for an image and images for a text, from a few bytes per item.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS = {
    "Start here": (demo.demo,),
    "Collections": (
        collections.build,
        search.search,
        collections.sync,
        collections.label,
        collections.add,
        collections.remove,
        search.serve,
        collections.duplicates,
        collections.verify,
        features.export,
    ),
    "Vectors": (
        features.compress,
        features.query,
        features.recall,
        features.fit,
        features.encode,
        features.index,
    ),
    "Research": (research.bench, research.report, research.datasets),
}
_log = logging.getLogger(__name__)
# What every command takes, but that serve has nothing to print.
_SHARED = {
    "as_json": Annotated[bool, flag("json", "Print JSON instead of a table.")],
    "verbose": Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Log what is done, and show where errors come from."),
    ],
    "quiet": Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")
    ],
}


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options that all have."""

    @functools.wraps(function)
    def run(*, verbose: bool, quiet: bool, as_json: bool = False, **given: Any) -> None:
        if verbose and quiet:
            raise typer.BadParameter("give --verbose or --quiet, not both")
        voice.start(verbose, quiet, as_json)
        _log.debug("acqh %s, Python %s: %s", __version__, sys.version.split()[0], given)
        function(**given)

    signature, left_out = inspect.signature(function), ("as_json",) * (function is search.serve)
    shared = {name: kind for name, kind in _SHARED.items() if name not in left_out}
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(it, keyword, default=False, annotation=shared[it]) for it in shared]
    parameters = [*signature.parameters.values(), *more]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, **shared}
    return run


for panel, functions in _PANELS.items():
    for function in functions:
        app.command(function.__name__, rich_help_panel=panel)(_command(function))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"acqh {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: 0 if all went well, 1 if it failed, 2 for a wrong call."""
    warnings.showwarning = voice.warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what a terminal cannot show is no error
            stream.reconfigure(errors="replace")
    try:
        app()
    except SystemExit as left:
        # The reader has enough, as `head` does: Typer and Rich then silence what is left to
        # print and leave with 1, but nothing has failed, unless it was an error that they printed.
        if isinstance(left.__context__, BrokenPipeError):
            raise SystemExit(getattr(left.__context__.__context__, "exit_code", 0)) from None
        raise
    except (AcqhError, OSError, MemoryError) as error:
        # A user's mistake, a full disk or too little memory: a traceback would hide the message.
        if voice.verbose:
            traceback.print_exc()
        print(f"acqh: {_sentence(error)}", file=sys.stderr)
        raise SystemExit(1) from None


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
        )
    return str(error)
