"""How much a command says, and how: notes, log and warnings, and advice that names options."""

import ast
import logging
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Of an argument: a text, a mapping, or anything else up to the next space.
_VALUE = r"(?P<value>'[^']*'|\"[^\"]*\"|\{[^}]*\}|[^\s,;)]+)"


@dataclass
class Voice:
    """What was asked for with ``--verbose`` and ``--quiet``, and the options of the command."""

    verbose: bool = False
    quiet: bool = False
    # Option, such as ``--image-root``, by the name that it has in Python.
    options: Mapping[str, str] = field(default_factory=dict)

    def start(self, verbose: bool, quiet: bool, options: Mapping[str, str]) -> None:
        """Speak for a command from now on."""
        self.verbose, self.quiet, self.options = verbose, quiet, options
        logging.getLogger("acqh").setLevel(self.level(logging.NOTSET))
        if verbose:
            logging.basicConfig(format=_FORMAT)

    def level(self, usual: int) -> int:
        """Return the least important level that reaches the log, which has a usual one."""
        return logging.DEBUG if self.verbose else logging.ERROR if self.quiet else usual

    def note(self, text: str) -> None:
        """Say something on stderr that is neither a result nor an error."""
        if not self.quiet:
            print(self.in_options(text), file=sys.stderr)

    def warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG002
        line: str | None = None,  # noqa: ARG002
    ) -> None:
        """Show a warning, in place of `warnings.showwarning`."""
        where = f" ({filename}, line {lineno}: {category.__name__})" if self.verbose else ""
        self.note(f"acqh: {message}{where}")

    def in_options(self, text: str) -> str:
        """Return a text in which advice about arguments of Python names options instead.

        Examples
        --------
        >>> options = {"overwrite": "--overwrite", "image_root": "--image-root", "where": "--where"}
        >>> voice = Voice(options=options)
        >>> voice.in_options("say image_root='photos', or overwrite=True; `where` takes a column")
        'say --image-root photos, or --overwrite; --where takes a column'
        """
        for name, option in self.options.items():
            text = re.sub(rf"(?<![\w./'-]){name}={_VALUE}", _Written(option), text)
            text = text.replace(f"`{name}`", option)
            if "_" in name:
                text = re.sub(rf"(?<![\w./'-]){name}(?![\w./'=-])", option, text)
        return re.sub(r"`(\w+)`", r"\1", text)


@dataclass(frozen=True)
class _Written:
    """An option with its value, as it is typed."""

    option: str

    def __call__(self, found: re.Match[str]) -> str:
        value = found["value"]
        if value == "True":
            return self.option
        if value[0] in "'\"":
            value = value[1:-1]
        elif value[0] == "{":
            value = ",".join(f"{name}={each}" for name, each in _read(value).items())
        return f"{self.option} {shlex.quote(value)}"


def _read(text: str) -> dict[str, Any]:
    found = ast.literal_eval(text)
    return found if isinstance(found, dict) else {}


# A process runs one command.
voice = Voice()
