import numpy as np
import pytest
import scipy.sparse as sp

from acqh.data import make_multiview, make_multiview_like
from acqh.errors import InvalidInputError


def accuracy_of_least_squares(features, labels):
    features = features.toarray().astype(float) if sp.issparse(features) else features
    with_bias = np.hstack([features, np.ones((len(features), 1))])
    half = len(features) // 2
    weights = np.linalg.lstsq(with_bias[:half], labels[:half].astype(float), rcond=None)[0]
    predicted = np.argmax(with_bias[half:] @ weights, axis=1)
    return float(labels[half:][np.arange(len(predicted)), predicted].mean())


def test_labels_are_predictable_from_every_view_and_less_so_with_noise():
    options = {"widths": {"image": 12, "text": 40}, "sparse": ["text"], "random_state": 0}
    clear = make_multiview(2000, noise=0.2, **options)
    dim = make_multiview(2000, noise=8.0, **options)
    for view in clear.views:
        assert accuracy_of_least_squares(clear.views[view], clear.labels) > 0.8
        assert 0.2 < accuracy_of_least_squares(dim.views[view], dim.labels) < 0.6


def test_dense_views_share_more_than_labels():
    data = make_multiview(500, {"a": 16, "b": 16}, n_labels=1, noise=0.1, random_state=0)
    a, b = (data.views[name] - data.views[name].mean(axis=0) for name in data.views)
    explained = a @ np.linalg.lstsq(a, b, rcond=None)[0]
    assert np.sum((b - explained) ** 2) < 0.2 * np.sum(b**2)


def test_views_have_the_requested_widths_types_and_values():
    data = make_multiview(300, {"a": 3, "b": 50}, sparse={"b"}, random_state=1)
    assert data.views["a"].dtype == np.float32
    assert data.views["a"].shape == (300, 3)
    assert sp.issparse(data.views["b"])
    assert data.views["b"].dtype == np.uint8
    assert set(data.views["b"].data) == {1}
    assert np.diff(data.views["b"].indptr).min() >= 1
    assert data.labels.sum(axis=1).tolist() == [1] * 300
    assert data.name == "synthetic"


def test_several_labels_an_item_are_at_least_one():
    data = make_multiview(2000, n_labels=8, single_label=False, random_state=0)
    counts = data.labels.sum(axis=1)
    assert counts.min() == 1
    assert counts.max() > 1
    assert data.labels.any(axis=0).all()


def test_missing_items_lack_one_view_each():
    data = make_multiview(100, missing=0.3, random_state=0)
    lacking = np.sum([~mask for mask in data.present.values()], axis=0)
    assert sorted(set(lacking)) == [0, 1]
    assert lacking.sum() == 30
    assert not data.views["image"][~data.present["image"]].any()


def test_the_seed_decides_everything():
    first, again, other = (make_multiview(50, sparse=["text"], random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.views["image"], again.views["image"])
    np.testing.assert_array_equal(first.views["text"].toarray(), again.views["text"].toarray())
    np.testing.assert_array_equal(first.labels, again.labels)
    assert not np.array_equal(first.views["image"], other.views["image"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": {}}, "no view"),
        ({"widths": {"image": 0}}, "image width must be a whole number"),
        ({"n_items": 0}, "n_items must be"),
        ({"n_labels": 0}, "n_labels must be"),
        ({"sparse": ["sound"]}, r"\['sound'\], but the views are \['image', 'text'\]"),
        ({"missing": 1.5}, "from 0 to 1"),
        ({"missing": 0.5, "widths": {"image": 3}}, "only view"),
        ({"noise": -1}, "noise"),
        ({"noise": float("nan")}, "noise"),
    ],
)
def test_wrong_settings_are_rejected(options, message):
    with pytest.raises(InvalidInputError, match=message):
        make_multiview(**options)


@pytest.mark.parametrize(
    ("name", "n", "image", "text", "sparse", "n_labels", "single"),
    [
        ("wiki", 2_866, 128, 10, False, 10, True),
        ("mirflickr25k", 20_015, 150, 1_386, True, 24, False),
        ("uci_mfeat", 2_000, 76, 64, False, 10, True),
    ],
)
def test_make_multiview_like_has_the_published_shape(
    name, n, image, text, sparse, n_labels, single
):
    data = make_multiview_like(name, random_state=0)
    assert data.n_items == n
    assert data.views["image"].shape[1] == image
    assert data.views["text"].shape[1] == text
    assert sp.issparse(data.views["text"]) == sparse
    assert data.labels.shape[1] == n_labels
    assert bool(np.all(data.labels.sum(axis=1) == 1)) == single
    assert data.name == f"synthetic-{name}"


def test_make_multiview_like_takes_another_number_of_items():
    data = make_multiview_like("nuswide10", n_items=777, random_state=0)
    assert len(data) == 777
    assert data.views["image"].shape == (777, 500)
    assert data.views["image"].dtype == np.float32
    assert data.views["text"].shape == (777, 1000)
    assert data.labels.shape == (777, 10)


def test_make_multiview_like_lists_its_data_sets():
    with pytest.raises(InvalidInputError, match="nuswide10"):
        make_multiview_like("coco")
