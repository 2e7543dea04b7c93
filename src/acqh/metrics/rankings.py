"""Relevance of items, and rankings as every metric needs them: blocks of tied items, best first."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, Matrix, check_positive_int, is_sparse, slices
from acqh._core.labels import as_label_matrix
from acqh.errors import InvalidInputError, LabelError
from acqh.metrics.compiled import argsort_keys, fill_keys, fill_tie_blocks

Kind: TypeAlias = Literal["scores", "distances", "ranking"]
Ties: TypeAlias = Literal["expected", "stable"]
Denominator: TypeAlias = Literal["hits", "cutoff", "all"]
Empty: TypeAlias = Literal["skip", "zero"]

# Item numbers are kept as int32 while sorting.
MAX_DATABASE = 2**31 - 1


def check_choice(value: Any, choices: Any, name: str) -> None:
    """Raise InvalidInputError unless the value is one of a ``Literal`` type's."""
    allowed = get_args(choices)
    if value not in allowed:
        shown = ", ".join(repr(choice) for choice in allowed)
        raise InvalidInputError(f"{name} must be one of {shown}, got {value!r}")


def check_cutoff(cutoff: Any, n_database: int) -> int:
    """Return the cut-off as a number of places; None or too large means the whole database."""
    if cutoff is None:
        return n_database
    return min(check_positive_int(cutoff, "cutoff"), n_database)


def check_block(scores: Any, relevant: Any, kind: Kind) -> tuple[Array, Bools]:
    """Check that scores and relevance fit each other; make both 2-d.

    `scores`: (n_queries, n_database) or (n_database,); a ranking may have fewer columns.
    `relevant`: (n_queries, n_database) or (n_database,). Gives both as (n_queries, ...). Raises
    InvalidInputError: wrong shapes, no queries, no items, NaN, not a ranking, or relevance that is
    not 0 or 1.
    """
    check_choice(kind, Kind, "kind")
    if is_sparse(scores) or is_sparse(relevant):
        raise InvalidInputError("scores and relevant must be dense; give blocks of queries")
    scores, relevant = np.asarray(scores), np.asarray(relevant)
    if scores.ndim not in (1, 2) or relevant.ndim != scores.ndim:
        raise InvalidInputError(
            f"{kind} have {scores.ndim} dimensions and relevant {relevant.ndim}; "
            "give both as (queries, items), or both as (items,) for one query"
        )
    scores, relevant = np.atleast_2d(scores), np.atleast_2d(relevant)
    if 0 in scores.shape or 0 in relevant.shape:
        raise InvalidInputError(
            f"no queries or no items: {kind} have shape {scores.shape}, relevant {relevant.shape}"
        )
    n_equal = 1 if kind == "ranking" else 2
    if scores.shape[:n_equal] != relevant.shape[:n_equal]:
        raise InvalidInputError(
            f"{kind} have shape {scores.shape}, relevant {relevant.shape}; they must be the same"
        )
    if relevant.shape[1] > MAX_DATABASE:
        raise InvalidInputError(f"at most {MAX_DATABASE} items can be ranked")
    if kind == "ranking":
        _check_ranking(scores, relevant.shape[1])
    else:
        _check_numbers(scores, kind)
    if relevant.dtype == np.bool_:
        return scores, relevant
    if relevant.dtype.kind not in "uif" or not np.isin(relevant, (0, 1)).all():
        raise InvalidInputError(
            "relevant must be booleans or 0/1, one for each query and item; "
            "acqh.metrics.rankings makes them from labels"
        )
    return scores, relevant.astype(np.bool_)


def _check_numbers(scores: Array, kind: Kind) -> None:
    if scores.dtype.kind not in "buif" or scores.dtype.itemsize > 8:
        raise InvalidInputError(
            f"{kind} have dtype {scores.dtype}; give integers, float16, float32 or float64"
        )
    if scores.dtype.kind == "f":
        for query, row in enumerate(scores):
            if np.isnan(row).any():
                raise InvalidInputError(f"{kind} of query {query} have a NaN, which has no rank")


def _check_ranking(ranking: Array, n_database: int) -> None:
    if ranking.dtype.kind not in "ui":
        raise InvalidInputError(
            f"a ranking holds row numbers of the database, got dtype {ranking.dtype}"
        )
    for query, row in enumerate(ranking):
        n_listed = np.count_nonzero(row != -1)
        listed = row[:n_listed]
        if n_listed and (listed.min() < 0 or listed.max() >= n_database):
            raise InvalidInputError(
                f"the ranking of query {query} must hold rows 0 to {n_database - 1}, "
                "then -1 where it is shorter than others"
            )
        if np.bincount(listed.astype(np.int64), minlength=1).max() > 1:
            raise InvalidInputError(f"the ranking of query {query} lists an item twice")


def count_queries(n_queries: int, n_empty: int, empty: Empty) -> int:
    """Return how many queries a mean is over.

    Raises InvalidInputError: there are none.
    """
    check_choice(empty, Empty, "empty")
    if n_queries == 0:
        raise InvalidInputError("no query was given yet; call update first")
    if empty == "zero":
        return n_queries
    if n_queries == n_empty:
        raise InvalidInputError(
            f"none of the {n_queries} queries has a relevant item, so there is nothing to "
            "average; check that both sides' labels have the same columns"
        )
    return n_queries - n_empty


class TieBlocks(NamedTuple):
    """One query's ranking."""

    sizes: Ints  # (n_blocks,) int32: number of items in each block
    hits: Ints  # (n_blocks,) int32: number of relevant ones among them


def iter_tie_blocks(scores: Array, relevant: Bools, kind: Kind, ties: Ties) -> Iterator[TieBlocks]:
    """Rank the database for one query after another.

    The arrays handed out are overwritten by the next query, so that memory does not grow
    with the number of queries and is touched only once.

    `scores`, `relevant`: as `check_block` returns them. `kind`: {"scores", "distances", "ranking"}.
    `ties`: {"expected", "stable"}; "stable" makes every item a block of its own, tied ones in
    database order.
    """
    n_items = scores.shape[1]
    order, spare_order, sizes, hits = np.empty((4, n_items), dtype=np.int32)
    if kind == "ranking":
        sizes[:] = 1
        for row, row_relevant in zip(scores, relevant, strict=True):
            listed = row[row != -1]
            yield TieBlocks(sizes[: len(listed)], row_relevant[listed].astype(np.int32))
        return
    number = "u" if scores.dtype.kind == "b" else scores.dtype.kind
    # Scores are upcast_half, so that two compiled sorts do for all.
    n_bytes = 8 if scores.dtype.itemsize > 4 else 4
    keys, spare_keys = np.empty((2, n_items), dtype=f"u{n_bytes}")
    for row, row_relevant in zip(scores, relevant, strict=True):
        bits = np.ascontiguousarray(row, dtype=f"{number}{n_bytes}").view(keys.dtype)
        fill_keys(bits, number == "i", number == "f", kind == "scores", keys)
        sorted_keys, ranked = argsort_keys(keys, order, spare_keys, spare_order)
        n_blocks = fill_tie_blocks(
            sorted_keys, ranked, np.ascontiguousarray(row_relevant), ties == "stable", sizes, hits
        )
        yield TieBlocks(sizes[:n_blocks], hits[:n_blocks])


# Pairs for which counts of shared labels are made at a time.
PAIRS_AT_ONCE = 1 << 24


def relevance(query_labels: Any, database_labels: Any) -> Bools:
    """Say for each query and item whether they share at least one label.

    For large sets, call it with a block of queries at a time.

    Parameters
    ----------
    query_labels : 0/1 matrix (n_queries, n_labels), dense or sparse; or (n_queries,) class ids;
        or a sequence of n_queries sets of names
    database_labels : the same form for the (n_database,) items
        Matrices must have the same columns.

    Returns
    -------
    (n_queries, n_database) bool

    Raises
    ------
    LabelError
        The labels cannot be read, or the two matrices differ in their number of columns.

    Examples
    --------
    >>> relevance([[1, 1, 0]], [[0, 1, 0], [0, 0, 1]])
    array([[ True, False]])
    >>> relevance([{"dog", "cat"}], [{"cat"}, {"bird"}])
    array([[ True, False]])
    """
    queries, database = label_pair(query_labels, database_labels)
    out = np.empty((queries.shape[0], database.shape[0]), dtype=np.bool_)
    # Products run in float32, which is exact for counts below 2^24 and, unlike integers, quick.
    database = database.astype(np.float32).T
    for rows in slices(len(out), max(1, PAIRS_AT_ONCE // max(1, out.shape[1]))):
        shared = queries[rows].astype(np.float32) @ database
        np.greater(shared.toarray() if is_sparse(shared) else shared, 0, out=out[rows])
    return out


def label_pair(query_labels: Any, database_labels: Any) -> tuple[Matrix, Matrix]:
    """Read both sides so that a column means the same label on both."""
    matrices = _is_matrix(query_labels), _is_matrix(database_labels)
    if any(matrices) and not all(matrices):
        raise LabelError(
            "labels of queries and database must have the same form: two 0/1 matrices, "
            "or class ids or sets of names on both sides"
        )
    if not any(matrices):
        # Class ids and sets name their labels, so both sides are read as one.
        both, _ = as_label_matrix([*query_labels, *database_labels])
        return both[: len(query_labels)], both[len(query_labels) :]
    queries, _ = as_label_matrix(query_labels)
    database, _ = as_label_matrix(database_labels)
    if queries.shape[1] != database.shape[1]:
        raise LabelError(
            f"queries have {queries.shape[1]} label columns, the database {database.shape[1]}; "
            "give both the columns of the whole data set"
        )
    return queries, database


def _is_matrix(labels: Any) -> bool:
    if is_sparse(labels):
        return True
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of names of unequal length
        return False
    return array.ndim == 2 and array.dtype.kind in "buif"
