import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh.index._hamming import _kernels


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


def run(codes, queries, allowed, k, spare=0):
    n_items, n_bytes = codes.shape
    planes = np.full((n_bytes, n_items + spare), 255, dtype=np.uint8)
    planes[:, :n_items] = codes.T
    bits = np.empty(0, np.uint8) if allowed.all() else np.packbits(allowed, bitorder="little")
    n_bits = 8 * n_bytes
    far = np.array([n_bits + 1], dtype=np.uint8 if n_bits < 255 else np.uint16)
    rows = np.empty((len(queries), k), dtype=np.int64)
    found = np.empty((len(queries), k), dtype=np.int64)
    counts = _kernels.nearest(planes, n_items, queries, bits, far, rows, found)
    return [(r[:c], d[:c]) for r, d, c in zip(rows, found, counts, strict=True)]


def check(codes, queries, allowed, k, spare=0):
    got = run(codes, queries, allowed, k, spare)
    for (rows, found), *expected in zip(
        got, *nearest_twin(codes, queries, allowed, k), strict=True
    ):
        np.testing.assert_array_equal(rows, expected[0])
        np.testing.assert_array_equal(found, expected[1])


@settings(max_examples=60, deadline=None)
@given(
    n_items=st.integers(1, 300),
    n_bytes=st.sampled_from([1, 2, 3, 8, 33]),
    n_values=st.sampled_from([1, 2, 256]),
    k=st.integers(1, 40),
    share=st.sampled_from([0.0, 0.1, 1.0]),
    spare=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_nearest_agrees_with_its_twin(n_items, n_bytes, n_values, k, share, spare, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_values, (n_items, n_bytes), dtype=np.uint8)
    queries = rng.integers(0, 256, (3, n_bytes), dtype=np.uint8)
    check(codes, queries, rng.random(n_items) < share, min(k, n_items), spare)


@pytest.mark.parametrize("k", [1, 7, 1000, 5000])
@pytest.mark.parametrize("order", ["random", "nearer and nearer", "farther and farther", "equal"])
def test_nearest_agrees_with_its_twin_over_many_blocks_in_any_order(k, order):
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
