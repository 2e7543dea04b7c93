"""Help of commands, and words of a query that begin with a minus."""

import re
from pathlib import Path
from typing import Any

from typer import BadParameter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

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
            if "--help" in param.opts and isinstance(self, TyperCommand):
                param.rich_help_panel = "Output"
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
            raise BadParameter(f"{args[0]} is not a command; use: {usage}")
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
