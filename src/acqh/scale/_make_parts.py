"""Making the parts of a folder, here or on a cluster: those that are not there yet."""

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array
from acqh._core.progress import Progress
from acqh._core.threads import limit_threads
from acqh.data import MultiViewData, Piece, read_pieces
from acqh.errors import ClusterError, CorruptBundleError, InvalidInputError
from acqh.scale._dask._chunks import Chunk, read_items
from acqh.scale._dask._tasks import call, carry, compute
from acqh.scale._part_folder import PartT, Place, Plan, places, read_part, write_part


def is_there(folder: Path, place: Place, plan: Plan[PartT], ids: Array | None = None) -> bool:
    """Whether a part is there already; raises where it is another or damaged.

    `ids` are those that it must have been made of, where the source was read anyway.
    """
    path = place.path(folder)
    try:
        there, part = read_part(path, plan)
    except FileNotFoundError:
        return False
    except CorruptBundleError as error:
        raise CorruptBundleError(f"{error}; remove {path} to have it made again") from error
    if there != place or not (ids is None or np.array_equal(getattr(part, plan.ids_name), ids)):
        raise InvalidInputError(
            f"{path} holds other items than the source has there: {there.n_rows} from row "
            f"{there.first_row}, not {place.n_rows} from row {place.first_row}, or other ids; give "
            "the same source, cut alike, or choose another folder"
        )
    return True


def make_parts(
    folder: Path,
    plan: Plan[PartT],
    source: Sequence[Piece] | Iterable[MultiViewData],
    make: Callable[[MultiViewData], PartT],
    report: Callable[[int], None],
) -> None:
    """Make the parts that are not there yet, one after the other.

    `source`: pieces whose part is there are not read. `make`: from the items of a part to the part.
    `report`: called with the number of items done after each part.
    """
    plan.begin(folder)
    if isinstance(source, Sequence):
        n_items, n_parts = _make_of_pieces(folder, plan, source, make, report)
    else:
        n_items = n_parts = 0
        for items in source:
            place = Place(n_parts, n_items, len(items))
            make_part(folder, place, plan, items, make)
            # Not to be kept while the next ones are read.
            del items
            n_items, n_parts = n_items + place.n_rows, n_parts + 1
            report(n_items)
    plan.finish(folder, n_items, n_parts)


def _make_of_pieces(
    folder: Path,
    plan: Plan[PartT],
    pieces: Sequence[Piece],
    make: Callable[[MultiViewData], PartT],
    report: Callable[[int], None],
) -> tuple[int, int]:
    every = list(zip(pieces, places(map(len, pieces)), strict=True))
    missing = [(piece, place) for piece, place in every if not is_there(folder, place, plan)]
    n_items = sum(map(len, pieces))
    done = n_items - sum(len(piece) for piece, _ in missing)
    if done:
        report(done)
    with closing(read_pieces((piece for piece, _ in missing), ahead=True)) as reader:
        for _, place in missing:
            # The items have no name here: others can be read when these are gone.
            write_part(folder, place, plan, make(next(reader)))
            done += place.n_rows
            report(done)
    return n_items, len(every)


def make_parts_on(
    client: Any,
    folder: Path,
    plan: Plan[PartT],
    chunks: Sequence[Chunk],
    make: Callable[[MultiViewData], PartT],
    done: Callable[[int], None] | None,
) -> None:
    """Have the workers of a cluster make the parts that are not there yet.

    `folder`: seen by all workers. `chunks`: with their numbers of rows. `make`: from the items of a
    part to the part; it is sent to the workers. `done`: called with the number of each part that is
    done.
    """
    plan.begin(folder)
    sizes = [chunk.n_rows or 0 for chunk in chunks]
    carried = carry(make)
    tasks = [
        call(_make_seen_part)(folder, place, plan, chunk.items, carried)
        for chunk, place in zip(chunks, places(sizes), strict=True)
    ]
    compute(client, tasks, [chunk.name for chunk in chunks], done=done)
    plan.finish(folder, sum(sizes), len(sizes))


def _make_seen_part(
    folder: Path,
    place: Place,
    plan: Plan[PartT],
    items: Any,
    make: Callable[[MultiViewData], PartT],
) -> None:
    check_seen(folder)
    # A worker runs a task on each of its threads.
    with limit_threads(1):
        make_part(folder, place, plan, items, make)


def check_seen(folder: Path) -> None:
    """Raise ClusterError where a worker does not see the folder that it is to write to."""
    if not folder.is_dir():
        raise ClusterError(
            f"worker {socket.gethostname()} sees no folder {folder}; it must be on a file system "
            "that all workers share, under the same path"
        )


def make_part(
    folder: Path,
    place: Place,
    plan: Plan[PartT],
    items: Any,
    make: Callable[[MultiViewData], PartT],
) -> None:
    """Make one part, unless it is there already; what can be read later is not read for that."""
    if hasattr(items, "read") and is_there(folder, place, plan):
        return
    read = read_items(items)
    if read is None:
        raise InvalidInputError(f"there are no items, but {place.n_rows} when they were counted")
    if not is_there(folder, place, plan, read.ids):
        write_part(folder, place, plan, make(read))


def reporter(progress: Progress | None, total: int | None, what: str) -> Callable[[int], None]:
    """Return a function that tells progress how many items are done."""

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total, f"{done:,} {what}")

    return report
