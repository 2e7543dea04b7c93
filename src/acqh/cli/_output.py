"""What commands say: results to stdout; progress, notes and the log to stderr."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any

from acqh._core import files
from acqh.errors import InvalidInputError

_log = logging.getLogger(__name__)
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MAX_SKIPPED_LINES = 20
# Seconds between two lines of progress, where there is no terminal.
_EVERY = 10.0
# Columns from which on a bar of progress has room.
_WIDE = 80
# Columns that a spinner, counts up to millions and the time left take.
_FIGURES = 32


@dataclass
class Voice:
    """How things are said: as was asked for with ``--verbose``, ``--quiet`` and ``--json``."""

    verbose: bool = False
    quiet: bool = False
    as_json: bool = False
    started: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the command has been at work."""
        return time.perf_counter() - self.started

    def start(self, verbose: bool, quiet: bool, as_json: bool) -> None:
        """Speak for a command from now on."""
        self.verbose, self.quiet, self.as_json = verbose, quiet, as_json
        self.started = time.perf_counter()
        logging.getLogger("acqh").setLevel(self.level(logging.NOTSET))
        if verbose:
            logging.basicConfig(format=_FORMAT)

    def level(self, usual: int) -> int:
        """Return the least important level that reaches the log, which has a usual one."""
        return logging.DEBUG if self.verbose else logging.ERROR if self.quiet else usual

    def note(self, text: str) -> None:
        """Say something on stderr that is neither a result nor an error."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        *_: Any,
        **__: Any,
    ) -> None:
        """Show a warning, in place of `warnings.showwarning`."""
        where = f" ({filename}, line {lineno}: {category.__name__})" if self.verbose else ""
        self.note(f"acqh: {message}{where}")


# A process runs one command.
voice = Voice()


class Reporter:
    """Shows progress: on `bar` if there is one, or else as a line every ten seconds, for logs.

    `bar`: as `make_bar` returns it. `clock`: seconds since some time.
    """

    def __init__(self, bar: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._bar, self._clock, self._last = bar, clock, clock()
        self._what = ""

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Show how much is done, of how much (or None), and what: a step, or ``step: item``."""
        before, self._what = self._what, what
        if what != before:
            _log.debug("%s", what)
        if self._bar is not None:
            if not before or what.partition(":")[0] != before.partition(":")[0]:
                for task in self._bar.task_ids:  # each step has a pace of its own
                    self._bar.remove_task(task)
                self._bar.add_task(what, total=total, count="")
            count = f"{done:,}/{total:,}" if total else f"{done:,}" if done else ""
            shown = {"completed": done, "total": total, "count": count}
            shown["description"] = what.partition(": ")[2] or what
            self._bar.update(self._bar.task_ids[0], **shown)
        elif (now := self._clock()) - self._last >= _EVERY:
            self._last = now
            of_all = f" of {total:,} ({done / total:.0%})" if total else ""
            self.say(f"{what}, {done:,}{of_all}" if done or total else what)

    def say(self, text: str) -> None:
        """Print a line in between."""
        if self._bar is None:
            voice.note(text)
        else:
            self._bar.console.print(text, highlight=False)


@contextmanager
def reporting() -> Iterator[Reporter]:
    """Give what shows progress on stderr."""
    if voice.quiet or not sys.stderr.isatty():
        yield Reporter()
    else:
        with make_bar() as bar:
            yield Reporter(bar)


def make_bar(**console: Any) -> Any:
    """Return a progress display on stderr, one line at any width; unknown lengths just spin."""
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    shown = Console(stderr=True, **console)
    bar = 20 if shown.width >= _WIDE else 8
    room = max(shown.width - bar - _FIGURES, 1)
    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn(
            "{task.description}",
            table_column=Column(no_wrap=True, overflow="ellipsis", max_width=room),
        ),
        progress.BarColumn(bar_width=bar),
        progress.TextColumn("{task.fields[count]}", table_column=Column(no_wrap=True)),
        progress.TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
        console=shown,
        transient=True,
    )


def draw_bar(share: float, width: int = 10) -> str:
    """Return a bar that is filled to a share.

    Examples
    --------
    >>> draw_bar(0.55)
    '█████▌    '
    """
    halves = round(2 * width * min(max(share, 0.0), 1.0))
    bar = "█" * (halves // 2) + "▌" * (halves % 2)
    try:
        bar.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        bar = "#" * ((halves + 1) // 2)
    return bar.ljust(width)


def refuse_existing(path: Path) -> None:
    """Raise InvalidInputError where something is at the path of an ``--out`` already."""
    if path.exists():
        raise InvalidInputError(f"{path} exists; remove it, or choose another --out")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside an ``--out``, which gets its name when the work is done.

    An empty folder is replaced. Raises InvalidInputError: something else is there, before the work
    or, of two commands with the same ``--out``, after it.
    """
    if not path.parent.is_dir():
        raise InvalidInputError(f"the folder {path.parent} does not exist; create it first")
    if not (path.is_dir() and not any(path.iterdir())):
        refuse_existing(path)
    temporary = path.with_name(f".{path.name}-{token_hex(8)}.partial")
    try:
        yield temporary
        with suppress(OSError):
            path.rmdir()
        try:
            files.rename(temporary, path)
        except OSError:
            refuse_existing(path)
            raise
        files.sync_directory(path.parent)
    finally:
        rmtree(temporary, ignore_errors=True)


def print_result(facts: Any, said: str | Callable[[], object]) -> None:
    """Print what a command has done: as JSON, or as a text; `said`: the text, or what prints it."""
    if voice.as_json:
        print(json.dumps(facts, indent=2, default=str))
    elif callable(said):
        said()
    else:
        print(said)


def print_done(what: object, facts: dict[str, Any], said: str) -> None:
    """Print what a command has made of what, and how long that took."""
    facts = {**facts, "seconds": round(voice.seconds, 3)}
    print_result(facts, f"{what}: {said}; {voice.seconds:.1f} s.")


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = ""
) -> None:
    """Print a table; columns after the first whose cells are all numbers are set to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for position, column in enumerate(columns):
        digits = [row[position].replace(",", "").replace(".", "", 1) for row in rows]
        is_number = bool(position) and all(cell.isdigit() for cell in digits)
        table.add_column(column, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def count(number: int, noun: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> count(1, "item"), count(1_200, "item")
    ('1 item', '1,200 items')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shorten(text: str, width: int) -> str:
    """Return a text cut to as many columns of a terminal.

    Examples
    --------
    >>> shorten("a dog on a beach", 9)
    'a dog on…'
    """
    from rich.cells import cell_len, set_cell_size

    return (
        text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"
    )


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say on stderr which items were left out, and why; the first of them."""
    for what, why in skipped[:_MAX_SKIPPED_LINES]:
        voice.note(f"left out {printable(what)}: {printable(why)}")
    if len(skipped) > _MAX_SKIPPED_LINES:
        voice.note(f"... and {len(skipped) - _MAX_SKIPPED_LINES} more")


def printable(text: str) -> str:
    """Return a text without what could move the cursor or colour a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
