"""Making the parts of a folder, here or on a cluster: those that are not there yet."""

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from acqh._core.runtime import Progress, limit_threads
from acqh.data import MultiViewData, Piece, read_pieces
from acqh.errors import ClusterError, InvalidInputError
from acqh.scale.chunks import Chunk, read_items
from acqh.scale.part_folder import PartFolder, PartT, Place, places
from acqh.scale.workers import call, carry, compute


def make_parts(
    folder: PartFolder[PartT],
    source: Sequence[Piece] | Iterable[MultiViewData],
    make: Callable[[MultiViewData], PartT],
    report: Callable[[int], None],
) -> None:
    """Make the parts that are not there yet, one after the other.

    `source`: pieces whose part is there are not read. `make`: from the items of a part to the part.
    `report`: called with the number of items done after each part.
    """
    folder.begin()
    if isinstance(source, Sequence):
        n_items, n_parts = _make_of_pieces(folder, source, make, report)
    else:
        n_items = n_parts = 0
        for items in source:
            place = Place(n_parts, n_items, len(items))
            _make_part(folder, place, items, make)
            # Not to be kept while the next ones are read.
            del items
            n_items, n_parts = n_items + place.n_rows, n_parts + 1
            report(n_items)
    folder.finish(n_items, n_parts)


def _make_of_pieces(
    folder: PartFolder[PartT],
    pieces: Sequence[Piece],
    make: Callable[[MultiViewData], PartT],
    report: Callable[[int], None],
) -> tuple[int, int]:
    every = list(zip(pieces, places(map(len, pieces)), strict=True))
    missing = [(piece, place) for piece, place in every if not folder.is_there(place)]
    n_items = sum(map(len, pieces))
    done = n_items - sum(len(piece) for piece, _ in missing)
    if done:
        report(done)
    with closing(read_pieces((piece for piece, _ in missing), ahead=True)) as reader:
        for _, place in missing:
            # The items have no name here: others can be read when these are gone.
            folder.write(place, make(next(reader)))
            done += place.n_rows
            report(done)
    return n_items, len(every)


def make_parts_on(
    client: Any,
    folder: PartFolder[PartT],
    chunks: Sequence[Chunk],
    make: Callable[[MultiViewData], PartT],
    done: Callable[[int], None],
) -> None:
    """Have the workers of a cluster make the parts that are not there yet.

    `folder`: seen by all workers. `chunks`: with their numbers of rows. `make`: from the items of a
    part to the part; it is sent to the workers. `done`: called with the number of each part that is
    done.
    """
    folder.begin()
    sizes = [chunk.n_rows or 0 for chunk in chunks]
    carried = carry(make)
    tasks = [
        call(_make_seen_part)(folder, place, chunk.items, carried)
        for chunk, place in zip(chunks, places(sizes), strict=True)
    ]
    compute(client, tasks, [chunk.name for chunk in chunks], done=done)
    folder.finish(sum(sizes), len(sizes))


def _make_seen_part(
    folder: PartFolder[PartT], place: Place, items: Any, make: Callable[[MultiViewData], PartT]
) -> None:
    check_seen(folder.path)
    # A worker runs a task on each of its threads.
    with limit_threads(1):
        _make_part(folder, place, items, make)


def check_seen(folder: Path) -> None:
    """Raise ClusterError where a worker does not see the folder that it is to write to."""
    if not folder.is_dir():
        raise ClusterError(
            f"worker {socket.gethostname()} sees no folder {folder}; it must be on a file system "
            "that all workers share, under the same path"
        )


def _make_part(
    folder: PartFolder[PartT], place: Place, items: Any, make: Callable[[MultiViewData], PartT]
) -> None:
    read = read_missing(folder, place, items)
    if read is not None:
        folder.write(place, make(read))


def read_missing(folder: PartFolder[PartT], place: Place, items: Any) -> MultiViewData | None:
    """Return the items of a part, None where it is there; then what can be read later is not."""
    if hasattr(items, "read") and folder.is_there(place):
        return None
    read = read_items(items)
    if read is None:
        raise InvalidInputError(f"there are no items, but {place.n_rows} when they were counted")
    return None if folder.is_there(place, read.ids) else read


def reporter(progress: Progress | None, total: int | None, what: str) -> Callable[[int], None]:
    """Return a function that tells progress how many items are done."""

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total, f"{done:,} {what}")

    return report
