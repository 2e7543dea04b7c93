"""Every compiled kernel against a NumPy twin that says the same in the plainest way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.quantize import compiled, decode
from acqh.quantize.compiled import leave_over, normal_product, sum_rows


def linear_twin(target, products, norms, n_codebooks):
    return (norms + target @ products).reshape(n_codebooks, -1)


def beam_twin(linear, pairs, width):
    """Keep the `width` cheapest beginnings, ties by order; grow each by every word."""
    beams = [((), linear.dtype.type(0))]
    for s, costs in enumerate(linear):
        grown = []
        for words, cost in beams:
            row = costs + cost
            for t, word in enumerate(words):
                row = row + pairs[t, word, s]
            grown += [((*words, j), value) for j, value in enumerate(row)]
        beams = sorted(grown, key=lambda beam: beam[1])[:width]
    return beams[0][0]


def modes_twin(linear, pairs, start, max_sweeps):
    code = list(start)
    for _ in range(max_sweeps):
        before = list(code)
        for s in range(len(code)):
            row = linear[s].copy()
            for t in range(len(code)):
                if t != s:
                    row = row + pairs[t, code[t], s]
            if row.min() < row[code[s]]:
                code[s] = int(row.argmin())
        if code == before:
            break
    return code


def seed_twin(points, weights, draws):
    chosen = []
    closest = np.full(len(points), np.inf)
    mass = np.cumsum(weights)
    for row in draws:
        if not mass[-1] > 0:
            break
        tried = []
        for place in np.searchsorted(mass, row * mass[-1], side="right"):
            shrunk = np.minimum(closest, np.square(points - points[place]).sum(axis=1))
            tried.append(((weights * shrunk).sum(), place, shrunk))
        _, place, closest = min(tried, key=lambda one: one[0])
        chosen.append(place)
        mass = np.cumsum(weights * closest)
    return chosen


def run_kernel(targets, products, norms, pairs, codes, width, sweeps):
    work = compiled.make_work(max(width, 1), pairs.shape[1], norms.dtype)
    compiled.search(targets, products, norms, pairs, codes, width, sweeps, work)
    return codes


def whole_number_problem(seed, n_codebooks, n_words, n_components, dtype):
    """Return a search on whole numbers, where ties are many and every sum is exact."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(-4, 5, (6, n_components)).astype(dtype)
    words = rng.integers(-3, 4, (n_codebooks * n_words, n_components)).astype(dtype)
    shape = (n_codebooks, n_words) * 2
    pairs = (2 * words @ words.T).reshape(shape)
    return targets, -2 * words.T.copy(), np.square(words).sum(axis=1), pairs


problems = given(
    seed=st.integers(0, 2**32 - 1),
    n_codebooks=st.integers(1, 4),
    n_words=st.sampled_from([1, 2, 3, 16, 19]),
    n_components=st.integers(1, 6),
    dtype=st.sampled_from([np.float32, np.float64]),
    width=st.integers(1, 9),
)


@problems
def test_beam_search_is_its_twin(seed, n_codebooks, n_words, n_components, dtype, width):
    problem = whole_number_problem(seed, n_codebooks, n_words, n_components, dtype)
    targets, products, norms, pairs = problem
    codes = np.empty((len(targets), n_codebooks), dtype=np.uint8)
    run_kernel(*problem, codes, width, 0)
    for target, code in zip(targets, codes, strict=True):
        linear = linear_twin(target, products, norms, n_codebooks)
        assert tuple(code.tolist()) == beam_twin(linear, pairs, width)


@problems
def test_conditional_modes_are_their_twin(seed, n_codebooks, n_words, n_components, dtype, width):
    problem = whole_number_problem(seed, n_codebooks, n_words, n_components, dtype)
    targets, products, norms, pairs = problem
    start = np.random.default_rng(seed).integers(0, n_words, (len(targets), n_codebooks))
    codes = run_kernel(*problem, start.astype(np.uint8), 0, width)
    for target, code, begin in zip(targets, codes, start, strict=True):
        linear = linear_twin(target, products, norms, n_codebooks)
        assert code.tolist() == modes_twin(linear, pairs, begin.tolist(), width)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 40),
    n_components=st.integers(1, 4),
    n_words=st.integers(1, 12),
)
def test_seeds_are_their_twin(seed, n_items, n_components, n_words):
    rng = np.random.default_rng(seed)
    points = rng.integers(-2, 3, (n_items, n_components)).astype(float)
    weights = rng.integers(0, 3, n_items).astype(float)
    draws = rng.random((n_words, 3))
    chosen = np.zeros(n_words, dtype=np.int64)
    count = compiled.seed(np.ascontiguousarray(points.T), weights, draws, chosen)
    assert chosen[:count].tolist() == seed_twin(points, weights, draws)


@given(seed=st.integers(0, 2**32 - 1), n_points=st.integers(1, 40), n_words=st.integers(1, 256))
def test_nearest_words_are_the_first_of_the_lowest_costs(seed, n_points, n_words):
    rng = np.random.default_rng(seed)
    work = compiled.make_work(n_points, n_words, np.float32)
    work.costs[:] = rng.integers(-3, 4, (n_points, n_words))
    norms = rng.integers(0, 3, n_words).astype(np.float32)
    expected = np.argmin(work.costs + norms, axis=1)
    codes = np.empty(n_points, dtype=np.uint8)
    compiled.nearest(norms, work, codes)
    np.testing.assert_array_equal(codes, expected)


def test_seeds_of_more_points_than_a_block_are_their_twin():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2500, 3))
    draws = rng.random((5, 4))
    chosen = np.zeros(5, dtype=np.int64)
    compiled.seed(np.ascontiguousarray(points.T), np.ones(2500), draws, chosen)
    assert chosen.tolist() == seed_twin(points, np.ones(2500), draws)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ordered_bits_order_as_their_floats(dtype):
    floats = np.array([-np.inf, -3.5, -1e-30, 0.0, 1e-30, 2.0, 7e8, np.inf], dtype=dtype)
    key = np.dtype(f"i{floats.itemsize}").type
    top, sign = key(np.iinfo(key).max), key(8 * floats.itemsize - 1)
    bits = floats.view(key)
    keys = [compiled._ordered(value, top, sign) for value in bits]
    assert keys == sorted(keys)
    assert keys[-1] < top
    assert [compiled._ordered(key(value), top, sign) for value in keys] == bits.tolist()


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 20),
    n_codebooks=st.integers(1, 4),
    n_words=st.integers(1, 6),
    n_components=st.integers(1, 5),
)
def test_the_normal_product_is_that_of_the_indicator_matrix(
    seed, n_items, n_codebooks, n_words, n_components
):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_words, (n_items, n_codebooks)).astype(np.uint8)
    weights = rng.random(n_items)
    words = rng.normal(size=(n_codebooks, n_words, n_components))
    product = np.full_like(words, np.nan)
    normal_product(codes, weights, words, product)
    chosen = np.concatenate([np.eye(n_words)[column] for column in codes.T], axis=1)
    twin = chosen.T @ (weights[:, None] * (chosen @ words.reshape(-1, n_components)))
    np.testing.assert_allclose(product, twin.reshape(words.shape), atol=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(0, 20),
    n_codebooks=st.integers(1, 4),
    n_words=st.integers(1, 6),
    n_components=st.integers(1, 5),
)
def test_sums_by_word_and_by_row_are_those_of_numpy_to_the_bit(
    seed, n_items, n_codebooks, n_words, n_components
):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_words, (n_items, n_codebooks)).astype(np.uint8)
    weights = rng.random(n_items)
    for dtype in (np.float32, np.float64):
        rows = rng.normal(size=(n_items, n_components)).astype(dtype)
        sums = np.full((n_codebooks, n_words, n_components), np.nan)
        sum_rows(rows, weights, codes, sums)
        for s, column in enumerate(codes.T):
            for k in range(n_components):
                twin = np.bincount(column, rows[:, k] * weights, n_words)
                np.testing.assert_array_equal(sums[s, :, k], twin)
    words = rng.normal(size=(n_codebooks, n_words, n_components))
    items = rng.permutation(n_items)
    points = np.full_like(rows, np.nan)
    leave_over(rows, items, codes[items], words, points)
    np.testing.assert_array_equal(points, (rows - decode(codes, words))[items])
