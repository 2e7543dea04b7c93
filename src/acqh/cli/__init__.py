"""The program `acqh`: its commands, their help, and how errors are shown."""

import functools
import inspect
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from importlib.resources import files
from io import TextIOWrapper
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from acqh import __version__
from acqh.cli import collections, demo, export, features, research, search
from acqh.cli._options import PANEL_OF, flag, option
from acqh.cli._output import in_options, output
from acqh.errors import AcqhError

# Names of values by the type that Typer shows.
_METAVARS = {"int": "N", "int range": "N", "float": "N", "float range": "N", "str": "TEXT",
             "path": "PATH", "bool": "", "list[str]": "TEXT", "list[path]": "PATH"}  # fmt: skip
# Longer lists of values are part of the help, so that its columns stay wide.
_LONGEST_METAVAR = 18
# A word or a phrase to exclude, not an option such as -k or -k20.
_EXCLUDED = re.compile(r"""-(?!.\d*$)[^\W\d_].+|-".+""", re.DOTALL)


class _PlainHelp:
    """Mixin of commands and groups."""

    def get_params(self, context: Any) -> list[Any]:
        """Return the parameters, shown by the names of their values; those of the output last."""
        params: list[Any] = super().get_params(context)  # type: ignore[misc]
        for param in params:
            if isinstance(param, TyperOption) and param.metavar is None:
                label = param.display_type(context).strip("<>")
                param.metavar = _METAVARS.get(label, label)
                if len(label) > _LONGEST_METAVAR:
                    param.metavar = "NAME"
                    param.help = f"{param.help} One of {label.replace('|', ', ')}."
            if isinstance(param, TyperArgument):
                param.display_type_rich = lambda **_: ""  # type: ignore[method-assign]
            is_listed = "--help" not in param.opts or isinstance(self, TyperCommand)
            if isinstance(param, TyperOption) and is_listed:
                param.rich_help_panel = param.rich_help_panel or PANEL_OF.get(param.name or "")
            # The text of the option has its range, if it matters.
            param._get_number_range_help_str = lambda: None
        return sorted(params, key=lambda param: param.rich_help_panel == "Output")

    def collect_usage_pieces(self, context: Any) -> list[str]:
        """Return the parts of the usage line."""
        pieces = []
        for param in self.get_params(context):
            if isinstance(param, TyperArgument):
                name = f"{param.display_name_raw}{'...' if param.nargs != 1 else ''}"
                pieces.append(name if param.required else f"[{name}]")
        return [*pieces, "[OPTIONS]", *(["COMMAND ..."] if isinstance(self, TyperGroup) else [])]


class Command(_PlainHelp, TyperCommand):
    """A command."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Parse arguments; among WORDS, `-beach` excludes a word and is no option."""
        if any(param.metavar == "WORDS" for param in self.params):
            args = self._options_first(args)
        return super().parse_args(context, args)

    def _options_first(self, args: list[str]) -> list[str]:
        """Return arguments with excluded words after ``--``."""
        end = args.index("--") if "--" in args else len(args)
        options = {name: param for param in self.params for name in getattr(param, "opts", ())}
        first: list[str] = []
        excluded: list[str] = []
        for before, arg in zip(["", *args], args[:end], strict=False):
            param = options.get(before)
            is_value = isinstance(param, TyperOption) and not param.is_flag
            is_word = _EXCLUDED.fullmatch(arg) and f"-{arg}" not in options
            (excluded if is_word and not is_value else first).append(arg)
        return [*first, "--", *excluded, *args[end + 1 :]] if excluded else args


class Group(_PlainHelp, TyperGroup):
    """A command with sub-commands."""

    def resolve_command(self, context: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, command and other arguments; name the command if a file comes first."""
        if args[0] not in self.commands and Path(args[0]).exists():
            name = "|".join(self.commands) if context.parent else "open"
            usage = f"{context.command_path} {name} {args[0]}"
            raise typer.BadParameter(f"{args[0]} is not a command; use: {usage}")
        return super().resolve_command(context, args)


def split_help(docstring: str) -> tuple[str, str]:
    r"""Return the help of a command and its last lines, from its docstring.

    Examples
    --------
    >>> split_help("Show a thing.\n\nExample: acqh show a\n\nDocumentation: docs/show.md")
    ('Show a thing.', 'Example: acqh show a\nDocumentation: docs/show.md')
    """
    paragraphs = [" ".join(text.split()) for text in docstring.split("\n\n")]
    last = [text for text in paragraphs if text.startswith(("Example: ", "Documentation: "))]
    return "\n\n".join(text for text in paragraphs if text not in last), "\n".join(last)


_SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "cls": Group,
}
app = typer.Typer(
    help="Search images by text and texts by image, with a few bytes per item.",
    epilog="Example: acqh open photos\nDocumentation: docs/index.md",
    **_SETTINGS,
)
_export = typer.Typer(
    help="Export a collection or an index to other formats.",
    epilog="Example: acqh export site photos.acqh\nDocumentation: docs/how-to/export.md",
    **_SETTINGS,
)
_datasets = typer.Typer(**{**_SETTINGS, "no_args_is_help": False})
_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo.demo, collections.open_folder),
    "Photos and texts": (
        collections.build,
        search.search,
        search.serve,
        collections.sync,
        collections.annotate,
        collections.add,
        collections.remove,
        collections.retrain,
        collections.info,
        collections.duplicates,
        collections.encoders,
    ),
    "Vectors": (
        features.compress,
        features.query,
        features.recall,
        features.fit,
        features.encode,
        features.index,
    ),
    "Research": (research.bench, research.report),
    "Files": (collections.verify,),
}
_log = logging.getLogger(__name__)
# Every command takes these, except that serve and open print no result.
_SHARED = {
    "as_json": Annotated[bool, flag("json", "Print the result as JSON.")],
    "verbose": Annotated[bool, option("Show details, a log and tracebacks.", "--verbose", "-v")],
    "quiet": Annotated[bool, option("Show results and errors only.", "--quiet", "-q")],
}


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the shared options."""

    @functools.wraps(function)
    def run(*, verbose: bool, quiet: bool, as_json: bool = False, **arguments: Any) -> None:
        if verbose and quiet:
            raise typer.BadParameter("--verbose and --quiet exclude each other")
        output.start(verbose, quiet, as_json)
        _log.debug("acqh %s, Python %s: %s", __version__, sys.version.split()[0], arguments)
        function(**arguments)

    signature = inspect.signature(function)
    prints_nothing = function in (search.serve, collections.open_folder)
    shared = {name: _SHARED[name] for name in _SHARED if not (prints_nothing and name == "as_json")}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *signature.parameters.values(),
        *(inspect.Parameter(name, keyword, default=False, annotation=shared[name])
          for name in shared),
    ]  # fmt: skip
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, **shared}
    return run


def _register(group: typer.Typer, panel: str | None, function: Callable[..., None]) -> None:
    text, examples = split_help(inspect.getdoc(function) or "")
    name = function.__name__.removesuffix("_folder")
    group.command(name, cls=Command, help=text, epilog=examples, rich_help_panel=panel)(
        _command(function)
    )


for panel, functions in _PANELS.items():
    for function in functions:
        _register(app, panel, function)
for function in (export.site, export.parquet, export.faiss):
    _register(_export, None, function)
app.add_typer(_export, name="export", rich_help_panel="Files")
_register(_datasets, None, research.prepare)
_text, _examples = split_help(inspect.getdoc(research.datasets) or "")
_datasets.callback(invoke_without_command=True, help=_text, epilog=_examples)(
    _command(research.datasets)
)
app.add_typer(_datasets, name="datasets", rich_help_panel="Research")


def _printing(name: str, text: Callable[[], str], summary: str) -> Any:
    """Return an option that prints a text and exits."""

    def show(is_set: bool) -> None:
        if is_set:
            print(text())
            raise typer.Exit

    return typer.Option(name, callback=show, is_eager=True, help=summary)


def _citation() -> str:
    bibtex = Template((files("acqh") / "citation.bib").read_text("utf-8"))
    return bibtex.substitute(version=__version__).rstrip()


@app.callback()
def _root(
    version: Annotated[
        bool, _printing("--version", lambda: f"acqh {__version__}", "Show the version and exit.")
    ] = False,
    cite: Annotated[bool, _printing("--cite", _citation, "Show BibTeX and exit.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; exit with 0 on success, 1 on failure, 2 for a wrong call."""
    warnings.showwarning = output.warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not show every character
    try:
        app()
    except SystemExit as status:
        # The reader closed the pipe, as `head` does: Typer and Rich then exit with 1, but nothing
        # failed, unless they were printing an error.
        if isinstance(status.__context__, BrokenPipeError):
            raise SystemExit(getattr(status.__context__.__context__, "exit_code", 0)) from None
        raise
    except (AcqhError, OSError, MemoryError) as error:
        # For wrong input, a full disk or too little memory, a traceback would hide the message.
        if output.verbose:
            traceback.print_exc()
        print(f"acqh: {_sentence(error)}", file=sys.stderr)
        raise SystemExit(1) from None


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory ({error})" if str(error) else "not enough memory"
    return in_options(str(error))
