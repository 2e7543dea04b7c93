"""A search result as a table."""

import numpy as np
import pytest

from acqh.index import SearchResult

RESULT = SearchResult(
    np.array([["b", "a"], ["c", None]], dtype=object),
    np.array([[0.5, 0.25], [1.0, -np.inf]], dtype=np.float32),
    counts=np.array([2, 1]),
    n_scored=np.array([3, 3]),
)
COLUMNS = {"query": [0, 0, 1], "rank": [1, 2, 1], "id": ["b", "a", "c"], "score": [0.5, 0.25, 1.0]}


def test_a_frame_has_a_row_for_every_item_found():
    pytest.importorskip("pandas")
    assert RESULT.to_pandas().to_dict("list") == COLUMNS


def test_an_arrow_table_has_a_row_for_every_item_found():
    pytest.importorskip("pyarrow")
    assert RESULT.to_arrow().to_pydict() == COLUMNS
