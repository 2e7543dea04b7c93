import numpy as np
import pytest

import acqh
from acqh.errors import DeviceError, InvalidInputError, LabelError, ViewError
from acqh.features import KernelMap

torch = pytest.importorskip("torch", reason="torch is not installed")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    ),
]
# What is learnt from: labels alone, content, both, and directions.
SETTINGS = {
    "labels": {},
    "content": {"targets": {"image": 0.5, "text": 0.5}},
    "half trusted": {
        "targets": {"image": 0.5, "text": acqh.Target(0.5, "cosine", caption_weight=0.3)}
    },
    "both": {"targets": {"labels": 0.5, "text": acqh.Target(0.5, "cosine")}},
    "fixed ridge": {"ridge": 0.01, "similarity": "jaccard"},
    "Algorithm 1": {"make": acqh.methods.ACQHPaper, "max_iter": 3, "tol": 0.5},
}

# With kernel maps: labels alone, content of one view.
KERNELS = {
    "labels": {"feature_maps": KernelMap("rbf", bandwidth=1.0)},
    "content": {
        "feature_maps": {"image": KernelMap(n_anchors=100)},
        "targets": {"image": 0.5, "text": 0.5},
    },
}


def make_data(seed=0, dtype=np.float32):
    data = acqh.make_multiview(500, n_labels=5, random_state=seed)
    views = {name: matrix.astype(dtype) for name, matrix in data.views.items()}
    labels = np.asarray(data.labels)
    labels[:40] = 0
    return views, labels


def to_device(views, device):
    return {name: torch.from_numpy(matrix).to(device) for name, matrix in views.items()}


def make_model(make=acqh.ACQH, **settings):
    return make(n_components=8, n_codebooks=2, codebook_size=16, random_state=0, **settings)


def share_that_differs(result, expected):
    return np.mean(np.any(result.cpu().numpy() != expected, axis=1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SETTINGS)
def test_models_and_codes_of_tensors_are_those_of_arrays(device, name):
    views, labels = make_data()
    tensors, on_device = to_device(views, device), torch.from_numpy(labels).to(device)
    expected = make_model(**SETTINGS[name]).fit(views, labels)
    model = make_model(**SETTINGS[name]).fit(tensors, on_device)
    np.testing.assert_allclose(model.codebooks_, expected.codebooks_, rtol=1e-3, atol=1e-4)
    assert model.label_names_ == expected.label_names_
    for view, rows in tensors.items():
        vectors = model.project(rows, view=view)
        assert vectors.device == rows.device
        assert vectors.dtype == torch.float32
        target = expected.project(views[view], view=view)
        np.testing.assert_allclose(vectors.cpu().numpy(), target, rtol=1e-3, atol=1e-4)
        codes = model.encode({view: rows})
        assert codes.device == rows.device
        # Rounding may settle a tie differently.
        assert share_that_differs(codes, expected.encode({view: views[view]})) <= 0.01
    assert share_that_differs(model.encode(tensors), expected.encode(views)) <= 0.01
    codes = model.encode(tensors, labels=on_device)
    assert share_that_differs(codes, expected.encode(views, labels=labels)) <= 0.01
    result = model.embed(tensors, labels=on_device).cpu().numpy()
    np.testing.assert_allclose(result, expected.embed(views, labels=labels), rtol=1e-3, atol=1e-4)
    decoded = model.decode(codes)
    assert decoded.device == codes.device
    np.testing.assert_allclose(decoded.cpu().numpy(), model.decode(codes.cpu().numpy()), atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_items_are_encoded_from_tensors_of_labels_alone(device):
    views, labels = make_data()
    for settings in (SETTINGS["labels"], SETTINGS["both"]):
        model = make_model(**settings).fit(views, labels)
        expected = labels[40:]
        expected[0] = 1  # a set that was not fitted
        codes = model.encode(labels=torch.from_numpy(expected).to(device))
        assert share_that_differs(codes, model.encode(labels=expected)) <= 0.01
        with pytest.raises(LabelError, match="item 0"):
            model.encode(labels=torch.from_numpy(labels).to(device))


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_are_moved_to_a_device_and_returned_as_arrays(device):
    views, labels = make_data()
    expected = make_model().fit(views, labels)
    model = make_model().fit(views, labels, device=device)
    np.testing.assert_allclose(model.codebooks_, expected.codebooks_, rtol=1e-3, atol=1e-4)
    codes = model.encode(views, device=device, max_memory=1 << 16)
    assert isinstance(codes, np.ndarray)
    assert np.mean(np.any(codes != expected.encode(views), axis=1)) <= 0.01
    vectors = model.project(views["text"], view="text", device=device)
    np.testing.assert_allclose(vectors, model.project(views["text"], view="text"), atol=1e-4)


def scores(model, views):
    """Return scores of image queries before quantization: codebooks may follow from rounding."""
    result = model.project(views["image"], view="image") @ model.embed(views).T
    return result if isinstance(result, np.ndarray) else result.cpu().numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_maps_of_tensors_are_those_of_arrays(device, name):
    views, labels = make_data()
    tensors, on_device = to_device(views, device), torch.from_numpy(labels).to(device)
    expected = make_model(**KERNELS[name]).fit(views, labels)
    model = make_model(**KERNELS[name]).fit(tensors, on_device)
    np.testing.assert_allclose(scores(model, tensors), scores(expected, views), atol=5e-3)
    for some in ({"image": tensors["image"]}, tensors):
        codes = model.encode(some)
        assert codes.device == tensors["image"].device
        arrays = {view: views[view] for view in some}
        assert share_that_differs(codes, model.encode(arrays)) <= 0.01


@pytest.mark.parametrize("device", DEVICES)
def test_kernels_of_arrays_are_fitted_and_used_on_a_device(device):
    views, labels = make_data()
    first = {name: matrix[:300] for name, matrix in views.items()}
    more = {name: matrix[300:] for name, matrix in views.items()}
    settings = {"feature_maps": {"image": KernelMap("rbf")}}
    expected = make_model(**settings).fit(first, labels[:300])
    model = make_model(**settings).fit(first, labels[:300], device=device)
    np.testing.assert_allclose(scores(model, more), scores(expected, more), atol=5e-3)
    codes = model.encode(more, device=device, max_memory=1 << 16)
    assert np.mean(np.any(codes != model.encode(more), axis=1)) <= 0.01
    expected.partial_fit(more, labels[300:])
    model.partial_fit(more, labels[300:], device=device)
    np.testing.assert_allclose(scores(model, more), scores(expected, more), atol=5e-3)
    tensors = to_device(views, device)
    model = make_model(**settings).fit(tensors, labels, max_memory=1 << 19)
    # Half of the memory is too small for 460 anchors and the normal equations.
    assert model.feature_maps_["image"].anchors_.shape[0] < 100


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_are_added_and_forgotten_in_parts(device):
    views, labels = make_data()
    tensors, on_device = to_device(views, device), torch.from_numpy(labels).to(device)

    def part(rows):
        return {name: tensor[rows] for name, tensor in tensors.items()}, on_device[rows]

    full = make_model().fit(tensors, on_device, max_memory=1 << 17)
    model = make_model().fit(*part(slice(0, 300))).partial_fit(*part(slice(300, None)))
    np.testing.assert_allclose(model.codebooks_, full.codebooks_, rtol=1e-3, atol=1e-4)
    model.forget(*part(slice(300, None)))
    before = make_model().fit(*part(slice(0, 300)))
    np.testing.assert_allclose(model.codebooks_, before.codebooks_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_far_from_zero_are_moved_on_the_device_too(device):
    views, labels = make_data(dtype=np.float64)
    views["image"] = views["image"] + 1e7
    tensors = to_device(views, device)
    model = make_model().fit(tensors, labels)
    expected = make_model().fit(views, labels)
    assert set(model.feature_maps_) == {"image"}
    assert share_that_differs(model.encode(tensors), expected.encode(views)) <= 0.01


def test_a_model_of_tensors_is_saved_and_loaded(tmp_path):
    views, labels = make_data()
    model = make_model().fit(to_device(views, "cpu"), labels)
    model.save(tmp_path / "model")
    assert np.array_equal(acqh.load(tmp_path / "model").encode(views), model.encode(views))


def test_wrong_tensors_are_rejected():
    views, labels = make_data()
    tensors = to_device(views, "cpu")
    with pytest.raises(LabelError, match="rows"):
        make_model().fit(tensors, labels[1:])
    broken = {**tensors, "text": tensors["text"].clone()}
    broken["text"][7, 0] = torch.nan
    with pytest.raises(ViewError, match="row 7"):
        make_model().fit(broken, labels)
    model = make_model().fit(tensors, labels)
    with pytest.raises(ViewError, match="row 7"):
        model.encode(broken)
    with pytest.raises(ViewError, match="features"):
        model.encode({"image": tensors["image"][:, :3]})
    with pytest.raises(ViewError, match="unknown view"):
        model.project(tensors["image"], view="sound")
    with pytest.raises(LabelError, match="fit"):
        model.encode(labels=torch.ones((2, 3)))
    mapped = make_model(feature_maps="standardize").fit(views, labels)
    with pytest.raises(InvalidInputError, match="support tensors"):
        mapped.project(tensors["image"], view="image")


def test_a_missing_device_is_rejected():
    views, labels = make_data()
    absent = "xpu" if torch.cuda.is_available() else "cuda"
    model = make_model()
    with pytest.raises(DeviceError, match="not available"):
        model.fit(views, labels, device=absent)
    model.fit(views, labels)
    with pytest.raises(DeviceError, match="not available"):
        model.encode(views, device=absent)
    with pytest.raises(DeviceError, match="not available"):
        model.project(views["text"], view="text", device=absent)
