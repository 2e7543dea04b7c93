"""Each compiled loop, compared with a NumPy reference."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from acqh.metrics import compiled as kernels

DTYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64")


def numbers(dtype, rng, n):
    """Return values of all magnitudes with many ties, extremes and both zeros."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values = rng.standard_normal(n) * 10.0 ** rng.integers(-40, 38, n)
        special = [0.0, -0.0, np.inf, -np.inf, 1.0, np.nextafter(dtype.type(1), dtype.type(2))]
    else:
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
        special = [limits.min, limits.max, limits.max - 1, 0, 1]
    special = np.array(special, dtype=dtype)
    return np.where(rng.random(n) < 0.5, values.astype(dtype), rng.choice(special, n))


def keys_of(values, descending):
    unsigned = f"u{values.dtype.itemsize}"
    keys = np.empty(len(values), dtype=unsigned)
    kind = values.dtype.kind
    kernels.fill_keys(values.view(unsigned), kind == "i", kind == "f", descending, keys)
    return keys


def argsort(keys):
    order = np.empty((2, len(keys)), dtype=np.int32)
    return kernels.argsort_keys(keys.copy(), order[0], np.empty_like(keys), order[1])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_rank_as_the_numbers_do(dtype, descending):
    values = numbers(dtype, np.random.default_rng(0), 300)
    keys = keys_of(values, descending)
    twin = np.unique(values, return_inverse=True)[1]
    if descending:
        twin = twin.max() - twin
    np.testing.assert_array_equal(np.unique(keys, return_inverse=True)[1], twin)


@pytest.mark.parametrize("n", [1, 2, 1000])
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_radix_sort_is_a_stable_argsort(dtype, n):
    rng = np.random.default_rng(n)
    for keys in (numbers(dtype, rng, n), rng.integers(0, 17, n).astype(dtype)):
        sorted_keys, order = argsort(keys)
        twin = np.argsort(keys, kind="stable")
        np.testing.assert_array_equal(order, twin)
        np.testing.assert_array_equal(sorted_keys, keys[twin])


@pytest.mark.parametrize("separate", [False, True])
def test_tie_blocks_count_and_add_up_equal_keys(separate):
    rng = np.random.default_rng(0)
    keys, order = argsort(rng.integers(0, 9, 50).astype(np.uint32))
    sizes, hits = np.empty((2, 50), dtype=np.int32)
    relevant = rng.random(50) < 0.4
    n_blocks = kernels.fill_tie_blocks(keys, order, relevant, separate, sizes, hits)
    group = np.arange(50) if separate else np.unique(keys, return_inverse=True)[1]
    np.testing.assert_array_equal(sizes[:n_blocks], np.bincount(group))
    np.testing.assert_array_equal(hits[:n_blocks], np.bincount(group, relevant[order]))


def reference_average_precision(sizes, hits, n_relevant, cutoff, denominator):
    """Spread each block over its places; condition on the hits above a cut-off that splits one."""
    if n_relevant == 0:
        return np.nan
    before = np.cumsum(sizes) - sizes
    full = before + sizes <= cutoff
    total = sum(map(block_sum, before[full], (np.cumsum(hits) - hits)[full], sizes[full],
                    hits[full], sizes[full]))  # fmt: skip
    result = int(hits[full].sum())
    split = np.flatnonzero((before < cutoff) & ~full)
    if denominator != kernels.DIVIDE_BY_HITS:
        for b in split:
            total += block_sum(before[b], result, sizes[b], hits[b], cutoff - before[b])
        at_cutoff = denominator == kernels.DIVIDE_BY_CUTOFF
        return total / (min(cutoff, n_relevant) if at_cutoff else n_relevant)
    if split.size == 0:
        return total / result if result else 0.0
    (b,) = split
    places = cutoff - before[b]
    h = np.arange(max(0, places - sizes[b] + hits[b]), min(places, hits[b]) + 1)
    ratios = [
        (total + block_sum(before[b], result, places, k, places)) / max(result + k, 1) for k in h
    ]
    return hypergeom(sizes[b], hits[b], places).pmf(h) @ ratios


def block_sum(n_seen, n_found, size, hit, places):
    i = np.arange(places)
    precision = (n_found + 1 + i * (hit - 1) / max(size - 1, 1)) / (n_seen + i + 1)
    return precision.sum() * hit / size


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_average_precision_of_blocks_agrees_with_the_reference(n_blocks, seed, denominator):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, n_blocks).astype(np.int32)
    hits = rng.integers(0, sizes, endpoint=True).astype(np.int32)
    cutoff = int(rng.integers(1, sizes.sum(), endpoint=True))
    arguments = sizes, hits, int(hits.sum()), cutoff, denominator
    expected = reference_average_precision(*arguments)
    assert kernels.average_precision(*arguments) == pytest.approx(expected, rel=1e-11, nan_ok=True)


@pytest.mark.parametrize(
    ("size", "hit", "cutoff"), [(200, 60, 90), (184_577, 20_000, 50), (184_577, 3, 100)]
)
def test_a_split_block_divided_by_hits_is_exact_in_rational_numbers(size, hit, cutoff):
    def expectation_given_hits(h):
        step = Fraction(h - 1, cutoff - 1)
        return sum((1 + i * step) / (i + 1) for i in range(cutoff)) / cutoff

    exact = sum(
        Fraction(math.comb(hit, h) * math.comb(size - hit, cutoff - h), math.comb(size, cutoff))
        * expectation_given_hits(h)
        for h in range(1, min(hit, cutoff) + 1)
    )
    sizes, hits = np.array([[size], [hit]], dtype=np.int32)
    result = kernels.average_precision(sizes, hits, hit, cutoff, kernels.DIVIDE_BY_HITS)
    assert result == pytest.approx(float(exact), rel=1e-13)


def test_a_split_of_a_very_large_block_does_not_underflow():
    arguments = (
        np.array([10, 184_577], dtype=np.int32),
        np.array([3, 60_000], dtype=np.int32),
        60_003,
        300,
        kernels.DIVIDE_BY_HITS,
    )
    expected = reference_average_precision(*arguments)
    assert kernels.average_precision(*arguments) == pytest.approx(expected, rel=1e-9)
    # A cut-off one short of the end hides one item, hit or not: both cases by hand.
    sizes, hits = np.array([[100_000], [40_000]], dtype=np.int32)
    result = kernels.average_precision(sizes, hits, 40_000, 99_999, kernels.DIVIDE_BY_HITS)
    cases = [block_sum(0, 0, 99_999, h, 99_999) / h for h in (39_999, 40_000)]
    assert result == pytest.approx(0.4 * cases[0] + 0.6 * cases[1], rel=1e-12)


@given(st.integers(1, 8), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_hits_by_rank_agree_with_their_twin(n_blocks, n_ranks, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_blocks).astype(np.int32)
    hits = rng.integers(0, sizes, endpoint=True).astype(np.int32)
    by_place = np.repeat(hits / sizes, sizes)[:n_ranks]
    padded = np.append(by_place, np.zeros(n_ranks - len(by_place)))
    result = np.empty(n_ranks)
    kernels.fill_hits_by_rank(sizes, hits, result)
    np.testing.assert_allclose(result, padded.cumsum(), rtol=1e-12)
