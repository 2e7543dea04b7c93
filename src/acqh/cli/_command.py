"""What all commands have in common: ``--verbose``, ``--quiet``, and errors that name options."""

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from acqh import __version__
from acqh.cli._voice import voice
from acqh.errors import AcqhError

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
