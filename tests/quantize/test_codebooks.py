import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from acqh._core.runtime import run_blocks
from acqh.quantize import decode, quantization_errors
from acqh.quantize.codebooks import improve_codebooks, least_squares_codebooks
from acqh.quantize.train import refill_unused_words

shapes = given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 40),
    n_codebooks=st.integers(1, 4),
    n_words=st.integers(1, 9),
    n_components=st.integers(1, 4),
)


def make_problem(seed, n_items, n_codebooks, n_words, n_components):
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=(n_items, n_components)) + 3
    weights = rng.integers(0, 4, n_items).astype(float) * rng.choice([1e-3, 1.0, 50.0], n_items)
    weights[0] = 1.0
    codes = rng.integers(0, n_words, (n_items, n_codebooks)).astype(np.uint8)
    return targets, weights, codes, rng.normal(size=(n_codebooks, n_words, n_components))


def indicator(codes, n_words):
    """Return the 0/1 matrix A of chosen words, (n_items, n_codebooks * n_words)."""
    blocks = [np.eye(n_words)[codes[:, s]] for s in range(codes.shape[1])]
    return np.concatenate(blocks, axis=1)


def weighted_error(targets, weights, codes, codebooks):
    return float(weights @ quantization_errors(targets, codes, codebooks))


@shapes
def test_decoding_is_the_sum_of_the_selected_codewords(
    seed, n_items, n_codebooks, n_words, n_components
):
    _, _, codes, codebooks = make_problem(seed, n_items, n_codebooks, n_words, n_components)
    expected = indicator(codes, n_words) @ codebooks.reshape(-1, n_components)
    np.testing.assert_allclose(decode(codes, codebooks), expected, atol=1e-12)


@shapes
def test_least_squares_codebooks_reach_the_lowest_error(
    seed, n_items, n_codebooks, n_words, n_components
):
    targets, weights, codes, codebooks = make_problem(
        seed, n_items, n_codebooks, n_words, n_components
    )
    before = weighted_error(targets, weights, codes, codebooks)
    result = least_squares_codebooks(targets, weights, codes, codebooks)
    after = weighted_error(targets, weights, codes, result)
    root = np.sqrt(weights)[:, np.newaxis]
    design = root * indicator(codes, n_words)
    best = np.linalg.lstsq(design, root * targets, rcond=None)[0]
    lowest = np.square(root * targets - design @ best).sum()
    assert after <= before * (1 + 1e-12)
    assert after <= lowest + 1e-6 * before


@shapes
def test_every_step_towards_least_squares_lowers_the_error(
    seed, n_items, n_codebooks, n_words, n_components
):
    targets, weights, codes, codebooks = make_problem(
        seed, n_items, n_codebooks, n_words, n_components
    )
    start = weighted_error(targets, weights, codes, codebooks)
    errors = [
        weighted_error(
            targets,
            weights,
            codes,
            improve_codebooks(targets, weights, codes, codebooks, n_steps=n),
        )
        for n in range(5)
    ]
    assert errors[0] == start
    assert np.all(np.diff(errors) <= 1e-12 * start)


@shapes
def test_enough_steps_reach_least_squares(seed, n_items, n_codebooks, n_words, n_components):
    targets, _, codes, codebooks = make_problem(seed, n_items, n_codebooks, n_words, n_components)
    weights = np.ones(n_items)
    improved = improve_codebooks(targets, weights, codes, codebooks, n_steps=1_000)
    solved = least_squares_codebooks(targets, weights, codes, codebooks)
    np.testing.assert_allclose(decode(codes, improved), decode(codes, solved), atol=1e-5)


@shapes
def test_a_ridge_keeps_codewords_near_their_values(
    seed, n_items, n_codebooks, n_words, n_components
):
    targets, _, codes, codebooks = make_problem(seed, n_items, n_codebooks, n_words, n_components)
    towards, weights = codebooks + 1.0, np.ones(n_items)
    result = improve_codebooks(
        targets, weights, codes, codebooks, n_steps=200, ridge=2.0, towards=towards
    )
    design = indicator(codes, n_words)
    gram = design.T @ design + 2.0 * np.eye(n_codebooks * n_words)
    target = towards.reshape(-1, n_components)
    expected = np.linalg.solve(gram, design.T @ targets + 2.0 * target)
    np.testing.assert_allclose(result.reshape(expected.shape), expected, atol=1e-6)


@pytest.mark.parametrize("solve", [least_squares_codebooks, improve_codebooks])
@shapes
def test_codewords_without_weight_keep_their_value(
    solve, seed, n_items, n_codebooks, n_words, n_components
):
    targets, weights, codes, codebooks = make_problem(
        seed, n_items, n_codebooks, n_words, n_components
    )
    result = solve(targets, weights, codes, codebooks)
    used = (weights @ indicator(codes, n_words) > 0).reshape(n_codebooks, n_words)
    np.testing.assert_array_equal(result[~used], codebooks[~used])


@shapes
def test_a_weight_is_as_many_copies(seed, n_items, n_codebooks, n_words, n_components):
    targets, _, codes, codebooks = make_problem(seed, n_items, n_codebooks, n_words, n_components)
    counts = np.random.default_rng(seed).integers(1, 4, n_items)
    rows = np.repeat(np.arange(n_items), counts)
    weighted = least_squares_codebooks(targets, counts.astype(float), codes, codebooks)
    copied = least_squares_codebooks(targets[rows], np.ones(len(rows)), codes[rows], codebooks)
    np.testing.assert_allclose(weighted, copied, atol=1e-6)


def test_least_squares_stays_where_it_is_once_it_is_solved():
    problem = make_problem(0, 40, 3, 5, 2)
    targets, weights, codes, codebooks = problem
    solved = least_squares_codebooks(targets, weights, codes, codebooks)
    again = least_squares_codebooks(targets, weights, codes, solved)
    np.testing.assert_allclose(again, solved, atol=1e-4)


@shapes
def test_refilling_makes_the_worst_targets_exact_and_none_with_weight_worse(
    seed, n_items, n_codebooks, n_words, n_components
):
    targets, weights, codes, codebooks = make_problem(
        seed, n_items, n_codebooks, n_words, n_components
    )
    filled, moved = refill_unused_words(targets, weights, codes, codebooks)
    before = quantization_errors(targets, codes, codebooks)
    after = quantization_errors(targets, moved, filled)
    changed = np.any(moved != codes, axis=1)
    assert np.all(after[changed] < 1e-20)
    # A target without weight may lose the word it has.
    others = ~changed & (weights > 0)
    np.testing.assert_array_equal(after[others], before[others])
    unused = n_words - len(np.unique(codes[weights > 0, 0]))
    if unused:
        assert changed.sum() >= min(unused, np.sum(weights * before > 0))


def test_float32_codebooks_decode_to_float32():
    _, _, codes, codebooks = make_problem(0, 5, 2, 3, 2)
    assert decode(codes, codebooks.astype(np.float32)).dtype == np.float32


def test_blocks_on_several_threads_use_one_thread_of_blas_each(monkeypatch):
    monkeypatch.setattr("acqh._core.runtime.default_threads", lambda: 2)
    counts = set()

    def count(rows):
        pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
        counts.update(pool["num_threads"] for pool in pools)

    with threadpool_limits(2, user_api="blas"):
        run_blocks(count, 10, 5)
    assert counts == {1}
