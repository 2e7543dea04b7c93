"""Running the steps on the workers of a Dask cluster; the only place that knows Dask.

What travels is small: tasks name files and rows, models and sums are a few megabytes, and workers
write what is large. Dask runs a task again when its worker dies, so a task must change nothing
when it is run twice.
"""

from acqh.scale._dask._chunks import (
    Chunk,
    DaskViews,
    count_rows,
    counter,
    is_dask_source,
    list_chunks,
    read_items,
)
from acqh.scale._dask._cluster import check_workers, connect, list_workers
from acqh.scale._dask._tasks import call, carry, compute, near, slim, tree

__all__ = [
    "Chunk",
    "DaskViews",
    "call",
    "carry",
    "check_workers",
    "compute",
    "connect",
    "count_rows",
    "counter",
    "is_dask_source",
    "list_chunks",
    "list_workers",
    "near",
    "read_items",
    "slim",
    "tree",
]
