import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from acqh.errors import InvalidInputError, NotFittedError
from acqh.index import CodeIndex
from acqh.quantize import AdditiveQuantizer, quantization_errors, search_codes


def make_rows(n_items=300, n_components=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n_items, n_components))


def make_quantizer(**settings):
    return AdditiveQuantizer(**{"n_codebooks": 3, "codebook_size": 8, "random_state": 0} | settings)


@parametrize_with_checks([AdditiveQuantizer(2, 4, random_state=0)])
def test_scikit_learn_contract_holds(estimator, check):
    check(estimator)


@pytest.mark.parametrize("ridge", [None, 0, 2.5])
def test_a_fitted_quantizer_survives_json(ridge):
    quantizer = make_quantizer(ridge=ridge).fit(make_rows())
    info, arrays = quantizer.to_state()
    again = AdditiveQuantizer.from_state(json.loads(json.dumps(info, allow_nan=False)), arrays)
    learnt = {name for name in vars(quantizer) if name.endswith("_")} - {"training_codes_"}
    for name in learnt:
        np.testing.assert_equal(getattr(again, name), getattr(quantizer, name), err_msg=name)


def test_encode_is_the_code_search_with_the_fitted_codebooks():
    rows = make_rows()
    quantizer = make_quantizer(beam_width=3).fit(rows)
    expected = search_codes(rows, quantizer.codebooks_, beam_width=3)
    np.testing.assert_array_equal(quantizer.encode(rows), expected)
    np.testing.assert_array_equal(quantizer.transform(rows), expected)
    np.testing.assert_array_equal(quantizer.inverse_transform(expected), quantizer.decode(expected))


def test_initial_codes_are_only_improved():
    rows = make_rows()
    quantizer = make_quantizer(beam_width=1).fit(rows)
    start = search_codes(rows, quantizer.codebooks_, beam_width=16)
    codes = quantizer.encode(rows, start=start)
    before = quantization_errors(rows, start, quantizer.codebooks_)
    assert np.all(quantization_errors(rows, codes, quantizer.codebooks_) <= before)


def test_weights_are_copies_in_any_order():
    rows = make_rows(80)
    counts = np.random.default_rng(1).integers(0, 4, 80)
    copies = np.random.default_rng(2).permutation(np.repeat(np.arange(80), counts))
    weighted = make_quantizer().fit(rows, sample_weight=counts)
    copied = make_quantizer().fit(rows[copies])
    np.testing.assert_array_equal(weighted.codebooks_, copied.codebooks_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codebooks_have_the_dtype_of_the_rows(dtype):
    quantizer = make_quantizer().fit(make_rows().astype(dtype))
    assert quantizer.codebooks_.dtype == dtype
    assert quantizer.decode(quantizer.encode(make_rows())).dtype == dtype


def test_float32_codes_are_as_good_as_float64_codes():
    rows = make_rows(2000).astype(np.float32)  # so that both are trained on the same numbers
    errors = []
    for dtype in (np.float32, np.float64):
        quantizer = make_quantizer(codebook_size=64).fit(rows.astype(dtype))
        errors.append(np.square(rows - quantizer.decode(quantizer.encode(rows))).mean())
    assert errors[0] == pytest.approx(errors[1], rel=1e-4)


@pytest.mark.parametrize("n_codebooks", [1, 16])
@pytest.mark.parametrize("codebook_size", [2, 16, 256])
@pytest.mark.parametrize("n_components", [1, 3])
def test_every_valid_size_works_with_fewer_rows_than_codewords(
    n_codebooks, codebook_size, n_components
):
    rows = make_rows(12, n_components)
    quantizer = AdditiveQuantizer(n_codebooks, codebook_size, random_state=0).fit(rows)
    assert quantizer.codebooks_.shape == (n_codebooks, codebook_size, n_components)
    decoded = quantizer.decode(quantizer.encode(rows))
    assert np.isfinite(decoded).all()
    if codebook_size >= 12:
        np.testing.assert_allclose(decoded, rows, atol=1e-10)


def test_it_can_be_cloned_and_put_in_a_pipeline():
    quantizer = clone(make_quantizer(beam_width=3))
    assert quantizer.get_params()["beam_width"] == 3
    pipeline = make_pipeline(StandardScaler(), quantizer).fit(make_rows())
    assert pipeline.transform(make_rows()).shape == (300, 3)
    assert list(quantizer.get_feature_names_out()) == [f"additivequantizer{i}" for i in range(3)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_codebooks": 65}, "n_codebooks"),
        ({"codebook_size": 257}, "codebook_size"),
        ({"codebook_size": 1}, "codebook_size"),
        ({"beam_width": 0}, "beam_width"),
        ({"ridge": -1.0}, "ridge"),
    ],
)
def test_settings_out_of_range_are_rejected(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        make_quantizer(**settings).fit(make_rows())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(300), "zero"),
        (np.full(300, -1.0), "negative"),
        (np.full(300, np.nan), "NaN"),
        (np.ones(299), "300"),
    ],
)
def test_weights_that_cannot_be_used_are_rejected(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        make_quantizer().fit(make_rows(), sample_weight=weights)


def test_a_row_that_is_not_finite_is_named():
    rows = make_rows()
    rows[7, 2] = np.nan
    with pytest.raises(InvalidInputError, match="row 7"):
        make_quantizer().fit(rows)
    with pytest.raises(InvalidInputError, match="row 7"):
        make_quantizer().fit(make_rows()).encode(rows)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((2, 2), dtype=np.uint8), "shape"),
        (np.full((2, 3), 8), "got 8"),
        (np.full((2, 3), -1), "got -1"),
        (np.zeros((2, 3)), "whole numbers"),
    ],
)
def test_codes_that_cannot_be_decoded_are_rejected(codes, message):
    quantizer = make_quantizer().fit(make_rows())
    with pytest.raises(InvalidInputError, match=message):
        quantizer.decode(codes)


def test_an_unfitted_quantizer_raises():
    with pytest.raises(NotFittedError, match="fit"):
        make_quantizer().decode([[0, 0, 0]])


@pytest.mark.parametrize("exponent", [-90, 90])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_power_of_two_in_all_rows_changes_no_code(exponent, dtype):
    rows = np.random.default_rng(0).normal(size=(400, 4)).astype(dtype)
    scaled = np.ldexp(rows, exponent)
    plain = AdditiveQuantizer(2, 16, random_state=0).fit(rows)
    quantizer = AdditiveQuantizer(2, 16, random_state=0).fit(scaled)
    np.testing.assert_array_equal(quantizer.encode(scaled), plain.encode(rows))
    np.testing.assert_array_equal(quantizer.codebooks_, np.ldexp(plain.codebooks_, exponent))


def test_many_codebooks_keep_codes_that_a_search_from_scratch_does_not_find():
    rows = np.random.default_rng(0).normal(size=(300, 12))
    quantizer = AdditiveQuantizer(12, 16, beam_width=8, ridge=0.0, random_state=0).fit(rows)
    unchanged, result = (
        quantization_errors(rows, codes, quantizer.codebooks_).sum()
        for codes in (quantizer.training_codes_, quantizer.encode(rows))
    )
    assert unchanged < 0.8 * result
    assert quantizer.history_[-1] == pytest.approx(unchanged)


def test_more_codebooks_widen_the_default_beam():
    rows = np.random.default_rng(0).normal(size=(400, 6))
    for n_codebooks, width in ((4, 8), (5, 16)):
        quantizer = AdditiveQuantizer(n_codebooks, 8, random_state=0).fit(rows)
        expected = search_codes(rows, quantizer.codebooks_, beam_width=width)
        np.testing.assert_array_equal(quantizer.encode(rows), expected)


def test_more_rows_than_are_trained_on_are_drawn_and_all_are_encoded():
    rows = np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32)
    quantizer = AdditiveQuantizer(2, 8, n_train=300, random_state=0).fit(rows)
    assert quantizer.training_codes_.shape == (900, 2)
    full = AdditiveQuantizer(2, 8, random_state=0).fit(rows)
    assert not np.array_equal(quantizer.codebooks_, full.codebooks_)
    errors = [np.square(rows - q.decode(q.training_codes_)).mean() for q in (quantizer, full)]
    assert errors[1] < errors[0] < 1.3 * errors[1]


def test_drawn_rows_do_not_depend_on_their_order():
    rows = np.random.default_rng(0).normal(size=(500, 4))
    one, other = (
        AdditiveQuantizer(2, 8, n_train=100, random_state=0).fit(order)
        for order in (rows, rows[::-1])
    )
    np.testing.assert_array_equal(one.codebooks_, other.codebooks_)
    np.testing.assert_array_equal(one.training_codes_, other.training_codes_[::-1])


def test_few_rows_are_all_trained_on():
    rows = np.random.default_rng(0).normal(size=(300, 4))
    one, other = (
        AdditiveQuantizer(2, 8, n_train=n, random_state=0).fit(rows) for n in (300, 65_536)
    )
    np.testing.assert_array_equal(one.codebooks_, other.codebooks_)


def test_the_relative_error_is_that_of_the_codes():
    rows = make_rows()
    quantizer = make_quantizer().fit(rows)
    errors = rows - quantizer.decode(quantizer.encode(rows))
    expected = np.square(errors).sum() / np.square(rows).sum()
    assert quantizer.relative_error(rows) == pytest.approx(expected)


def test_an_unknown_keyword_of_fit_suggests_the_nearest():
    with pytest.raises(TypeError, match="did you mean 'queries'"):
        AdditiveQuantizer().fit(np.ones((3, 2)), query=np.ones((1, 2)))


def test_more_than_16_codebooks_are_trained_in_groups():
    rows = np.random.default_rng(0).normal(size=(800, 32)).astype(np.float32)
    quantizers = [AdditiveQuantizer(n, 4, random_state=0).fit(rows) for n in (16, 24, 64)]
    errors = [quantizer.relative_error(rows) for quantizer in quantizers]
    assert errors[1] < 0.8 * errors[0]
    assert errors[2] < 0.5 * errors[1]
    largest = quantizers[-1]
    codes = largest.encode(rows, start=largest.training_codes_)
    index = CodeIndex(largest.codebooks_).add(codes)
    hits, scores = index.search(rows[:9], 20), rows[:9] @ largest.decode(codes).T
    np.testing.assert_allclose(hits.scores, -np.sort(-scores, axis=1)[:, :20], rtol=1e-4)


def test_codes_of_several_groups_to_start_from_stay_unless_others_are_better():
    rows = np.random.default_rng(0).normal(size=(300, 8))
    quantizer = AdditiveQuantizer(18, 3, random_state=0).fit(rows)
    start = quantizer.training_codes_
    errors = [
        np.square(rows - quantizer.decode(codes)).sum(axis=1)
        for codes in (start, quantizer.encode(rows, start=start))
    ]
    assert (errors[1] <= errors[0] + 1e-12).all()
