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
# Items that a search is timed for, and that are stored, per query.
N_RANKED = 1000
# Scores of a block of queries are kept under this many values.
_BLOCK_VALUES = 1 << 23


@dataclass(frozen=True)
class ResultRow:
    """One method, one split, one direction.

    Attributes
    ----------
    dataset, protocol, method, database, direction : str
        `database` says what items were coded from: ``"learnt"`` (labels), ``"hashed"`` (the
        view that is searched) or ``"unified"`` (all views).
    n_components : int
        Length of a query vector.
    bytes_per_item : int
    seed : int
    map_all, map_50, map_100, map_5000 : float
        Mean average precision over the whole ranking and the first 50, 100 and 5,000 items;
        over the number of relevant items within the cut-off, ties in expectation.
    fit_seconds, encode_seconds, query_seconds : float
        For the whole training set, the whole database, and all queries: their projection, and
        the search for the first 1,000 items by the index.
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
        Fitted here; give a fresh one.
    data : MultiViewData
    split : Split
        Of these data.
    database : {"learnt", "hashed", "unified"}, optional
        What database items are coded from. By default, where the protocol gives their labels,
        the way of the method's own paper; elsewhere the searched view alone.

    Returns
    -------
    list of ResultRow
        One for each ordered pair of views.

    Raises
    ------
    InvalidInputError
        Labels are asked of a database that has none.

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
    """Return what database items are coded from: as asked, or as is usual for the protocol."""
    if database is None:
        database = method.info.modes[0] if parts.database.labels is not None else "hashed"
    if database not in get_args(DatabaseMode):
        raise InvalidInputError(f"database must be learnt, hashed or unified, not {database!r}")
    if database == "learnt" and parts.database.labels is None:
        raise InvalidInputError(
            "this protocol hides the labels of the database: use database='hashed' or 'unified'"
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

    `method`: fitted on the training part. `parts`: of this split. `fit_seconds`: noted in the
    rows. `top_n`: where to measure precision. `curve`: whether to measure precision and recall at
    every rank. `n_threads`: of a search; one per core by default.

    Gives for each ordered pair of views its row, the metrics it was made from, and the first items
    of every query, int64 (n_query, n_listed), as rows of the data; of equal scores, the first row
    comes first.
    """
    encoded: dict[str, tuple[Any, ...]] = {}
    measured = []
    for query_view, searched in permutations(parts.query.views, 2):
        # One code of all views serves every direction.
        source = "" if database == "unified" else searched
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
    if database == "learnt":
        return method.encode({view: items.views[view]}, labels=items.labels, mode="learnt")
    views = dict(items.views) if database == "unified" else {view: items.views[view]}
    return method.encode(views, mode=database)


def _searcher(method: BaseMethod, codes: Array, n_threads: int | None) -> Callable[[Floats], Ints]:
    """Return what finds the first items of embedded queries: the index, for codes it can hold."""
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
    """Return the metrics of all queries, from the scores of all items: ties are expectations.

    `vectors`: of the distinct codes, (n_components, n_codes). `inverse`: the code of each item.
    Equal codes get equal scores to the last bit, which a product with all items would not promise:
    matrix products round by position.
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
    """Data to run methods on."""

    data: MultiViewData
    sha256: str  # of the contents, whatever file they came from
    # Feature maps by view, as they are stored.
    preparation: Mapping[str, Any]


def open_data(argument: str, data_dir: str | PathLike[str] | None = None) -> BenchData:
    """Load what a person named: a data set, or a file.

    Parameters
    ----------
    argument : str
        A name of `acqh.list_datasets`, if need be with options, such as
        ``"mirflickr25k:features=deep"``; or the path of a file that `acqh.data.read` reads. A
        file of a named data set is that data set.
    data_dir : path, optional
        Folder with the files of named data sets; ``ACQH_DATA`` by default.

    Raises
    ------
    DatasetNotFoundError
        It is neither.
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
    known = {info.name: info for info in list_datasets(data_dir)}
    path = Path(argument).expanduser()
    if name not in known and path.exists():
        # A file of a named data set is loaded as that, with its own labels and preparation.
        named = [info.name for info in known.values() if path.name in info.files]
        if not named:
            return of_memory(read(path))
        name, options, data_dir = named[0], {}, path.parent
    if name not in known:
        raise DatasetNotFoundError(
            f"{argument!r} is neither a file nor a data set; data sets are "
            f"{', '.join(sorted(known))}"
        )
    return of_memory(load_dataset(name, data_dir, **options), known[name].preparation)


def _split_options(argument: str) -> tuple[str, dict[str, Any]]:
    name, _, given = argument.partition(":")
    pairs = (pair.partition("=") for pair in given.split(",") if pair)
    truths = {"true": True, "false": False}
    return name, {key: truths.get(value.lower(), value) for key, _, value in pairs}


def of_memory(data: MultiViewData, preparation: Mapping[str, Any] | None = None) -> BenchData:
    """Return data that are loaded already.

    Raises LabelError: they have no labels.
    """
    labels_of(data)
    return BenchData(data, hash_contents(data), preparation or {})


def hash_contents(data: MultiViewData) -> str:
    """Return the sha256 of all that a run depends on: views, labels, ids, official split."""
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
        for piece in ("data", "indices", "indptr"):
            add(f"{name} {piece}", getattr(matrix, piece))

    for name in sorted(data.views):
        add_matrix(f"view {name} {data.views[name].shape}", data.views[name])
        add(f"present {name}", data.present[name])
    add_matrix("labels", data.labels)
    add("ids", data.ids.astype(str))
    for name in sorted(data.splits):
        add(f"split {name}", data.splits[name])
    return digest.hexdigest()


def prepare(source: BenchData, split: Split) -> MultiViewData:
    """Return all items with their views prepared; what there is to fit is fitted on training rows.

    Every method then starts from the same features, and no fit time includes preparing them.
    """
    if not source.preparation:
        return source.data
    maps = {
        view: unpack(dict(described), {}, HOMES) for view, described in source.preparation.items()
    }
    train = source.data.subset(split.train)
    fitted = fit_feature_maps(maps, train, rng=check_rng(split.seed))
    return source.data.with_views(
        {view: made.transform(source.data.views[view]) for view, made in fitted.items()}
    )
