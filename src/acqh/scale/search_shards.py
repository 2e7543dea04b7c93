"""Searching shards on the workers of a cluster: every chunk of queries, every shard, a task."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acqh.data import MultiViewData
from acqh.index import CodeIndex, SearchResult
from acqh.scale.chunks import Chunk
from acqh.scale.cluster import list_workers
from acqh.scale.make_parts import check_seen, read_missing
from acqh.scale.part_folder import PartFolder, Place, places
from acqh.scale.search_parts import SearchPart, SearchPlan
from acqh.scale.vectors import Rows, check_view, only_view
from acqh.scale.workers import call, carry, compute, near


def project_chunk(model: Any, queries: MultiViewData, view: str) -> Rows:
    """Turn queries into vectors by one of their views; raises as `search_chunk`.

    Without a model they are vectors of the index's own space; an empty name takes the only view.
    """
    if model is None:
        return only_view(queries, view or None, "queries")
    check_view(queries, view, "queries")
    return Rows(model.project(queries.views[view], view=view), queries.ids)


def search_on(
    client: Any,
    path: Path,
    plan: SearchPlan,
    chunks: Sequence[Chunk],
    model: Any,
    shards: Sequence[Path],
    done: Callable[[int], None],
) -> None:
    """Have the workers of a cluster write the answers that are not there yet.

    `path`: the folder, seen by all workers. `chunks`: the queries, with their numbers of rows.
    `model`: sent to the workers. `shards`: indexes with items, seen by all workers. `done`: called
    with the number of each part that is done.

    Notes
    -----
    A shard has a worker of its own where there are at least as many shards as workers: what it
    has read of the shard stays in its memory. Another one searches it if that worker is gone or
    has too much to do.
    """
    folder = PartFolder(path, plan)
    folder.begin()
    workers = list_workers(client)
    homes = [
        workers[number % len(workers)] if len(shards) >= len(workers) else None
        for number in range(len(shards))
    ]
    carried = carry(model)
    sizes = [chunk.n_rows or 0 for chunk in chunks]
    tasks = []
    for chunk, place in zip(chunks, places(sizes), strict=True):
        queries = call(_project)(carried, chunk.items, place, folder, plan.view)
        found = []
        for shard, home in zip(shards, homes, strict=True):
            with near(home):
                found.append(call(_search)(shard, queries, plan.k))
        tasks.append(call(_write)(queries, found, place, folder, plan.k))
    compute(client, tasks, [chunk.name for chunk in chunks], done=done)
    folder.finish(sum(sizes), len(sizes))


def _project(
    model: Any, items: Any, place: Place, folder: PartFolder[SearchPart], view: str
) -> Rows | None:
    """Return the queries of a part; None where their answers are there already."""
    check_seen(folder.path)
    read = read_missing(folder, place, items)
    return None if read is None else project_chunk(model, read, view)


def _search(shard: Path, queries: Rows | None, k: int) -> SearchResult | None:
    if queries is None:
        return None
    # A worker runs a task on each of its threads.
    return CodeIndex.load(shard).search(queries.vectors, k, n_threads=1)


def _write(
    queries: Rows | None, found: list[Any], place: Place, folder: PartFolder[SearchPart], k: int
) -> None:
    if queries is not None:
        best = SearchResult.merge(found, k)
        folder.write(place, SearchPart(queries.ids, best.ids, best.scores, best.counts))
