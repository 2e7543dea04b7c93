import numpy as np
import pytest
import scipy.sparse as sp

import acqh
from acqh.bench import evaluate, make_split
from acqh.errors import InvalidInputError, LabelError, NotFittedError, ViewError
from acqh.methods.baselines.label_ridge import LabelRidge


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(240, n_labels=4, random_state=0)


@pytest.fixture(scope="module")
def wiki(data_dir):
    with np.load(data_dir / "wiki.npz") as file:
        views = {"image": file["image"], "text": file["text"]}
        splits = {"train": file["train_idx"], "test": file["test_idx"]}
        return acqh.MultiViewData(views, file["labels"], splits=splits, name="wiki")


def test_wiki_with_the_official_split_gives_the_known_results(wiki):
    rows = evaluate(LabelRidge(), wiki, make_split(wiki, "labelled", official=True))
    result = {row.direction: row.map_all for row in rows}
    assert result["image->text"] == pytest.approx(0.387, abs=0.01)
    assert result["text->image"] == pytest.approx(0.725, abs=0.01)


def test_constant_codes_give_chance_on_wiki(wiki):
    class Constant(LabelRidge):
        def encode(self, views=None, *, labels=None, mode=None):
            return np.ones_like(super().encode(views, labels=labels, mode=mode))

    rows = evaluate(Constant(), wiki, make_split(wiki, "labelled", official=True))
    for row in rows:
        assert row.map_all == pytest.approx(0.1114, abs=5e-4)
        assert row.n_codes == 1


def test_chunks_give_the_same_fit_as_the_whole(data):
    full = LabelRidge().fit(data)
    parts = LabelRidge().fit(data.chunks(37))
    for view, result in full.projections_.items():
        np.testing.assert_allclose(parts.projections_[view], result, rtol=1e-9, atol=1e-12)


def test_sparse_and_dense_views_give_the_same_fit(data):
    dense = LabelRidge().fit(data.views, data.labels)
    sparse = LabelRidge().fit(
        {name: sp.csr_array(matrix) for name, matrix in data.views.items()},
        sp.csr_array(data.labels),
    )
    for view, matrix in data.views.items():
        np.testing.assert_allclose(
            sparse.project(sp.csr_array(matrix), view=view),
            dense.project(matrix, view=view),
            atol=1e-5,
        )


def test_labelled_items_are_their_label_vectors_and_others_the_mean_prediction(data):
    control = LabelRidge().fit(data.views, data.labels)
    np.testing.assert_array_equal(control.encode(labels=data.labels), data.labels)
    both = control.encode(data.views)
    projected = [control.project(matrix, view=view) for view, matrix in data.views.items()]
    np.testing.assert_allclose(both, np.mean(projected, axis=0), atol=1e-6)
    assert control.bytes_per_item == 16


def test_feature_maps_are_applied_to_queries_too(data):
    mapped = LabelRidge(feature_maps={"image": "unit_norm"}).fit(data.views, data.labels)
    image = data.views["image"]
    np.testing.assert_allclose(
        mapped.project(3.0 * image, view="image"), mapped.project(image, view="image"), atol=1e-5
    )


def test_wrong_input_is_rejected_with_the_reason(data):
    control = LabelRidge()
    with pytest.raises(NotFittedError, match="call fit first"):
        control.project(data.views["image"], view="image")
    with pytest.raises(LabelError, match="label"):
        control.fit(data.views)
    with pytest.raises(LabelError, match="label"):
        control.fit(data.views, np.zeros((len(data), 2)))
    with pytest.raises(InvalidInputError, match="mapping of names"):
        control.fit(data.views["image"], data.labels)
    with pytest.raises(InvalidInputError, match="empty"):
        control.fit(iter(()))
    with pytest.raises(InvalidInputError, match="differ"):
        control.fit(data, 1 - data.labels)
    with pytest.raises(InvalidInputError, match="not list of mappingproxy"):
        control.fit([data.views])
    with pytest.raises(InvalidInputError, match="ridge"):
        LabelRidge(ridge=-1.0).fit(data)
    with pytest.raises(ViewError, match=r"sound"):
        LabelRidge(feature_maps={"sound": "bias"}).fit(data)
    control.fit(data)
    with pytest.raises(ViewError, match="'sound'"):
        control.project(data.views["image"], view="sound")
    with pytest.raises(ViewError, match="3 features"):
        control.project(np.ones((2, 3)), view="image")
    with pytest.raises(ViewError, match="row 1"):
        control.project(np.full((2, data.views["image"].shape[1]), [[1.0], [np.nan]]), view="image")
    with pytest.raises(LabelError, match="3 columns"):
        control.encode(labels=np.eye(3))
    with pytest.raises(LabelError, match="no labels"):
        control.encode(labels=np.zeros((2, 4)))
    with pytest.raises(InvalidInputError, match="give labels"):
        control.encode()
    with pytest.raises(InvalidInputError, match="give views"):
        control.encode(labels=data.labels, mode="single")
    with pytest.raises(InvalidInputError, match="cannot code a database as 'magic'"):
        control.encode(data.views, mode="magic")


def test_chunks_must_agree_in_views_and_label_names(data):
    other = acqh.MultiViewData(dict(data.views), data.labels, label_names=list("wxyz"))
    with pytest.raises(LabelError, match="label names differ"):
        LabelRidge().fit([data, other])
    with pytest.raises(ViewError, match="as before"):
        LabelRidge().fit([data, acqh.MultiViewData({"image": data.views["image"]}, data.labels)])
