"""Which database items answer a query: those that share a label with it."""

from typing import Any

import numpy as np

from acqh._core.arrays import Bools, Matrix, is_sparse, slices
from acqh._core.labels import as_label_matrix
from acqh.errors import LabelError

# Pairs for which counts of shared labels are made at a time.
_PAIRS_AT_ONCE = 1 << 24


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
    for rows in slices(len(out), max(1, _PAIRS_AT_ONCE // max(1, out.shape[1]))):
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
