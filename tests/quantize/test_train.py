import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.quantize import decode, fit_codebooks, quantization_errors, search_codes
from acqh.quantize.codebooks import weighted_kmeans


def fit(targets, weights=None, n_codebooks=2, codebook_size=4, seed=0, **settings):
    weights = np.ones(len(targets)) if weights is None else weights
    rng = np.random.default_rng(seed)
    return fit_codebooks(targets, weights, n_codebooks, codebook_size, rng=rng, **settings)


def label_targets(n_labels=24, n_sets=400, n_components=8, seed=0):
    """Return projected label sets and how many items carry each: few sets carry most items."""
    rng = np.random.default_rng(seed)
    rates = 0.4 / np.arange(1, n_labels + 1) ** 0.5
    labels = np.unique(rng.random((n_sets, n_labels)) < rates, axis=0).astype(float)
    counts = np.ceil(1000 / rng.permutation(np.arange(1, len(labels) + 1)))
    values, vectors = np.linalg.eigh((labels * counts[:, None]).T @ labels)
    return labels @ vectors[:, np.argsort(-values)[:n_components]], counts


def spread(targets, weights):
    centred = targets - np.average(targets, axis=0, weights=weights)
    return weights @ np.square(centred).sum(axis=1)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 60),
    n_components=st.integers(1, 5),
    n_codebooks=st.integers(1, 4),
    codebook_size=st.sampled_from([1, 2, 3, 16, 256]),
    search=st.sampled_from(["greedy", "beam", "icm", "beam+icm"]),
)
def test_the_error_never_rises_and_is_that_of_the_codes(
    seed, n_items, n_components, n_codebooks, codebook_size, search
):
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=(n_items, n_components)).round(1)
    weights = rng.integers(0, 3, n_items) + 0.5
    result = fit(targets, weights, n_codebooks, codebook_size, seed, search=search, max_iter=4)
    assert np.isfinite(result.codebooks).all()
    assert result.codebooks.shape == (n_codebooks, codebook_size, n_components)
    assert result.codes.max() < codebook_size
    assert np.all(np.diff(result.history) <= 0)
    error = weights @ quantization_errors(targets, result.codes, result.codebooks)
    assert result.history[-1] == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize(("n_components", "share"), [(8, 5e-5), (23, 1e-5)])
def test_label_targets_are_quantized_almost_without_error(n_components, share):
    targets, counts = label_targets(n_sets=2500, n_components=n_components)
    result = fit(targets, counts, n_codebooks=4, codebook_size=256)
    assert result.history[-1] < share * spread(targets, counts)


def test_sweeps_end_far_below_the_residual_start():
    targets, counts = label_targets(n_sets=600)
    rng, left = np.random.default_rng(0), targets.copy()
    for _ in range(4):
        words, codes = weighted_kmeans(left, counts, 16, rng)
        left -= words[codes]
    start = counts @ np.square(left).sum(axis=1)
    result = fit(targets, counts, n_codebooks=4, codebook_size=16)
    assert result.history[-1] < 0.5 * start


def test_one_codebook_suffices_for_as_many_targets_as_codewords():
    targets = np.random.default_rng(0).normal(size=(10, 3))
    result = fit(targets, n_codebooks=4, codebook_size=16)
    assert not result.codebooks[1:].any()
    assert not result.codes[:, 1:].any()
    np.testing.assert_allclose(decode(result.codes, result.codebooks), targets, atol=1e-12)


def test_equal_targets_get_equal_codes():
    targets, counts = label_targets(n_sets=200)
    rows = np.repeat(np.arange(len(targets)), 2)
    result = fit(targets[rows], counts[rows], n_codebooks=3, codebook_size=8)
    again = search_codes(targets[rows], result.codebooks)
    np.testing.assert_array_equal(again[::2], again[1::2])


@pytest.mark.parametrize("value", [0.0, 7.5])
def test_constant_targets_are_exact(value):
    targets = np.full((20, 3), value)
    result = fit(targets)
    np.testing.assert_allclose(decode(result.codes, result.codebooks), targets, atol=1e-12)
    assert len(result.history) >= 1


def test_targets_far_from_the_origin_are_quantized_as_well_as_others():
    targets, counts = label_targets(n_sets=400)
    near = fit(targets, counts, n_codebooks=3, codebook_size=16)
    far = fit(targets + 1e6, counts, n_codebooks=3, codebook_size=16)
    assert far.history[-1] < 1.5 * near.history[-1]


def test_more_components_than_rank_change_nothing():
    targets, counts = label_targets(n_sets=300, n_components=4)
    wide = np.concatenate([targets, np.zeros((len(targets), 3))], axis=1)
    narrow = fit(targets, counts, n_codebooks=3, codebook_size=16)
    result = fit(wide, counts, n_codebooks=3, codebook_size=16)
    assert not result.codebooks[:, :, 4:].any()
    assert result.history[-1] == pytest.approx(narrow.history[-1])


def test_the_callback_sees_every_step_of_the_history():
    targets, counts = label_targets(n_sets=300)
    errors = []

    def record(codebooks, codes):
        errors.append(counts @ quantization_errors(targets, codes, codebooks))

    result = fit(targets, counts, n_codebooks=3, codebook_size=16, callback=record)
    np.testing.assert_allclose(errors, result.history)


def test_a_scaled_problem_has_the_scaled_solution():
    targets, counts = label_targets(n_sets=300)
    result = fit(targets, counts, n_codebooks=3, codebook_size=16)
    scaled = fit(targets * 1024, counts * 8, n_codebooks=3, codebook_size=16)
    np.testing.assert_array_equal(scaled.codes, result.codes)
    np.testing.assert_allclose(scaled.codebooks, result.codebooks * 1024, atol=1e-6)


def test_inputs_are_left_untouched():
    targets, counts = label_targets(n_sets=200)
    before = targets.copy(), counts.copy()
    fit(targets, counts)
    np.testing.assert_array_equal(targets, before[0])
    np.testing.assert_array_equal(counts, before[1])


def test_label_sets_of_real_photos_are_quantized_almost_without_error(data_dir):
    labels = np.load(data_dir / "mirflickr25k.npz")["labels"].astype(float)
    sets, counts = np.unique(labels, axis=0, return_counts=True)
    _, vectors = np.linalg.eigh((sets * counts[:, None]).T @ sets)
    weights = counts.astype(float)
    for n_components in (8, 24):
        targets = sets @ vectors[:, ::-1][:, :n_components]
        result = fit(targets, weights, n_codebooks=4, codebook_size=256)
        assert result.history[-1] < 2e-6 * spread(targets, weights)
