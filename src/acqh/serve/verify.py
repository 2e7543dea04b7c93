"""Verification of a collection before it replaces another, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from acqh.collection import Collection
from acqh.collection.verify import check_store
from acqh.errors import AcqhError, CorruptBundleError

# Other processes come first.
_NICE = 10


def verified_generation(path: Path) -> str:
    """Verify the collection on disk in another process; return its generation.

    Raises CorruptBundleError: it is damaged.
    """
    program = "import sys; from acqh.serve.verify import main; main(sys.argv[1])"
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CorruptBundleError(done.stderr.strip() or f"verification of {path} failed")
    return done.stdout.strip()


def verify(path: Path) -> str:
    """Compare the checksums of the model and of all items: 10 s per million; return the generation.

    Raises CorruptBundleError: something is damaged. ``acqh verify`` also compares the fields and
    words that items are found by, which takes ten times as long.
    """
    with Collection.open(path) as collection:
        with collection.opened.store.reading() as connection:
            errors = check_store(connection, collection.codebooks.shape, lookups=False)
            if error := next(iter(errors), None):
                raise CorruptBundleError(f"{path} is damaged: {error}; build it again")
        return collection.generation


def main(path: str) -> None:
    """Write the generation of a sound collection to stdout, or exit with what is wrong."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    try:
        sys.stdout.write(verify(Path(path)))
    except (AcqhError, OSError) as error:
        sys.exit(str(error))
