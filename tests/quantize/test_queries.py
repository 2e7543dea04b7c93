"""Quantizers for many items, and query-aware quantizers."""

import itertools

import numpy as np
import pytest

from acqh._core.runtime import limit_threads
from acqh.errors import InvalidInputError
from acqh.quantize import (
    AdditiveQuantizer,
    decode,
    fit_codebooks,
    quantization_errors,
    search_codes,
)
from acqh.quantize.code_search import Beams, extend_beams
from acqh.quantize.codebooks import sampled_kmeans, weighted_kmeans
from acqh.quantize.query_metric import (
    SHRINKAGES,
    choose_shrinkage,
    expected_error,
    metric_root,
    second_moment,
)

N_COMPONENTS = 12


def make_items(n_items=2000, seed=0):
    return np.random.default_rng(seed).normal(size=(n_items, N_COMPONENTS))


def make_queries(n_queries=600, seed=1):
    """Return queries that vary most in the last dimensions, where items vary least."""
    scales = np.geomspace(0.05, 2.0, N_COMPONENTS)
    return np.random.default_rng(seed).normal(size=(n_queries, N_COMPONENTS)) * scales


def make_quantizer(**settings):
    return AdditiveQuantizer(
        **{"n_codebooks": 3, "codebook_size": 16, "random_state": 0} | settings
    )


def recall(quantizer, items, queries):
    """Recall@10 by inner product."""
    decoded = quantizer.decode(quantizer.encode(items))
    best, result = (
        np.argsort(-queries @ vectors.T, axis=1)[:, :10] for vectors in (items, decoded)
    )
    return np.mean([len({*a} & {*b}) / 10 for a, b in zip(best, result, strict=True)])


def beam_twin(target, codebooks, beam_width, n_best):
    """Codes of one item by beam, best first; ties go to beam, then to word."""
    beams = [()]
    for s in range(len(codebooks)):
        grown = [(*beam, word) for beam in beams for word in range(codebooks.shape[1])]
        errors = [
            np.square(target - sum(codebooks[t, word] for t, word in enumerate(beam))).sum()
            for beam in grown
        ]
        width = n_best if s == len(codebooks) - 1 else beam_width
        beams = [grown[i] for i in np.argsort(errors, kind="stable")[:width]]
    return beams


def best_codes(items, codebooks, n_best, *, beam_width, dtype=np.float64):
    """Codes by beam, codebook after codebook."""
    beams = Beams.empty(len(items), dtype)
    for s in range(1, len(codebooks) + 1):
        n_kept = n_best if s == len(codebooks) else beam_width
        beams = extend_beams(items, codebooks[:s], beams, n_kept)
    return beams.codes


@pytest.mark.parametrize(("beam_width", "n_best"), [(1, 1), (4, 2), (5, 5)])
def test_the_best_codes_are_those_of_the_twin(beam_width, n_best):
    items = make_items(20)
    codebooks = np.random.default_rng(2).normal(size=(3, 6, N_COMPONENTS))
    result = best_codes(items, codebooks, n_best, beam_width=beam_width)
    expected = [beam_twin(item, codebooks, beam_width, n_best) for item in items]
    np.testing.assert_array_equal(result, expected)


def test_a_beam_as_wide_as_all_codes_finds_the_optimum():
    items = make_items(10)
    codebooks = np.random.default_rng(2).normal(size=(2, 3, N_COMPONENTS))
    result = best_codes(items, codebooks, 99, beam_width=99)
    assert result.shape == (10, 9, 2)
    codes = np.array(list(itertools.product(range(3), repeat=2)))
    for item, best in zip(items, result, strict=True):
        errors = np.square(item - decode(codes, codebooks)).sum(axis=1)
        np.testing.assert_array_equal(best, codes[np.argsort(errors)])


def test_the_best_codes_do_not_depend_on_threads():
    items = make_items(5000)
    codebooks = np.random.default_rng(2).normal(size=(2, 8, N_COMPONENTS))
    result = []
    for n_threads in (1, 2):
        with limit_threads(n_threads):
            result.append(best_codes(items, codebooks, 3, beam_width=4))
    np.testing.assert_array_equal(*result)


def test_means_of_a_sample_are_about_as_good_as_those_of_all():
    items, weights = make_items(4000), np.random.default_rng(3).random(4000)
    few = sampled_kmeans(items, weights, 16, np.random.default_rng(0))
    all_of_them, _ = weighted_kmeans(items, weights, 16, np.random.default_rng(0))
    errors = [
        weights @ np.square(items[:, None] - words).sum(axis=2).min(axis=1)
        for words in (few, all_of_them)
    ]
    assert errors[0] < 1.02 * errors[1]


@pytest.mark.parametrize("weights", [np.ones(40), np.arange(40) == 3])
def test_means_of_equal_or_weightless_points_are_finite(weights):
    points = np.tile([3.0, 4.0], (40, 1))
    words = sampled_kmeans(points, weights.astype(float), 4, np.random.default_rng(0))
    assert np.isfinite(words).all()
    assert np.square(words - points[0]).sum(axis=1).min() < 1e-10


def test_codebooks_trained_on_beams_code_new_items_better():
    scales = 0.95 ** np.arange(48)
    rows = np.random.default_rng(0).normal(size=(3000, 48)) * scales
    train, new = np.split(rows, [2000])
    errors = []
    for train_on_beams in (False, True):
        fitted = fit_codebooks(
            train,
            np.ones(2000),
            6,
            32,
            beam_width=8,
            train_on_beams=train_on_beams,
            rng=np.random.default_rng(0),
        )
        codes = search_codes(new, fitted.codebooks)
        errors.append(quantization_errors(new, codes, fitted.codebooks).mean())
        assert np.all(np.diff(fitted.history) <= 0)
    assert errors[1] < 0.98 * errors[0]


@pytest.mark.parametrize(("n_train", "is_few"), [(300, True), (4000, False)])
def test_a_ridge_chosen_by_rows_held_out_codes_new_items_as_well_as_can_be(n_train, is_few):
    """Of few rows as codebooks without sweeps do, of many as those with."""
    rows = np.random.default_rng(0).normal(size=(n_train + 500, 24)) * 0.9 ** np.arange(24)
    train, new = np.split(rows, [n_train])
    errors = {}
    ways = {"never": {"ridge": 1e12}, "always": {"ridge": 0.0}, "chosen": {}}
    for name, params in ways.items():
        quantizer = AdditiveQuantizer(5, 16, random_state=0, **params).fit(train)
        errors[name] = np.square(new - quantizer.decode(quantizer.encode(new))).sum()
    assert errors["chosen"] < 1.02 * min(errors["never"], errors["always"])
    assert (errors["never"] < errors["always"]) == is_few
    assert (quantizer.ridge_ > 0) == is_few


def test_no_ridge_is_chosen_of_a_handful_of_rows():
    rows = np.random.default_rng(0).normal(size=(5, 3))
    quantizer = AdditiveQuantizer(2, 4, random_state=0).fit(rows)
    assert quantizer.ridge_ == 0


def test_the_state_that_is_kept_is_the_best_of_the_history():
    items, weights = make_items(1000), np.random.default_rng(0).random(1000)
    fitted = fit_codebooks(
        items, weights, 3, 16, train_on_beams=True, rng=np.random.default_rng(0), max_iter=5
    )
    error = weights @ quantization_errors(items, fitted.codes, fitted.codebooks)
    assert error == pytest.approx(fitted.history[-1])


@pytest.mark.parametrize("train_on_beams", [False, True])
def test_the_same_seed_gives_the_same_fit_with_any_number_of_threads(train_on_beams):
    items, fits = make_items(5000), []
    for n_threads in (1, 2):
        rng = np.random.default_rng(0)
        with limit_threads(n_threads):
            fits.append(
                fit_codebooks(
                    items, np.ones(5000), 2, 8, train_on_beams=train_on_beams, rng=rng, max_iter=2
                )
            )
    np.testing.assert_array_equal(fits[0].codebooks, fits[1].codebooks)
    np.testing.assert_array_equal(fits[0].codes, fits[1].codes)


def test_the_root_turns_the_metric_into_the_euclidean_one():
    queries, items = make_queries(), make_items(50)
    root = metric_root(second_moment(queries), 0.2)
    metric = 0.8 * second_moment(queries) + 0.2 * np.eye(N_COMPONENTS)
    np.testing.assert_allclose(root.forward @ root.forward.T, metric, atol=1e-10)
    np.testing.assert_allclose((items @ root.forward) @ root.back, items, atol=1e-8)


def test_sample_queries_raise_the_recall():
    items, queries = make_items(), make_queries()
    new = make_queries(seed=9)
    plain = make_quantizer().fit(items)
    query_aware = make_quantizer().fit(items, queries=queries)
    assert query_aware.shrinkage_ < 1
    assert recall(query_aware, items, new) > recall(plain, items, new) + 0.1
    errors = [
        np.square(new @ (items - q.decode(q.encode(items))).T).mean() for q in (plain, query_aware)
    ]
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_isotropic_queries_do_not_lower_the_recall(seed):
    items, queries = make_items(), make_items(400, seed=seed + 10)
    new = make_items(400, seed=seed + 20)
    plain = recall(make_quantizer().fit(items), items, new)
    query_aware = recall(make_quantizer().fit(items, queries=queries), items, new)
    assert query_aware > plain - 0.02


def test_with_the_euclidean_metric_the_quantizer_equals_the_default_one():
    items = make_items()
    plain = make_quantizer().fit(items)
    query_aware = make_quantizer().fit(items, queries=make_items(400, seed=10))
    assert query_aware.shrinkage_ == 1.0
    assert query_aware.metric_ is None
    np.testing.assert_array_equal(plain.codebooks_, query_aware.codebooks_)


@pytest.mark.parametrize(("make", "is_plain"), [(make_queries, False), (make_items, True)])
@pytest.mark.parametrize("n_queries", [40, 600])
def test_the_metric_of_queries_is_taken_where_those_held_out_gain_by_it(make, is_plain, n_queries):
    items, weights = make_items(), np.ones(2000)
    shrinkage = choose_shrinkage(items, weights, make(n_queries, seed=5), n_bits=12.0)
    assert (shrinkage == 1.0) == is_plain
    assert choose_shrinkage(items, weights, make(1, seed=5), n_bits=12.0) == 1.0


def test_the_plainest_of_metrics_that_serve_queries_about_as_well_is_taken():
    rng = np.random.default_rng(0)
    items = rng.normal(size=(2000, 32))
    queries = rng.normal(size=(400, 32)) * np.where(np.arange(32) < 4, 1.0, 0.35)
    moments = second_moment(queries[::2]), second_moment(queries[1::2])
    spread = np.cov(items.T, bias=True)
    errors = {
        weight: sum(
            expected_error((1 - weight) * one + weight * np.eye(32), other, spread, 32.0)
            for one, other in (moments, moments[::-1])
        )
        for weight in SHRINKAGES
    }
    chosen = choose_shrinkage(items, np.ones(2000), queries, 32.0)
    assert chosen == 0.6
    assert min(errors, key=errors.get) < chosen
    assert errors[chosen] <= 1.07 * min(errors.values()) < errors[1.0]


def test_more_queries_are_trusted_no_less():
    items, weights = make_items(), np.ones(2000)
    few, many = (choose_shrinkage(items, weights, make_queries(n), n_bits=12.0) for n in (10, 2000))
    assert many <= few


def test_no_quantizer_codes_better_than_expected_of_normal_items():
    items, queries = make_items(4000), make_queries()
    judge = second_moment(queries)
    quantizer = make_quantizer().fit(items, queries=queries)
    left = items - quantizer.decode(quantizer.encode(items))
    error = np.einsum("ij,jk,ik->i", left, judge, left).mean()
    least = expected_error(quantizer.metric_, judge, np.cov(items.T, bias=True), n_bits=12.0)
    assert 0.2 * error < least < error


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_searched_under_the_metric(dtype):
    items = make_items(400).astype(dtype)
    quantizer = make_quantizer(ridge=0.0).fit(items, queries=make_queries())
    metric = quantizer.metric_
    codes = quantizer.encode(items)
    expected = search_codes(items @ metric, quantizer.codebooks_, metric=metric, dtype=np.float64)

    def costs(codes):
        left = items - decode(codes, quantizer.codebooks_)
        return np.einsum("ij,jk,ik->i", left, metric, left)

    np.testing.assert_allclose(costs(codes), costs(expected), rtol=1e-3)
    assert costs(codes).sum() == pytest.approx(quantizer.history_[-1], rel=1e-3)


def test_directions_that_no_query_sees_do_not_blow_up():
    items = make_items() + 5.0
    queries = np.zeros((50, N_COMPONENTS))
    queries[:, 0] = np.random.default_rng(0).normal(size=50)
    root = metric_root(second_moment(queries), 0.0)
    words = root.codewords((items @ root.forward)[np.newaxis], items.mean(axis=0))[0]
    np.testing.assert_allclose(words[:, 0], items[:, 0])
    np.testing.assert_allclose(words[:, 1:], np.tile(items.mean(axis=0)[1:], (len(items), 1)))
    quantizer = make_quantizer().fit(items, queries=queries)
    assert quantizer.shrinkage_ < 1
    assert np.isfinite(quantizer.decode(quantizer.encode(items))).all()


@pytest.mark.parametrize("queries", [np.zeros((40, N_COMPONENTS)), np.ones((1, N_COMPONENTS))])
def test_uninformative_queries_keep_the_euclidean_metric(queries):
    assert make_quantizer().fit(make_items(300), queries=queries).shrinkage_ == 1.0


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.ones((5, 3)), "12"),
        (np.full((5, N_COMPONENTS), np.nan), "NaN"),
        (np.ones(N_COMPONENTS), "n_queries"),
        (np.ones((0, N_COMPONENTS)), "shape"),
        ([["a"] * N_COMPONENTS], "n_queries"),
    ],
)
def test_queries_that_cannot_be_used_are_rejected(queries, message):
    with pytest.raises(InvalidInputError, match=message):
        make_quantizer().fit(make_items(100), queries=queries)


@pytest.mark.parametrize("n_items", [100, 1000])
def test_codes_of_training_are_kept_and_are_not_worse_than_those_of_encode(n_items):
    items = make_items(n_items)
    weights = np.arange(n_items) % 5
    quantizer = make_quantizer(n_codebooks=4).fit(items, sample_weight=weights)

    def errors(codes):
        return quantization_errors(items, codes, quantizer.codebooks_)

    training, searched = errors(quantizer.training_codes_), errors(quantizer.encode(items))
    assert weights @ training <= weights @ searched * (1 + 1e-6)
    np.testing.assert_array_equal(training[weights == 0], searched[weights == 0])
