"""Output of commands: results to stdout; progress, notes and the log to stderr."""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

from acqh._core import files
from acqh.errors import AcqhError, InvalidInputError

_log = logging.getLogger(__name__)
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Names of skipped files that are listed for each reason.
_MAX_NAMES = 5
# Seconds between two lines of progress without a terminal.
_INTERVAL_SECONDS = 10.0
# Terminals of at least this width get a wide progress bar.
_WIDE = 80
# Columns of a spinner, counts up to millions and the remaining time.
_COUNTS_WIDTH = 32
# Python names in messages, and the options that set them.
_OPTION_NAMES = {
    "overwrite=True": "--overwrite",
    "delete=True": "--delete",
    "max_pixels": "--max-megapixels",
    "image_root": "--image-root",
    "label_separator": "--label-separator",
    "query_view=": "--queries-column",
    "view=": "--items-column",
    "data_dir": "--data-dir",
    "rerank_k": "--rerank-k",
    "rerank=": "--rerank",
    "metric=": "--metric",
}
_OPTION = re.compile(rf"`?(?<![\w-])({'|'.join(_OPTION_NAMES)})(?!\w)`?")


@dataclass
class Output:
    """Verbosity of the command, from ``--verbose``, ``--quiet`` and ``--json``."""

    verbose: bool = False
    quiet: bool = False
    as_json: bool = False
    started: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the command started."""
        return time.perf_counter() - self.started

    def start(self, verbose: bool, quiet: bool, as_json: bool) -> None:
        """Set the options of the command that starts."""
        self.verbose, self.quiet, self.as_json = verbose, quiet, as_json
        self.started = time.perf_counter()
        logging.getLogger("acqh").setLevel(self.level(logging.NOTSET))
        if verbose:
            logging.basicConfig(format=_FORMAT)

    def level(self, default: int) -> int:
        """Return the lowest level that is logged."""
        return logging.DEBUG if self.verbose else logging.ERROR if self.quiet else default

    def note(self, text: str) -> None:
        """Print a message to stderr that is neither a result nor an error."""
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
        """Show a warning; replaces `warnings.showwarning`."""
        where = f" ({filename}, line {lineno}: {category.__name__})" if self.verbose else ""
        self.note(f"acqh: {in_options(str(message))}{where}")


# A process runs one command.
output = Output()


def in_options(message: str) -> str:
    """Return a message of the library with command-line options for names of arguments.

    Examples
    --------
    >>> in_options("c.acqh exists; give overwrite=True")
    'c.acqh exists; give --overwrite'
    """
    return _OPTION.sub(lambda match: _OPTION_NAMES[match[1]], message)


class Reporter:
    """Show progress on `bar` if there is one, otherwise as a line every ten seconds.

    `bar`: progress display from `make_bar`. `clock`: function that returns seconds.
    """

    def __init__(self, bar: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._bar, self._clock, self._last = bar, clock, clock()
        self._step = ""

    def __call__(self, done: int, total: int | None, step: str) -> None:
        """Show the progress of a step; `step` is its name, or ``step: item``."""
        before, self._step = self._step, step
        if step != before:
            _log.debug("%s", step)
        if self._bar is not None:
            if not before or step.partition(":")[0] != before.partition(":")[0]:
                for task in self._bar.task_ids:  # each step has its own speed
                    self._bar.remove_task(task)
                self._bar.add_task(step, total=total, count="")
            count = f"{done:,}/{total:,}" if total else f"{done:,}" if done else ""
            shown = {"completed": done, "total": total, "count": count}
            shown["description"] = step.partition(": ")[2] or step
            self._bar.update(self._bar.task_ids[0], **shown)
        elif (now := self._clock()) - self._last >= _INTERVAL_SECONDS:
            self._last = now
            of_all = f" of {total:,} ({done / total:.0%})" if total else ""
            output.note(f"{step}, {done:,}{of_all}" if done or total else step)


@contextmanager
def reporting() -> Iterator[Reporter]:
    """Yield a callback that shows progress on stderr."""
    if output.quiet or not sys.stderr.isatty():
        yield Reporter()
    else:
        with make_bar() as bar:
            yield Reporter(bar)


def make_bar(**console: Any) -> Any:
    """Return a progress display of one line on stderr; steps of unknown length only spin."""
    from rich import progress
    from rich.console import Console
    from rich.table import Column

    shown = Console(stderr=True, **console)
    bar = 20 if shown.width >= _WIDE else 8
    width = max(shown.width - bar - _COUNTS_WIDTH, 1)
    return progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn(
            "{task.description}",
            table_column=Column(no_wrap=True, overflow="ellipsis", max_width=width),
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


def check_file(path: Path, *, overwrite: bool) -> None:
    """Raise InvalidInputError if a file exists that must not be replaced."""
    if not (overwrite and path.is_file()):
        check_vacant(path, overwrite=overwrite)


def check_vacant(path: Path, *, overwrite: bool = False) -> None:
    """Raise InvalidInputError if an output exists that must not be replaced.

    With `overwrite`, only folders that acqh wrote are replaced, and no collections.
    """
    from acqh.io.read import kind_of

    if not os.path.lexists(path):
        return
    if not overwrite:
        raise InvalidInputError(f"{path} already exists; --overwrite replaces it")
    try:
        kind = kind_of(path)
    except (AcqhError, OSError):
        kind = "something else"
    if kind in ("something else", "collection"):
        raise InvalidInputError(
            f"{path} is {kind}, which --overwrite does not replace; choose another --out"
        )


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder next to ``--out``, and rename it at the end.

    An empty folder is replaced. Raises InvalidInputError: the output exists at the start, or at the
    end if two commands write to one output.
    """
    if not path.parent.is_dir():
        raise InvalidInputError(f"the folder {path.parent} does not exist; create it first")
    files.finish_replacing(path)
    if not (path.is_dir() and not any(path.iterdir())):
        check_vacant(path, overwrite=overwrite)
    temporary = files.temporary_folder(path)
    try:
        yield temporary
        with suppress(OSError):
            path.rmdir()
        try:
            files.replace_folder(temporary, path, overwrite=overwrite)
        except OSError:
            check_vacant(path, overwrite=overwrite)
            raise
    finally:
        rmtree(temporary, ignore_errors=True)


def print_result(facts: Any, text: str | Callable[[], object]) -> None:
    """Print the result of a command: `facts` as JSON, or a text; `text` may print it itself."""
    if output.as_json:
        print(json.dumps(facts, indent=2, default=str))
    elif callable(text):
        text()
    else:
        print(text)


def print_done(facts: dict[str, Any], text: str) -> None:
    """Print the output path of a command and its time."""
    facts = {**facts, "seconds": round(output.seconds, 3)}
    print_result(facts, f"{text} ({output.seconds:.1f} s).")


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = ""
) -> None:
    """Print a table; columns of numbers after the first are aligned to the right."""
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
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        print(f"{name:<{width}}{printable(value)}")


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "item"), count(1_200, "item")
    ('1 item', '1,200 items')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shorten(text: str, width: int) -> str:
    """Return a text cut to a number of terminal columns.

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
    """Print skipped items to stderr, grouped by reason; the most frequent reason first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, reason in skipped:
        # Reasons that differ only in names and numbers are grouped.
        key = re.sub(r"\d[\d,.]*", "0", reason.replace(name, "").replace(Path(name).name, ""))
        groups.setdefault(key, []).append((name, reason))
    for group in sorted(groups.values(), key=len, reverse=True):
        output.note(f"Skipped {len(group):,}: {printable(in_options(group[0][1]))}")
        shown = group if output.verbose else group[:_MAX_NAMES]
        for name, _ in shown:
            output.note(f"  {printable(name)}")
        if len(group) > len(shown):
            output.note(f"  and {len(group) - len(shown):,} more (--verbose lists all)")


def printable(text: str) -> str:
    """Return a text without characters that control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
