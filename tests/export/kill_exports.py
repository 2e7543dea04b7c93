"""Export a site again and again, each time killed one step later, until an export ends.

Usage: kill_exports.py COLLECTION SITE TARGET OPTIONS

Each export begins with a copy of the folder SITE and is left in TARGET/<step>. A step is whatever
changes a name below it: a file is opened for writing, renamed or removed, a folder is made or
removed. OPTIONS: of `acqh.export.site`, as JSON.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from itertools import count
from pathlib import Path

from acqh.collection import Collection
from acqh.export import site

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def kill_at(step: int, folder: Path) -> None:
    """Kill this process just before the change of this number to a folder."""
    n_changes = 0

    def count_changes(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal n_changes
        if event not in CHANGES and not (event == "open" and int(arguments[2]) & WRITING):
            return
        if str(arguments[0]).startswith(str(folder)):
            n_changes += 1
            if n_changes == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_changes)


def export(path: Path, folder: Path, step: int, options: dict[str, object]) -> None:
    with Collection.open(path) as collection:
        if step:
            kill_at(step, folder)
        site(collection, folder, **options)


def main() -> None:
    os.fsync = lambda _: None  # a kill loses nothing that was written
    os.sync = lambda: None
    path, before, target = map(Path, sys.argv[1:4])
    options = json.loads(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        export(path, Path(folder), 0, options)  # imports what children then need not
    for step in count(1):
        folder = target / str(step)
        if before.is_dir():
            shutil.copytree(before, folder)
        child = os.fork()
        if not child:
            export(path, folder, step, options)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        if not os.WIFSIGNALED(status):
            sys.exit(f"step {step} ended with status {status}")


if __name__ == "__main__":
    main()
