"""Floats of unusual types, magnitudes and offsets are fitted like others."""

import numpy as np
import pytest
import scipy.sparse as sp

import acqh
from acqh.errors import ViewError
from acqh.features import ConditionalCentering
from acqh.stats import Statistics

DATA = acqh.make_multiview(200, n_labels=5, random_state=0)
IMAGE = np.asarray(DATA.views["image"], dtype=np.float64)
# Networks take long, `label-ridge` has no random state.
OTHERS = sorted(set(acqh.methods.list()) - {"acqh", "ddcmh", "deep-cmh", "label-ridge"})


def fit(image, name="acqh", **parameters):
    method = acqh.methods.get(name)(random_state=0, **parameters)
    return method.fit({"image": image, "text": DATA.views["text"]}, DATA.labels)


def precision(model, image):
    """Of the first 20 items that an image finds, by their codes from labels."""
    scores = model.project(image, view="image") @ model.decode(model.encode(labels=DATA.labels)).T
    first = np.argsort(-scores, axis=1)[:, :20]
    relevant = DATA.labels @ DATA.labels.T > 0
    return float(np.take_along_axis(relevant, first, axis=1).mean())


@pytest.fixture(scope="module")
def usual():
    return precision(fit(IMAGE), IMAGE)


@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", "longdouble"])
def test_every_float_type_can_be_fitted(dtype, usual):
    image = IMAGE.astype(dtype)
    model = fit(image)
    assert precision(model, image) == pytest.approx(usual, abs=0.01)
    assert len(np.unique(model.encode({"image": image}), axis=0)) > 100


def test_half_precision_gives_the_codes_of_single_precision():
    half = IMAGE.astype(np.float16)
    both = [fit(x).encode({"image": x}) for x in (half, half.astype(np.float32))]
    np.testing.assert_array_equal(*both)
    labels = np.asarray(DATA.labels)
    sums = [Statistics.from_views({"image": x}, labels) for x in (half, half.astype(np.float64))]
    np.testing.assert_array_equal(sums[0].views["image"].gram, sums[1].views["image"].gram)


@pytest.mark.parametrize("scale", [1e-55, 1e55])
def test_the_scale_of_a_view_does_not_matter(scale, usual):
    image = IMAGE * scale
    model = fit(image)
    assert precision(model, image) == pytest.approx(usual, abs=0.01)
    assert len(np.unique(model.encode({"image": image}), axis=0)) > 100
    sparse = sp.csr_array(image)
    assert precision(fit(sparse), sparse) == pytest.approx(usual, abs=0.01)


@pytest.mark.parametrize("scale", [1e-300, 1e160, 1e300])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_numbers_whose_squares_cannot_be_summed_are_rejected(scale, make):
    with pytest.raises(ViewError, match="scale"):
        fit(make(IMAGE * scale))


@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
def test_a_view_far_from_zero_is_centred_first(offset, usual):
    image = IMAGE + offset
    assert precision(fit(image), image) == pytest.approx(usual, abs=0.02)


@pytest.mark.filterwarnings("ignore::acqh.errors.FewerBitsWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_no_method_fails_on_extreme_numbers(name):
    views = {"image": IMAGE[:80] * 1e55, "text": DATA.views["text"][:80] + 1e8}
    model = acqh.methods.get(name)(random_state=0).fit(views, DATA.labels[:80])
    for view, matrix in views.items():
        assert np.isfinite(model.embed_queries(matrix, view=view)).all()


def test_usual_numbers_are_not_touched():
    assert fit(IMAGE).feature_maps_ == {}
    assert not ConditionalCentering().fit(IMAGE).is_needed
    assert not ConditionalCentering().fit(np.ones((3, 2))).is_needed


def test_the_scaling_is_saved_with_the_method_and_precedes_a_named_map(tmp_path):
    image = IMAGE + 1e8
    model = fit(image, feature_maps={"image": "bias"})
    model.save(tmp_path / "model")
    loaded = acqh.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.project(image, view="image"), model.project(image, view="image")
    )
    kinds = [type(step).__name__ for _, step in loaded.feature_maps_["image"].steps]
    assert kinds == ["ConditionalCentering", "Bias"]


def test_parts_share_the_condition_of_the_first(usual):
    image = IMAGE + 1e8
    views = {"image": image, "text": DATA.views["text"]}
    model = acqh.ACQH(random_state=0)
    for rows in (slice(0, 80), slice(80, 200)):
        part = {view: matrix[rows] for view, matrix in views.items()}
        model.partial_fit(part, DATA.labels[rows])
    assert precision(model, image) == pytest.approx(usual, abs=0.01)


def test_a_row_whose_squares_overflow_raises_an_acqh_error():
    labels = np.tile(np.eye(2, dtype=np.uint8), (5_000, 1))
    image = np.random.default_rng(0).normal(size=(10_000, 3))
    image[1] = 1e200  # not among the rows by which sizes are judged
    with pytest.raises(ViewError, match="overflow float64"):
        acqh.ACQH(4, random_state=0).fit({"image": image}, labels)
