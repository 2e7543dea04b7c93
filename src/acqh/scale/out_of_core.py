"""Fit models to data larger than memory, in one process or on a cluster."""

from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError
from acqh.methods import BaseMethod
from acqh.methods.collect import MappedStatistics, add_part
from acqh.scale.chunks import chunk_source, device_argument
from acqh.stats import Statistics

Method = TypeVar("Method", bound=BaseMethod)


def fit(
    model: Method,
    source: Any,
    *,
    chunk_size: int = 65_536,
    device: str | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Method:
    """Fit a model to a source in one pass, a chunk at a time.

    Parameters
    ----------
    model : BaseMethod
        Its `fit` accepts chunks, as `acqh.ACQH`; with a client, it needs sufficient statistics.
    source : path-like, sequence of path-like, MultiViewData, or iterable of MultiViewData
        A path for `acqh.data.list_chunks`, Parquet files, or chunks. With a client, paths or
        chunks of `list_chunks`.
    chunk_size : int, default 65,536
        Items of a chunk; ignored if the source consists of chunks.
    device : str, optional
        Torch device for training, such as ``"cuda"``; not with a client.
    client : distributed.Client, optional
        Its workers read the source; they must see the files under the same paths.
    progress : callable, optional
        Called after each chunk with the number of items done, their number (None: not known), and
        a text.

    Returns
    -------
    BaseMethod
        The fitted model.

    Raises
    ------
    InvalidInputError
        A source that workers cannot read, or a model without sufficient statistics.
    LabelError, ViewError
        From `fit` of the model.
    DeviceError
        The device is not available.
    ClusterError
        The cluster failed or was lost.

    Notes
    -----
    Workers send sufficient statistics, which are merged in a fixed order. Their size depends on the
    square of the number of features and on the number of distinct label sets. Feature maps are
    fitted on the first chunk.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> fit(acqh.ACQH(8, n_codebooks=2, random_state=0), data, chunk_size=20).stats_.n_items
    50
    """
    on_device = device_argument(model.fit, device, client)
    if client is None:
        chunked = chunk_source(source, chunk_size, progress=progress)
        return model.fit(chunked.map(_items, "items read"), **on_device)
    if not (hasattr(model, "fit_stats") and hasattr(model, "_fit_schema")):
        raise InvalidInputError(
            f"{type(model).__name__} has no sufficient statistics for a cluster; fit it without a "
            "client"
        )
    chunked = chunk_source(source, chunk_size, client, progress)
    executor: Any = chunked.dask
    chunks = list(chunked.chunks)

    def report(chunk: Any) -> None:
        chunked.report("items read", len(chunk))

    # Feature maps are fitted once, on the first chunk: another fit could differ.
    ((_, mapped),) = executor.map(partial(_begin, model), [(chunks[0], None)])
    report(chunks[0])
    if chunks[1:]:
        empty = replace(mapped, statistics=mapped.empty_statistics())  # workers need only the maps
        rest = executor.reduce(partial(_sum, empty), chunks[1:], _merge, report)
        mapped = replace(mapped, statistics=mapped.statistics + rest)
    model.fit_stats(mapped)
    return model


def _items(items: MultiViewData, _: None) -> MultiViewData:
    return items


def _begin(model: Any, items: MultiViewData, _: None) -> MappedStatistics:
    """Fit the feature maps on the first chunk, and collect its statistics."""
    mapped: MappedStatistics = model._fit_schema(items)
    return replace(mapped, statistics=_sum(mapped, items, None), held_out={})


def _sum(mapped: MappedStatistics, items: MultiViewData, _: None) -> Statistics:
    statistics = mapped.empty_statistics()
    add_part(items, mapped, statistics)
    return statistics


def _merge(parts: list[Statistics]) -> Statistics:
    return sum(parts[1:], start=parts[0])
