import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acqh._core.runtime import limit_threads
from acqh.quantize import decode, quantization_errors, search_codes

SEARCHES = ("greedy", "beam", "icm", "beam+icm")
seeds = st.integers(0, 2**32 - 1)


def make_problem(seed, n_items=20, n_codebooks=3, n_words=5, n_components=4):
    rng = np.random.default_rng(seed)
    scale = 0.6 ** np.arange(n_codebooks)[:, None, None]
    codebooks = rng.normal(size=(n_codebooks, n_words, n_components)) * scale
    return rng.normal(size=(n_items, n_components)), codebooks


def make_metric(seed, n_components, rank):
    factor = np.random.default_rng(seed).normal(size=(n_components, rank))
    return factor @ factor.T


def costs_in_metric(targets, codebooks, codes, metric):
    vectors = decode(codes, codebooks)
    return np.einsum("ik,kl,il->i", vectors, metric, vectors) - 2 * (vectors * targets).sum(axis=1)


def all_codes(codebooks):
    n_codebooks, n_words, _ = codebooks.shape
    return np.array(list(itertools.product(range(n_words), repeat=n_codebooks)), dtype=np.uint8)


def best_costs(targets, codebooks, metric):
    """Return the lowest cost over every code there is."""
    codes = all_codes(codebooks)
    rows = [
        costs_in_metric(np.tile(row, (len(codes), 1)), codebooks, codes, metric) for row in targets
    ]
    return np.array(rows).min(axis=1)


def greedy_by_residuals(targets, codebooks):
    residuals = targets.copy()
    codes = []
    for words in codebooks:
        distances = np.square(residuals[:, None] - words).sum(axis=2)
        codes.append(distances.argmin(axis=1))
        residuals -= words[codes[-1]]
    return np.array(codes).T


@given(seed=seeds, n_codebooks=st.integers(1, 6), n_components=st.integers(1, 5))
def test_greedy_selects_the_nearest_codeword_of_each_residual(seed, n_codebooks, n_components):
    targets, codebooks = make_problem(
        seed, n_codebooks=n_codebooks, n_words=7, n_components=n_components
    )
    codes = search_codes(targets, codebooks, search="greedy")
    np.testing.assert_array_equal(codes, greedy_by_residuals(targets, codebooks))


@given(seed=seeds)
def test_a_beam_of_one_is_greedy(seed):
    targets, codebooks = make_problem(seed, n_words=16)
    greedy = search_codes(targets, codebooks, search="greedy")
    beam = search_codes(targets, codebooks, search="beam", beam_width=1)
    np.testing.assert_array_equal(beam, greedy)


@given(seed=seeds, rank=st.integers(0, 4))
def test_a_beam_as_wide_as_all_codes_finds_the_best_in_any_metric(seed, rank):
    targets, codebooks = make_problem(seed)
    metric = make_metric(seed, 4, rank)
    codes = search_codes(targets, codebooks, search="beam", beam_width=125, metric=metric)
    result = costs_in_metric(targets, codebooks, codes, metric)
    np.testing.assert_allclose(result, best_costs(targets, codebooks, metric), atol=1e-9)


@given(seed=seeds, search=st.sampled_from(["icm", "beam+icm"]))
def test_icm_ends_at_a_coordinatewise_minimum(seed, search):
    targets, codebooks = make_problem(seed, n_words=8)
    codes = search_codes(targets, codebooks, search=search, beam_width=2)
    errors = quantization_errors(targets, codes, codebooks)
    for s, j in itertools.product(range(3), range(8)):
        other = codes.copy()
        other[:, s] = j
        assert np.all(quantization_errors(targets, other, codebooks) >= errors - 1e-12)


@given(
    seed=seeds,
    search=st.sampled_from(SEARCHES),
    with_metric=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_no_code_gets_worse_than_the_start(seed, search, with_metric, dtype):
    targets, codebooks = make_problem(seed)
    codebooks = codebooks.astype(dtype)
    metric = make_metric(seed, 4, 2) if with_metric else None
    start = np.random.default_rng(seed).integers(0, 5, (20, 3)).astype(np.uint8)
    codes = search_codes(targets, codebooks, search=search, start=start, metric=metric)
    matrix = np.eye(4) if metric is None else metric
    exact = codebooks.astype(np.float64)
    before = costs_in_metric(targets, exact, start, matrix)
    after = costs_in_metric(targets, exact, codes, matrix)
    changed = np.any(codes != start, axis=1)
    assert np.all(after[changed] < before[changed] + 1e-12)


def test_a_code_as_good_as_the_start_does_not_replace_it():
    codebooks = np.array([[[1.0], [1.0]], [[0.0], [0.0]]])
    start = np.array([[1, 1]], dtype=np.uint8)
    for search in SEARCHES:
        codes = search_codes(np.array([[1.0]]), codebooks, search=search, start=start)
        np.testing.assert_array_equal(codes, start)


@settings(max_examples=20)
@given(seed=seeds)
def test_search_with_a_metric_factor_equals_euclidean_search_in_its_image(seed):
    targets, codebooks = make_problem(seed)
    factor = np.random.default_rng(seed).normal(size=(4, 6))
    plain = search_codes(targets @ factor, codebooks @ factor, search="beam")
    metric = factor @ factor.T
    codes = search_codes(targets @ metric, codebooks, search="beam", metric=metric)
    np.testing.assert_array_equal(codes, plain)


def test_codes_do_not_depend_on_threads_or_on_the_other_items():
    targets, codebooks = make_problem(0, n_items=7000, n_words=16)
    with limit_threads(1):
        codes = search_codes(targets, codebooks)
    np.testing.assert_array_equal(search_codes(targets, codebooks), codes)
    np.testing.assert_array_equal(search_codes(targets[6990:], codebooks), codes[6990:])


def test_float32_keeps_its_digits_far_from_the_origin():
    targets, codebooks = make_problem(0, n_items=500, n_words=16)
    codes = search_codes(targets, codebooks)
    away = codebooks.copy()
    away[0] += 5000.0
    result = search_codes(targets + 5000.0, away.astype(np.float32))
    assert np.mean(np.any(result != codes, axis=1)) < 0.02


@pytest.mark.parametrize("n_codebooks", [1, 2, 16])
@pytest.mark.parametrize("n_words", [1, 2, 17, 256])
def test_every_size_gives_valid_codes(n_codebooks, n_words):
    targets, codebooks = make_problem(0, 5, n_codebooks, n_words, 1)
    codes = search_codes(targets, codebooks)
    assert codes.shape == (5, n_codebooks)
    assert codes.dtype == np.uint8
    assert codes.max(initial=0) < n_words


def test_no_items_have_no_codes():
    _, codebooks = make_problem(0)
    assert search_codes(np.empty((0, 4)), codebooks).shape == (0, 3)


def test_the_sorted_or_strided_layout_of_inputs_does_not_matter():
    targets, codebooks = make_problem(0)
    codes = search_codes(targets, codebooks)
    np.testing.assert_array_equal(search_codes(np.asfortranarray(targets), codebooks), codes)
    strided = np.repeat(codebooks, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(search_codes(targets, strided), codes)


def test_an_unknown_search_is_rejected():
    targets, codebooks = make_problem(0)
    with pytest.raises(ValueError, match="greedy, beam, icm"):
        search_codes(targets, codebooks, search="best")


@pytest.mark.parametrize("search", SEARCHES)
def test_very_large_codewords_of_later_codebooks_do_not_overflow(search):
    codebooks = np.zeros((2, 2, 3), dtype=np.float32)
    codebooks[1, 1] = 1e25
    targets = np.full((1, 3), 1e25, dtype=np.float32)
    assert search_codes(targets, codebooks, search=search).tolist() == [[0, 1]]
