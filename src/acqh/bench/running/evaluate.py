"""Open data, fit a method on one split and measure it in every direction."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np

from acqh._core.arrays import Array, Floats, Ints, Matrix, is_sparse, slices
from acqh._core.runtime import check_rng
from acqh._core.store import unpack
from acqh.bench.protocol import Split, SplitParts, labels_of
from acqh.data import MultiViewData, list_datasets, load_dataset, read
from acqh.errors import DatasetNotFoundError, InvalidInputError
from acqh.index import CodeIndex
from acqh.index.flat import best_rows
from acqh.methods import BaseMethod
from acqh.methods.baselines.binary import pack_signs
from acqh.methods.collect import fit_feature_maps
from acqh.methods.registry import HOMES, DatabaseMode
from acqh.metrics import RetrievalMetrics, RetrievalResult, relevance

# Column of a row -> cut-off of its average precision.
CUTOFFS: Mapping[str, int | None] = {
    "map_all": None,
    "map_50": 50,
    "map_100": 100,
    "map_5000": 5000,
}
# Items per query in timed searches and stored rankings.
N_RANKED = 1000
# Maximum number of scores of a block of queries.
_BLOCK_VALUES = 1 << 23


@dataclass(frozen=True)
class ResultRow:
    """One method, one split, one direction.

    Attributes
    ----------
    dataset, protocol, method, database, direction : str
        `database` is the kind of database codes: ``"training"`` (training codes, from labels),
        ``"single"`` (out-of-sample codes from the searched view) or ``"fused"`` (out-of-sample
        codes from all views).
    n_components : int
        Length of a query vector.
    bytes_per_item : int
    seed : int
    map_all, map_50, map_100, map_5000 : float
        Mean average precision over the whole ranking and the first 50, 100 and 5,000 items,
        divided by the number of relevant items within the cut-off; ties in expectation.
    fit_seconds, encode_seconds, query_seconds : float
        Time to fit the training set, to encode the database, and to project all queries and
        search their first 1,000 items.
    n_train, n_query, n_database, n_codes : int
        `n_codes` is the number of distinct codes in the database.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, n_labels=3, random_state=0)
    >>> split = acqh.bench.make_split(data, "labelled", seed=0)
    >>> row = evaluate(acqh.methods.get("label-ridge")(), data, split)[0]
    >>> row.direction, row.n_train, row.n_query
    ('image->text', 240, 60)
    """

    dataset: str
    protocol: str
    method: str
    n_components: int
    bytes_per_item: int
    seed: int
    direction: str
    map_all: float
    map_50: float
    map_100: float
    fit_seconds: float
    encode_seconds: float
    query_seconds: float
    n_train: int
    n_query: int
    n_database: int
    map_5000: float
    database: str
    n_codes: int


def evaluate(
    method: BaseMethod, data: MultiViewData, split: Split, *, database: DatabaseMode | None = None
) -> list[ResultRow]:
    """Fit a method on the training rows of a split and measure it in every direction.

    Parameters
    ----------
    method : BaseMethod
        An unfitted method; this function fits it.
    data : MultiViewData
    split : Split
        A split of these data.
    database : {"training", "single", "fused"}, optional
        Kind of database codes: training codes (from labels), or out-of-sample codes from the
        searched view or from all views. Default: that of the method's paper if the database has
        labels, otherwise "single".

    Returns
    -------
    list of ResultRow
        One for each ordered pair of views.

    Raises
    ------
    InvalidInputError
        ``database="training"`` for a database without labels.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, n_labels=3, random_state=0)
    >>> split = acqh.bench.make_split(data, "unlabelled", seed=0)
    >>> rows = evaluate(acqh.methods.get("label-ridge")(), data, split)
    >>> [row.direction for row in rows]
    ['image->text', 'text->image']
    """
    parts = split.parts(data)
    database = check_database(method, parts, database)
    started = time.perf_counter()
    method.fit(parts.train.views, parts.train.labels)
    fit_seconds = time.perf_counter() - started
    return [row for row, *_ in measure(method, split, parts, database, fit_seconds)]


def check_database(
    method: BaseMethod, parts: SplitParts, database: DatabaseMode | None
) -> DatabaseMode:
    """Return the kind of database codes: the requested one, or the default of the protocol."""
    if database is None:
        database = method.info.modes[0] if parts.database.labels is not None else "single"
    if database not in get_args(DatabaseMode):
        raise InvalidInputError(f"database must be training, single or fused, got {database!r}")
    if database == "training" and parts.database.labels is None:
        raise InvalidInputError(
            "database='training' needs labels, which this protocol hides; use 'single' or 'fused'"
        )
    return database


def measure(
    method: BaseMethod,
    split: Split,
    parts: SplitParts,
    database: DatabaseMode,
    fit_seconds: float,
    *,
    top_n: Sequence[int] = (),
    curve: bool = False,
    n_threads: int | None = None,
) -> list[tuple[ResultRow, RetrievalResult, Ints]]:
    """Measure a fitted method in every direction.

    `method`: fitted on the training part. `parts`: of this split. `fit_seconds`: copied to the
    rows. `top_n`: ranks at which to measure precision. `curve`: whether to measure precision and
    recall at every rank. `n_threads`: threads of a search, by default one per core.

    Returns for each ordered pair of views its row, its metrics, and the first items of every
    query, int64 (n_query, n_listed), as row numbers of the data. Equal scores are ordered by row.
    """
    encoded: dict[str, tuple[Any, ...]] = {}
    measured = []
    for query_view, searched in permutations(parts.query.views, 2):
        # Fused codes serve every direction.
        source = "" if database == "fused" else searched
        if source not in encoded:
            started = time.perf_counter()
            codes = _encode(method, parts.database, database, searched)
            seconds, search = time.perf_counter() - started, _searcher(method, codes, n_threads)
            encoded[source] = seconds, search, *np.unique(codes, axis=0, return_inverse=True)
        encode_seconds, search, distinct, inverse = encoded[source]
        started = time.perf_counter()
        queries = method.embed_queries(parts.query.views[query_view], view=query_view)
        ranking = search(queries)
        query_seconds = time.perf_counter() - started
        scores = queries, method.decode(distinct).T, inverse.ravel()
        result = _score(parts, *scores, top_n, curve)
        row = ResultRow(
            dataset=split.dataset,
            protocol=split.protocol,
            method=method.info.name,
            database=database,
            n_components=int(queries.shape[1]),
            bytes_per_item=method.bytes_per_item,
            seed=split.seed,
            direction=f"{query_view}->{searched}",
            **{name: result.mean_average_precision[cutoff] for name, cutoff in CUTOFFS.items()},
            fit_seconds=fit_seconds,
            encode_seconds=encode_seconds,
            query_seconds=query_seconds,
            n_train=len(split.train),
            n_query=len(split.query),
            n_database=len(split.database),
            n_codes=len(distinct),
        )
        measured.append((row, result, split.database[ranking]))
    return measured


def _encode(method: BaseMethod, items: MultiViewData, database: DatabaseMode, view: str) -> Array:
    if database == "training":
        return method.encode({view: items.views[view]}, labels=items.labels, mode="training")
    views = dict(items.views) if database == "fused" else {view: items.views[view]}
    return method.encode(views, mode=database)


def _searcher(method: BaseMethod, codes: Array, n_threads: int | None) -> Callable[[Floats], Ints]:
    """Return a function that finds the first items of embedded queries, with an index if any."""
    k = min(N_RANKED, len(codes))
    codebooks = getattr(method, "codebooks_", None)
    if method.info.code == "binary":
        from acqh.index import HammingIndex

        bits = HammingIndex(method.decode(codes[:1]).shape[1]).add(codes)
        return lambda queries: bits.search(pack_signs(queries), k, n_threads=n_threads).ids
    if method.info.code == "additive" and codebooks is not None:
        words = CodeIndex(codebooks).add(codes)
        return lambda queries: words.search(queries, k, n_threads=n_threads).ids
    vectors = method.decode(codes).T
    return lambda queries: np.stack([best_rows(query @ vectors, k) for query in queries])


def _score(
    parts: SplitParts,
    queries: Floats,
    vectors: Floats,
    inverse: Ints,
    top_n: Sequence[int],
    curve: bool,
) -> RetrievalResult:
    """Return the metrics of all queries from the scores of all items, with ties in expectation.

    `vectors`: of the distinct codes, (n_components, n_codes). `inverse`: the code of each item.
    Scores each distinct code once, because matrix products round by position: equal codes must
    have identical scores.
    """
    labels: Matrix = parts.query.labels
    metrics = RetrievalMetrics(tuple(CUTOFFS.values()), top_n=top_n, curve=curve)
    step = max(1, _BLOCK_VALUES // max(1, len(inverse)))
    for rows in slices(len(queries), step):
        scores = np.asarray(queries[rows] @ vectors, dtype=np.float32)
        relevant = relevance(labels[rows], parts.database_labels)
        metrics.update(np.take(scores, inverse, axis=1), relevant)
    return metrics.result()


@dataclass(frozen=True, eq=False)
class BenchData:
    """Data set of a run, with its checksum and preprocessing."""

    data: MultiViewData
    sha256: str  # of the contents, independent of the file format
    # Stored feature maps by view.
    preparation: Mapping[str, Any]


def open_data(argument: str, data_dir: str | PathLike[str] | None = None) -> BenchData:
    """Load a data set by name, or a file.

    Parameters
    ----------
    argument : str
        A name of `acqh.list_datasets`, optionally with options, such as
        ``"mirflickr25k:features=deep"``; or the path of a file for `acqh.data.read`. A file of a
        named data set is loaded as that data set.
    data_dir : path, optional
        Folder with the files of named data sets. Default: ``ACQH_DATA``.

    Raises
    ------
    DatasetNotFoundError
        The argument is neither a data set nor a file.
    LabelError
        The data have no labels.

    Examples
    --------
    >>> open_data("nowhere.npz")
    Traceback (most recent call last):
        ...
    acqh.errors.DatasetNotFoundError: 'nowhere.npz' is neither a file nor a data set...
    """
    name, options = _split_options(argument)
    infos = {info.name: info for info in list_datasets(data_dir)}
    path = Path(argument).expanduser()
    if name not in infos and path.exists():
        # A file of a named data set has that data set's labels and preparation.
        named = [info.name for info in infos.values() if path.name in info.files]
        if not named:
            return of_memory(read(path))
        name, options, data_dir = named[0], {}, path.parent
    if name not in infos:
        raise DatasetNotFoundError(
            f"{argument!r} is neither a file nor a data set; choose one of "
            f"{', '.join(sorted(infos))}, or an existing file"
        )
    return of_memory(load_dataset(name, data_dir, **options), infos[name].preparation)


def _split_options(argument: str) -> tuple[str, dict[str, Any]]:
    name, _, text = argument.partition(":")
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    truths = {"true": True, "false": False}
    return name, {key: truths.get(value.lower(), value) for key, _, value in pairs}


def of_memory(data: MultiViewData, preparation: Mapping[str, Any] | None = None) -> BenchData:
    """Return loaded data as BenchData; raise LabelError for data without labels."""
    labels_of(data)
    return BenchData(data, hash_contents(data), preparation or {})


def hash_contents(data: MultiViewData) -> str:
    """Return the sha256 of the views, labels, ids and official split."""
    digest = hashlib.sha256()

    def add(name: str, array: Any) -> None:
        array = np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        # Text has no one dtype: the same ids may lie in wider or narrower fields.
        digest.update(
            "\n".join(map(str, array.tolist())).encode()
            if array.dtype.kind in "OUS"
            else array.tobytes()
        )

    def add_matrix(name: str, matrix: Any) -> None:
        if not is_sparse(matrix):
            add(name, matrix)
            return
        for array in ("data", "indices", "indptr"):
            add(f"{name} {array}", getattr(matrix, array))

    for name in sorted(data.views):
        add_matrix(f"view {name} {data.views[name].shape}", data.views[name])
        add(f"present {name}", data.present[name])
    add_matrix("labels", data.labels)
    add("ids", data.ids.astype(str))
    for name in sorted(data.splits):
        add(f"split {name}", data.splits[name])
    return digest.hexdigest()


def prepare(source: BenchData, split: Split) -> MultiViewData:
    """Return all items with preprocessed views; feature maps are fitted on training rows.

    Every method starts from the same features, and no fit time includes the preprocessing.
    """
    if not source.preparation:
        return source.data
    maps = {view: unpack(dict(stored), {}, HOMES) for view, stored in source.preparation.items()}
    train = source.data.subset(split.train)
    fitted = fit_feature_maps(maps, train, rng=check_rng(split.seed))
    return source.data.with_views(
        {
            view: feature_map.transform(source.data.views[view])
            for view, feature_map in fitted.items()
        }
    )
