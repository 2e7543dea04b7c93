"""Logs that clients cannot fill."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Those that write when a client does something wrong, by the names of the loggers they use:
# filters do not hold for loggers further down.
_LOGGERS = ("asyncio", "uvicorn.error", "acqh.serve._shield")
_KEPT = 256


class RepeatLimit(logging.Filter):
    """Lets a line into the log a few times per minute, then says how often it was left out.

    `most`: times that a line, whatever its arguments, is written within the window. `seconds`:
    length of the window. `clock`: returns the time in seconds.
    """

    def __init__(
        self, most: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is to be written."""
        # Of the first line alone: asyncio puts addresses of objects into the others.
        key = (record.name, str(record.msg).partition("\n")[0])
        now = self._clock()
        with self._lock:
            since, n_seen = self._seen.get(key, (now, 0))
            n_left_out = 0
            if now - since >= self._seconds:
                n_left_out = max(0, n_seen - self._most)
                since, n_seen = now, 0
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen[key] = since, n_seen + 1
        if n_left_out:
            record.msg = f"{record.getMessage()} ({n_left_out} more like this were not written)"
            record.args = ()
        return n_seen < self._most

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Hold for the loggers of a server while it runs."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(self)
