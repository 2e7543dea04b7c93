"""How a collection grows: build rate, size, time to open, to answer and to add.

Items come from features that are given, so that neither images nor encoders are measured.
Prints one JSON line. Times of searches are of whole calls: the query's vector, the search of the
index, and the reading of ten items from SQLite.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import acqh
from acqh.collection import Collection
from acqh.collection.verify import verify_collection
from benchmarks._measure import emit, seconds, timed

N_ITEMS = 50_000
FULL_ITEMS = 1_000_000
WIDTHS = {"image": 64, "text": 48}
N_LABELS = 24
N_ADDED = 1_000
N_WORDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--full", action="store_true", help=f"{FULL_ITEMS:,} items")
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args()
    n_items = FULL_ITEMS if arguments.full else arguments.items
    data = make_data(n_items + N_ADDED)
    folder = Path(tempfile.mkdtemp())
    try:
        figures = measure(data, n_items, folder / "items.acqh", arguments.queries)
    finally:
        shutil.rmtree(folder)
    emit({"benchmark": "collection", **figures})


def make_data(n_items: int) -> acqh.MultiViewData:
    data = acqh.make_multiview(
        n_items, WIDTHS, n_labels=N_LABELS, single_label=False, random_state=0
    )
    names = [f"label{number}" for number in range(N_LABELS)]
    years = np.random.default_rng(0).integers(2000, 2020, n_items)
    texts = np.array([f"item number {number}" for number in range(n_items)], dtype=object)
    return acqh.MultiViewData(
        data.views, data.labels, label_names=names, items={"text": texts, "year": years}
    )


def measure(data: acqh.MultiViewData, n_items: int, path: Path, n_queries: int) -> dict[str, Any]:
    first = data.subset(range(n_items))
    built = seconds(lambda: Collection.build(first, path).close())
    # What is compiled has been loaded by the build; opening is what a running service does.
    opening = seconds(lambda: Collection.open(path).close(), 3)
    verified, report = timed(lambda: verify_collection(path))
    assert report.ok, report.problems
    with Collection.open(path) as collection:
        info = collection.info()
        views = [{"image": row} for row in data.views["image"][:n_queries]]
        new = data.subset(range(n_items, n_items + N_ADDED))
        added = seconds(lambda: collection.add(new))
        searches = {
            "search": times_of(collection, views),
            "search_by_item": times_of(collection, [{"item": str(i)} for i in range(n_queries)]),
            "search_in_label": times_of(collection, views, where={"label": "label3"}),
            "search_in_year": times_of(collection, views, where={"year": 2007}),
            "search_word_of_all": times_of(collection, [{"text": "item"}] * N_WORDS),
            "search_word_of_all_but_one": times_of(collection, [{"text": "item -7"}] * N_WORDS),
        }
    return {
        "n_items": n_items,
        "build_seconds": round(built, 2),
        "items_per_second": round(n_items / built),
        "bytes_on_disk_per_item": round(info.size_on_disk / n_items, 1),
        "bytes_of_index_per_item": round(info.bytes_per_item, 2),
        "open_milliseconds": round(1e3 * opening, 2),
        "verify_seconds": round(verified, 2),
        "add_milliseconds_per_item": round(1e3 * added / N_ADDED, 3),
        **searches,
        "all_but_one_over_all": round(
            searches["search_word_of_all_but_one"]["p50"] / searches["search_word_of_all"]["p50"], 2
        ),
    }


def times_of(
    collection: Collection, queries: Iterable[dict[str, Any]], where: Any = None
) -> dict[str, float]:
    """Return milliseconds of whole calls; the first with a new filter has to read it."""
    totals = []
    for query in queries:
        arguments = query if query.keys() & {"item", "text"} else {"vector": query}
        mode = "keyword" if "text" in arguments else "hybrid"
        totals.append(
            1e3 * seconds(partial(collection.search, **arguments, where=where, mode=mode))
        )
    median, tail = np.percentile(totals[1:], [50, 99])
    return {"first": round(totals[0], 2), "p50": round(median, 3), "p99": round(tail, 3)}


if __name__ == "__main__":
    main()
