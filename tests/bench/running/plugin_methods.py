"""Methods for the tests of the runner: each misbehaves in one way."""

import os
import signal
from pathlib import Path

from acqh.bench.running.trivial import RandomCodes
from acqh.methods import register

FACTS = {
    "title": "For tests", "reference": "", "year": 2026, "supervised": False, "code": "binary",
    "modes": ("single", "fused"),
}  # fmt: skip


@register(name="raising", **FACTS)
class Raising(RandomCodes):
    def fit(self, views, labels=None):  # noqa: ARG002
        raise RuntimeError("this method cannot")


@register(name="killed", **FACTS)
class Killed(RandomCodes):
    def fit(self, views, labels=None):  # noqa: ARG002
        os.kill(os.getpid(), signal.SIGKILL)


@register(name="waiting", **FACTS)
class Waiting(RandomCodes):
    """Says through a pipe that it has begun, and waits for the other end to close a second one."""

    def fit(self, views, labels=None):
        folder = os.environ.get("WAITING_PIPES")
        n_items = len(next(iter(views.values())))
        # The fit of a few rows that comes first is none of a cell's own.
        if folder is not None and self.random_state == 1 and n_items > 200:
            Path(folder, "begun").write_text("fit")
            Path(folder, "go").read_text()
        return super().fit(views, labels)
