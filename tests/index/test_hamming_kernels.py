import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.index.compiled import hamming as compiled


def nearest_twin(codes, queries, allowed, k):
    """Rank all allowed items by distance, then by place."""
    rows, distances = [], []
    places = np.flatnonzero(allowed)
    for query in queries:
        distance = np.bitwise_count(codes[places] ^ query).sum(axis=1, dtype=np.int64)
        order = np.argsort(distance, kind="stable")[:k]
        rows.append(places[order])
        distances.append(distance[order])
    return rows, distances


def check(codes, queries, allowed, k, n_segments=1):
    planes = np.ascontiguousarray(codes.T)
    candidates = compiled.no_candidates(len(queries), k, 8 * len(planes))
    for rows in np.array_split(np.arange(len(codes)), n_segments):
        mask = allowed[rows]
        bits = np.empty(0, np.uint8) if mask.all() else np.packbits(mask, bitorder="little")
        part = np.ascontiguousarray(planes[:, rows])
        compiled.take_nearest(part, int(rows[0]), bits, queries, k, candidates)
    rows = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k), dtype=np.int64)
    counts = np.empty(len(queries), dtype=np.int64)
    compiled.sort_nearest(candidates, rows, distances, counts)
    twin = nearest_twin(codes, queries, allowed, k)
    for i, (expected_rows, expected) in enumerate(zip(*twin, strict=True)):
        np.testing.assert_array_equal(rows[i, : counts[i]], expected_rows)
        np.testing.assert_array_equal(distances[i, : counts[i]], expected)


@given(
    n_items=st.integers(1, 300),
    n_bytes=st.sampled_from([1, 2, 3, 8, 33]),
    n_values=st.sampled_from([1, 2, 256]),
    k=st.integers(1, 40),
    share=st.sampled_from([0.0, 0.1, 1.0]),
    n_segments=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_nearest_agree_with_the_twin(n_items, n_bytes, n_values, k, share, n_segments, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_values, (n_items, n_bytes), dtype=np.uint8)
    queries = rng.integers(0, 256, (3, n_bytes), dtype=np.uint8)
    check(codes, queries, rng.random(n_items) < share, min(k, n_items), min(n_segments, n_items))


@pytest.mark.parametrize("k", [1, 7, 1000, 5000])
@pytest.mark.parametrize("order", ["random", "nearer and nearer", "farther and farther", "equal"])
def test_the_nearest_agree_with_the_twin_over_many_blocks_in_any_order(k, order):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (5000, 4), dtype=np.uint8)
    if order == "equal":
        codes[:] = 3
    elif order != "random":
        distance = np.bitwise_count(codes).sum(axis=1)
        codes = codes[
            np.argsort(distance if order.startswith("farther") else -distance.astype(int))
        ]
    queries = np.array([[0, 0, 0, 0], [1, 2, 3, 4]], dtype=np.uint8)
    check(codes, queries, np.ones(5000, bool), k)
    check(codes, queries, rng.random(5000) < 0.3, k)
