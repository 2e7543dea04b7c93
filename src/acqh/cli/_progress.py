"""What a command shows while it works: a bar on a terminal, else a line now and then."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from acqh.cli._voice import voice

_log = logging.getLogger(__name__)
# Seconds between two lines, where there is no terminal.
_EVERY = 10.0


class Reporter:
    """Told how far the work is, it says nothing but keeps the steps in the log."""

    def __init__(self) -> None:
        self.step = self._what = ""

    def __call__(self, done: int, total: int | None, what: str) -> None:  # noqa: ARG002
        """Take in how much is done, of how much (or None), and what: a step, or ``step: item``."""
        self.step = what.partition(":")[0]
        if what != self._what:
            self._what = what
            _log.debug("%s", what)

    def say(self, text: str) -> None:
        """Say something in between."""
        voice.note(text)


class LineReporter(Reporter):
    """Writes a line every ten seconds, for logs.

    `clock`: seconds since some time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said = clock()

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Take in how much is done, of how much (or None), and what."""
        super().__call__(done, total, what)
        now = self._clock()
        if now - self._said >= _EVERY:
            self._said = now
            of_all = f" of {total:,} ({done / total:.0%})" if total else ""
            self.say(f"{what}, {done:,}{of_all}" if done or total else what)


class BarReporter(Reporter):
    """Shows a bar with the pace and the time left on a terminal."""

    def __init__(self, bar: Any) -> None:
        super().__init__()
        self._bar = bar
        self._task = bar.add_task("starting", total=None)

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Take in how much is done, of how much (or None), and what."""
        before = self.step
        super().__call__(done, total, what)
        if self.step != before:  # which has a pace of its own
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=total)
        self._bar.update(self._task, completed=done, total=total, description=what)

    def say(self, text: str) -> None:
        """Say something in between."""
        self._bar.console.print(text, highlight=False)


@contextmanager
def reporting() -> Iterator[Reporter]:
    """Give what is told how far the work is, and shows it on stderr."""
    if voice.quiet:
        yield Reporter()
    elif not sys.stderr.isatty():
        yield LineReporter()
    else:
        with make_bar() as bar:
            yield BarReporter(bar)


def make_bar() -> Any:
    """Return a progress display on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Pace(ProgressColumn):
        def render(self, task: Task) -> Text:
            if not task.speed:
                return Text("")
            left = (
                "" if task.time_remaining is None else f", {timedelta(0, task.time_remaining)} left"
            )
            return Text(f"{task.speed:,.0f} per second{left}" if task.speed >= 1 else left[2:])

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        Pace(),
        console=Console(stderr=True),
        transient=True,
    )
