"""Compiled loops, compared with NumPy and with definitions."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh._core.runtime import limit_threads
from acqh.quantize import code_search, codebooks, compiled, plain, search_codes

both = pytest.mark.parametrize("run", [plain, compiled], ids=["plain", "compiled"])


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
    return [list(words) for words, _ in beams]


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


def beams_of(run, linear, pairs, width):
    beams = code_search.Beams.empty(len(linear), linear.dtype)
    for s in range(linear.shape[1]):
        longer = beams.allocate_next(width, linear.shape[2])
        run.extend(linear, pairs, s, beams, longer)
        beams = longer
    return beams


def whole_number_problem(seed, n_codebooks, n_words, n_components, dtype):
    """Return a search on whole numbers, where ties are many and every sum is exact."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(-4, 5, (6, n_components)).astype(dtype)
    words = rng.integers(-3, 4, (n_codebooks * n_words, n_components)).astype(dtype)
    shape = (n_codebooks, n_words) * 2
    linear = np.square(words).sum(axis=1) - 2 * targets @ words.T
    return linear.reshape(6, n_codebooks, n_words), (2 * words @ words.T).reshape(shape)


problems = given(
    seed=st.integers(0, 2**32 - 1),
    n_codebooks=st.integers(1, 4),
    n_words=st.sampled_from([1, 2, 3, 16, 19]),
    n_components=st.integers(1, 6),
    dtype=st.sampled_from([np.float32, np.float64]),
    width=st.integers(1, 9),
)


@both
@problems
def test_beams_are_the_cheapest_beginnings(
    run, seed, n_codebooks, n_words, n_components, dtype, width
):
    linear, pairs = whole_number_problem(seed, n_codebooks, n_words, n_components, dtype)
    beams = beams_of(run, linear, pairs, width)
    for costs, codes in zip(linear, beams.codes, strict=True):
        assert codes.tolist() == beam_twin(costs, pairs, width)


@both
@problems
def test_codes_are_improved_codebook_by_codebook(
    run, seed, n_codebooks, n_words, n_components, dtype, width
):
    linear, pairs = whole_number_problem(seed, n_codebooks, n_words, n_components, dtype)
    start = np.random.default_rng(seed).integers(0, n_words, (len(linear), n_codebooks))
    codes = start.astype(np.uint8)
    run.improve(linear, pairs, codes, width)
    for costs, code, begin in zip(linear, codes, start, strict=True):
        assert code.tolist() == modes_twin(costs, pairs, begin.tolist(), width)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(0, 12),
    n_codebooks=st.integers(1, 4),
    n_words=st.sampled_from([1, 2, 30]),
    n_components=st.integers(1, 9),
    dtype=st.sampled_from([np.float32, np.float64]),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_every_loop_gives_the_same_to_the_bit(
    seed, n_items, n_codebooks, n_words, n_components, dtype, scale
):
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(n_codebooks, n_words, n_components)).astype(dtype)
    targets = (scale * rng.normal(size=(n_items, n_components))).astype(dtype)
    tables = code_search.code_tables(words)
    weights = rng.random(n_items)
    codes = rng.integers(0, n_words, (n_items, n_codebooks)).astype(np.uint8)
    result = []
    for run in (plain, compiled):
        linear = tables.linear(targets, run)
        beams = beams_of(run, linear, tables.pairs, 3)
        better = codes.copy()
        run.improve(linear, tables.pairs, better, 10)
        sums, product = np.zeros((2, n_codebooks, n_words, n_components))
        run.sum_rows(targets, weights, codes, sums)
        run.normal_product(codes, weights, words.astype(np.float64), product)
        result.append([linear, beams.codes, beams.costs, better, sums, product])
    for one, other in zip(*result, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("search", code_search.SEARCHES)
def test_codes_are_the_same_with_and_without_compiled_loops(search, monkeypatch):
    rng = np.random.default_rng(0)
    words = rng.normal(size=(4, 64, 7)).astype(np.float32)
    targets, start = rng.normal(size=(600, 7)), rng.integers(64, size=(600, 4)).astype(np.uint8)
    for begin in (None, start):
        result = []
        for run in (plain, compiled):
            monkeypatch.setattr(code_search, "loops", lambda *_, run=run: run)
            result.append(search_codes(targets, words, search=search, start=begin))
        np.testing.assert_array_equal(*result)


@both
@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 20),
    n_codebooks=st.integers(1, 4),
    n_words=st.integers(1, 6),
    n_components=st.integers(1, 5),
)
def test_products_and_sums_are_those_of_the_indicator_matrix(
    run, seed, n_items, n_codebooks, n_words, n_components
):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_words, (n_items, n_codebooks)).astype(np.uint8)
    weights = rng.random(n_items)
    words, rows = rng.normal(size=(n_codebooks, n_words, n_components)), rng.random((n_items, 3))
    product, sums = np.zeros_like(words), np.zeros((n_codebooks, n_words, 3))
    run.normal_product(codes, weights, words, product)
    run.sum_rows(rows, weights, codes, sums)
    chosen = np.concatenate([np.eye(n_words)[column] for column in codes.T], axis=1)
    twin = chosen.T @ (weights[:, None] * (chosen @ words.reshape(-1, n_components)))
    np.testing.assert_allclose(product, twin.reshape(words.shape), atol=1e-12)
    for s, column in enumerate(codes.T):
        for k in range(3):
            twin = np.bincount(column, rows[:, k] * weights, n_words)
            np.testing.assert_array_equal(sums[s, :, k], twin)


@both
def test_distances_of_more_points_than_a_block_shrink_to_those_of_a_new_one(run):
    rng = np.random.default_rng(0)
    points, weights, closest = rng.normal(size=(2500, 3)), rng.random(2500), 4 * rng.random(2500)
    shrunk, errors, columns = np.empty((2, 2500)), np.empty(2), np.ascontiguousarray(points.T)
    run.shrink_distances(columns, np.array([7, 2000]), closest, weights, shrunk, errors)
    for centre, result, error in zip((7, 2000), shrunk, errors, strict=True):
        distances = np.square(points - points[centre]).sum(axis=1)
        np.testing.assert_array_equal(result, np.minimum(distances, closest))
        assert error == np.cumsum(weights * result)[-1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_go_to_the_first_of_the_nearest_codewords(dtype):
    rng = np.random.default_rng(0)
    points, words = (rng.integers(-3, 4, (n, 2)).astype(dtype) for n in (5000, 16))
    expected = np.square(points[:, None] - words).sum(axis=2).argmin(axis=1)
    for n_threads in (1, 2):
        with limit_threads(n_threads):
            np.testing.assert_array_equal(codebooks._nearest(points, words), expected)


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


def test_small_data_are_fitted_and_encoded_without_a_compiler():
    script = (
        "import sys, numpy as np\n"
        "from acqh.quantize import AdditiveQuantizer\n"
        "rows = np.random.default_rng(0).normal(size=(200, 8))\n"
        "AdditiveQuantizer(2, 16, random_state=0).fit(rows).encode(rows)\n"
        "print('numba' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"
