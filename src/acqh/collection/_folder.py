"""The folder of a collection: what lies where, and how a new one takes its place."""

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from acqh._core.files import sync_directory
from acqh.collection._coder import Encoders
from acqh.errors import AcqhError, CorruptBundleError, InvalidInputError
from acqh.features import feature_map_from_state, feature_map_state
from acqh.io import read_bundle, write_bundle

KIND = "collection"
ITEMS, MODEL, INDEX = "items.sqlite", "model", "index"
_LAYOUT = 1
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux
_HERE = -100  # AT_FDCWD


@dataclass(frozen=True, eq=False)
class Facts:
    """What a collection's manifest says, and its encoders."""

    name: str
    generation: str
    encoders: Encoders
    trained_on: str
    n_trained: int
    n_skipped: int
    version: str


def start_folder(folder: Path) -> None:
    """Mark an empty folder as one of ours, so that the manifest can be written when it is full."""
    write_bundle(folder, kind=KIND, arrays={})


def write_facts(folder: Path, facts: Facts) -> None:
    """Write a collection's manifest, and its encoders with it."""
    states = {view: feature_map_state(each) for view, each in facts.encoders.by_view.items()}
    info = {
        "layout": _LAYOUT,
        "generation": facts.generation,
        "encoders": {view: description for view, (description, _) in states.items()},
        "trained_on": facts.trained_on,
        "n_trained": facts.n_trained,
        "n_skipped": facts.n_skipped,
        "acqh": facts.version,
    }
    arrays = {view: state for view, (_, state) in states.items()}
    write_bundle(folder, kind=KIND, name=facts.name, info=info, arrays=arrays)


def read_facts(folder: Path) -> Facts:
    """Read what `write_facts` wrote.

    Raises
    ------
    FileNotFoundError
        There is no collection.
    CorruptBundleError
        It is damaged, or of another layout.
    """
    bundle = read_bundle(folder, kind=KIND, mmap=False, verify=True)
    match bundle.info:
        case {
            "layout": int(layout),
            "generation": str(generation),
            "encoders": dict(descriptions),
            "trained_on": str(trained_on),
            "n_trained": int(n_trained),
            "n_skipped": int(n_skipped),
            "acqh": str(version),
        }:
            pass
        case _:
            raise CorruptBundleError(f"{folder} does not describe a collection")
    if layout != _LAYOUT:
        raise CorruptBundleError(f"{folder} has layout {layout}; this acqh reads {_LAYOUT}")
    try:
        encoders = {
            view: feature_map_from_state(description, bundle.arrays(view))
            for view, description in descriptions.items()
        }
    except InvalidInputError as error:
        raise CorruptBundleError(
            f"the encoders of {folder} cannot be read: {error}; where one is your own class, "
            "register it first with acqh.features.register_encoder"
        ) from error
    return Facts(
        bundle.name, generation, Encoders(encoders), trained_on, n_trained, n_skipped, version
    )


def generation_of(path: str | os.PathLike[str]) -> str:
    """Return the generation of the collection at a path, from its manifest alone.

    Raises
    ------
    FileNotFoundError
        There is no collection.
    CorruptBundleError
        It is damaged.
    """
    bundle = read_bundle(path, kind=KIND)
    return str(bundle.info.get("generation"))


def size_on_disk(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # SQLite's log comes and goes
            total += file.stat().st_size if file.is_file() else 0
    return total


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a new folder that takes the path's place when the block ends well.

    Whatever happens, the path is afterwards what it was before, or the whole new folder.

    Raises
    ------
    FileExistsError
        The path is there, and is not to be replaced or is no collection.
    FileNotFoundError
        The folder it would be in is not there.
    """
    _check_target(path, overwrite)
    folder = path.parent / f".{path.name}-{secrets.token_hex(8)}.partial"
    folder.mkdir()
    try:
        yield folder
        _sync_tree(folder)
        _check_target(path, overwrite)
        _put_in_place(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_target(path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} is not there; make it first")
    if not path.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{path} is there already; give another path, or overwrite it")
    try:
        read_bundle(path, kind=KIND)
    except (AcqhError, OSError) as error:
        raise FileExistsError(f"{path} is no collection, so it is not overwritten") from error


def _put_in_place(folder: Path, path: Path) -> None:
    if not path.exists():
        folder.rename(path)
    elif not _exchange(folder, path):
        # Here the path is missing for a moment, and an accident would leave both folders.
        old = folder.with_suffix(".old")
        path.rename(old)
        folder.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    sync_directory(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, where the system can."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = os.fsencode(one), os.fsencode(other)
    return rename is not None and rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0


def _sync_tree(folder: Path) -> None:
    """Wait until every file below a folder is on the disk."""
    for place, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(Path(place, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(place))
