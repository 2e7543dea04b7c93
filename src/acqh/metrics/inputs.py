"""The choices metrics offer, and the checks on what they are given."""

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from acqh._core.arrays import Array, Bools, check_positive_int, is_sparse
from acqh.errors import InvalidInputError

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


def check_block(scores: Any, values: Any, kind: Kind, name: str) -> tuple[Array, Array]:
    """Check that scores and what is known of the items fit each other; make both 2-d.

    `scores`: (n_queries, n_database) or (n_database,); a ranking may have fewer columns. `values`:
    (n_queries, n_database) or (n_database,); relevance or gains. `name`: what `values` are called
    in errors. Gives both as (n_queries, ...). Raises InvalidInputError: wrong
    shapes, no queries, no items, NaN, or not a ranking.
    """
    check_choice(kind, Kind, "kind")
    if is_sparse(scores) or is_sparse(values):
        raise InvalidInputError(f"scores and {name} must be dense; give a block of queries at once")
    scores, values = np.asarray(scores), np.asarray(values)
    if scores.ndim not in (1, 2) or values.ndim != scores.ndim:
        raise InvalidInputError(
            f"{kind} have {scores.ndim} dimensions and {name} {values.ndim}; "
            "give both as (queries, items), or both as (items,) for one query"
        )
    scores, values = np.atleast_2d(scores), np.atleast_2d(values)
    if 0 in scores.shape or 0 in values.shape:
        raise InvalidInputError(
            f"no queries or no items: {kind} have shape {scores.shape}, {name} {values.shape}"
        )
    if scores.shape[0] != values.shape[0] or (
        kind != "ranking" and scores.shape[1] != values.shape[1]
    ):
        raise InvalidInputError(
            f"{kind} have shape {scores.shape}, {name} {values.shape}; they must be the same"
        )
    if values.shape[1] > MAX_DATABASE:
        raise InvalidInputError(f"at most {MAX_DATABASE} items can be ranked")
    if kind == "ranking":
        _check_ranking(scores, values.shape[1])
    else:
        _check_numbers(scores, kind)
    return scores, values


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


def check_relevance_block(scores: Any, relevant: Any, kind: Kind) -> tuple[Array, Bools]:
    """Check scores and relevance; see `check_block`."""
    checked, values = check_block(scores, relevant, kind, "relevant")
    return checked, _as_relevant(values)


def _as_relevant(values: Array) -> Bools:
    """Return relevance as booleans; refuse anything that is not 0 or 1."""
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind not in "uif" or not np.isin(values, (0, 1)).all():
        raise InvalidInputError(
            "relevant must be booleans or 0/1, one for each query and item; "
            "acqh.metrics.relevance makes them from labels"
        )
    return values.astype(np.bool_)


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
