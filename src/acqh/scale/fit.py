"""Learning from more than fits in memory, here or on a cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from acqh._core.arrays import check_positive_int
from acqh._core.runtime import Progress
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError
from acqh.methods import BaseMethod
from acqh.methods.collect import MappedStatistics, Needs, add_part, describe
from acqh.scale.chunks import Chunk, counter, read_items
from acqh.scale.make_parts import reporter
from acqh.scale.sources import CutSource, cut_on, cut_source
from acqh.scale.workers import call, carry, compute, tree
from acqh.stats import Statistics

Method = TypeVar("Method", bound=BaseMethod)


def fit(
    model: Method,
    source: Any,
    *,
    chunk_size: int = 65_536,
    client: Any = None,
    progress: Progress | None = None,
) -> Method:
    """Learn from a source in one pass, a chunk at a time.

    Parameters
    ----------
    model : BaseMethod
        Whose `fit` takes chunks, such as `acqh.ACQH`; with a client, one that is learnt from sums.
    source : path-like, sequence of path-like, MultiViewData, or iterable of MultiViewData
        A path that `acqh.data.list_pieces` takes, or Parquet files; or the chunks. With a client
        paths, pieces, `DaskViews`, or a ``dask.bag`` of MultiViewData.
    chunk_size : int, default 65,536
        Items of a chunk; not used where the source comes in chunks.
    client : distributed.Client, optional
        Whose workers read the source; they must see the files under the same paths.
    progress : callable, optional
        Called after each chunk with the number of items done, their number (None: not known), and
        a text.

    Returns
    -------
    BaseMethod
        The model, fitted.

    Raises
    ------
    InvalidInputError
        A source that cannot be read so, or a model that cannot be learnt from sums.
    LabelError, ViewError
        As `fit` of the model does.
    ClusterError
        The cluster cannot do the work, or has lost it.

    Notes
    -----
    Workers send sums, which are merged a few at a time in an order that is always the same: the
    square of the number of features and the number of distinct label sets decide their size.
    Feature maps are fitted on the first chunk.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(50, random_state=0)
    >>> fit(acqh.ACQH(8, n_codebooks=2, random_state=0), data, chunk_size=20).stats_.n_items
    50
    """
    check_positive_int(chunk_size, "chunk_size")
    if client is None:
        return model.fit(_counted(cut_source(source, chunk_size), progress))
    if not (hasattr(model, "fit_stats") and hasattr(model, "wanted")):
        raise InvalidInputError(
            f"{type(model).__name__} is not learnt from sums, so workers cannot share the work; "
            "fit it without a client"
        )
    _, chunks = cut_on(client, source, chunk_size, counted=False)
    # Workers map rows as they are, so kernel maps learn no targets here: none could be left out.
    asked = _Asked(model.feature_maps, replace(model.wanted(), respond=None))
    model.fit_stats(_collect(client, chunks, asked, progress))
    return model


def _counted(source: CutSource, progress: Progress | None) -> Iterator[MultiViewData]:
    report = reporter(progress, source.n_items, "items read")
    done = 0
    for chunk in source.read():
        n_rows = len(chunk)
        yield chunk
        # The next chunk is read when this one is gone.
        del chunk
        done += n_rows
        report(done)


class _Asked(NamedTuple):
    """What a model asks of the data: feature maps, and what is to be kept."""

    feature_maps: Any
    needs: Callable[[MultiViewData], Needs]


def _collect(
    client: Any, chunks: Sequence[Chunk], asked: _Asked, progress: Progress | None
) -> MappedStatistics:
    """Sum over all chunks on the workers."""
    names = [chunk.name for chunk in chunks]
    described = _describe_first(client, chunks, asked)
    # Sent again where a worker is lost: a feature map fitted again could come out another.
    carried = carry(described)
    sums = [call(_sum)(carried, chunk.items) for chunk in chunks]
    total = compute(
        client, sums, names, result=tree(_merge, sums), done=counter(chunks, progress, "read")
    )
    if total is None or total.n_items == 0:
        raise LabelError("no item has a label, so there is nothing to learn from")
    return replace(described.known, statistics=total)


class _Description(NamedTuple):
    """What all chunks must be like, and the widths of their mapped views.

    The statistics of `known` are of no views: zeros for all products of features would be large.
    """

    known: MappedStatistics
    widths: dict[str, int]


def _describe_first(client: Any, chunks: Sequence[Chunk], asked: _Asked) -> _Description:
    """Fit the feature maps on the first chunk that has items."""
    for chunk in chunks:
        task = call(_describe)(chunk.items, carry(asked))
        found: _Description | None = compute(client, [task], [chunk.name], result=task)
        if found is not None:
            return found
    raise LabelError("there are no items to learn from")


def _describe(items: Any, asked: _Asked) -> _Description | None:
    part = read_items(items)
    if part is None:
        return None
    known = describe(part, asked.feature_maps, asked.needs)
    widths = {view: sums.n_features for view, sums in known.statistics.views.items()}
    nothing = Statistics({}, len(known.label_names), known.statistics.keep)
    return _Description(replace(known, statistics=nothing), widths)


def _sum(described: _Description, items: Any) -> Statistics | None:
    part = read_items(items)
    if part is None:
        return None
    nothing = described.known.statistics
    sums = Statistics(described.widths, nothing.n_labels, nothing.keep)
    add_part(part, described.known, sums)
    return sums


def _merge(parts: list[Statistics | None]) -> Statistics | None:
    some = [part for part in parts if part is not None]
    return sum(some[1:], start=some[0]) if some else None
