"""Requirements on every registered method."""

import inspect
import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import acqh
from acqh._core.arrays import as_matrix
from acqh.bench import evaluate, make_split
from acqh.errors import (
    CorruptBundleError,
    InvalidInputError,
    LabelError,
    NotFittedError,
    ViewError,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
NAMES = acqh.methods.list()
MODES = ("training", "single", "fused")
# Parameters that make a fit quick, given to the methods that have them.
SMALL = {"n_bits": 8, "n_components": 8, "n_anchors": 20, "codebook_size": 4, "n_codebooks": 2}
SMALL |= {"max_iter": 5, "n_atoms": 12, "random_state": 0}
SMALL |= {"hidden": 16, "max_epochs": 3, "batch_size": 16}


def can_fit(name):
    """Return whether what a method trains with is installed: a device asks for torch."""
    return find_spec("torch") is not None or "device" not in acqh.methods.get(name)().get_params()


NO_TORCH = "torch is not installed: pip install 'acqh[torch]'"
every_method = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.skipif(not can_fit(name), reason=NO_TORCH))
        for name in NAMES
    ],
)


# What every method has read and checked before its own code begins is tried with one of each kind.
each_kind = pytest.mark.parametrize("name", ["acqh", "dch", "label-ridge"])


def make(name, **changes):
    cls = acqh.methods.get(name)
    parameters = cls().get_params()
    return cls(**{key: value for key, value in (SMALL | changes).items() if key in parameters})


def fit_quietly(method, views, labels=None):
    # Odd shapes may well end in a warning that fewer bits or no convergence were had.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.fit(views, labels)


def encode(method, mode, data):
    """Code the items as the bench does: one view where a mode takes one."""
    views = dict(data.views) if mode == "fused" else {"image": data.views["image"]}
    return method.encode(views, labels=data.labels if mode == "training" else None, mode=mode)


@pytest.fixture(scope="module")
def data():
    widths = {"image": 12, "text": 14}
    return acqh.make_multiview(60, widths, n_labels=3, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    """Return methods by name, each fitted when first asked for; do not fit these again."""

    class Fitted(dict):
        def __missing__(self, name):
            self[name] = fit_quietly(make(name), data.views, data.labels)
            return self[name]

    return Fitted()


@every_method
def test_the_facts_are_complete(name):
    info = acqh.methods.get(name).info
    assert info.name == name
    assert info.title
    assert str(info.year) in info.reference
    assert info.code in ("additive", "binary", "real")
    assert info.modes
    assert set(info.modes) <= set(MODES)
    assert len(set(info.modes)) == len(info.modes)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"acqh", "acqh-paper"}))
def test_every_baseline_has_a_card_with_its_results(name):
    cards = (DOCS / "cards.md").read_text(encoding="utf-8")
    card = cards.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert re.search(r"^Wiki, .*\d\.\d{3} / \d\.\d{3}", card, re.MULTILINE)


@every_method
def test_the_class_is_documented_with_all_its_parameters(name):
    cls = acqh.methods.get(name)
    text = inspect.getdoc(cls)
    assert ">>>" in text
    for parameter in cls().get_params(deep=False):
        entry = rf"^(\w+, )*{parameter}(, \w+)* :"
        assert re.search(entry, text, re.MULTILINE), parameter


@every_method
def test_the_constructor_only_stores_its_arguments(name):
    method = acqh.methods.get(name)()
    params = method.get_params(deep=False)
    assert vars(method) == params
    assert all(
        value is None or isinstance(value, bool | int | float | str | tuple)
        for value in params.values()
    )
    changed = make(name)
    copy = clone(changed)
    assert copy is not changed
    assert copy.get_params() == changed.get_params()
    assert type(changed).__name__ in repr(changed)
    assert method.set_params(**params) is method


@every_method
def test_fit_returns_the_method_and_leaves_its_input_and_parameters_alone(name, data):
    method = make(name)
    views = {view: matrix.copy() for view, matrix in data.views.items()}
    labels = data.labels.copy()
    params = dict(method.get_params(deep=False))
    assert fit_quietly(method, views, labels) is method
    assert method.get_params(deep=False) == params
    np.testing.assert_array_equal(labels, data.labels)
    for view, matrix in views.items():
        np.testing.assert_array_equal(matrix, data.views[view])
    assert method.n_features_in_ == {"image": 12, "text": 14}
    new = {key for key in vars(method) if key not in params and not key.startswith("_")}
    assert all(key.endswith("_") for key in new)


@every_method
def test_one_seed_gives_one_fit(name, data, fitted):
    again = fit_quietly(make(name), data.views, data.labels)
    for view, matrix in data.views.items():
        np.testing.assert_array_equal(
            again.project(matrix, view=view), fitted[name].project(matrix, view=view)
        )
    for mode in again.info.modes:
        np.testing.assert_array_equal(encode(again, mode, data), encode(fitted[name], mode, data))


@every_method
def test_projections_are_finite_and_one_row_a_query(name, data, fitted):
    method = fitted[name]
    for view, matrix in data.views.items():
        projected = method.project(matrix[:7], view=view)
        assert projected.shape[0] == 7
        assert np.isfinite(projected).all()
        np.testing.assert_allclose(
            method.project(matrix[3:4], view=view), projected[3:4], rtol=1e-3, atol=1e-4
        )
        assert method.project(matrix[:0], view=view).shape == (0, projected.shape[1])
        embedded = method.embed_queries(matrix[:7], view=view)
        assert embedded.shape[0] == 7


@every_method
@pytest.mark.parametrize("mode", MODES)
def test_supported_modes_give_codes_and_others_are_rejected(name, mode, data, fitted):
    method = fitted[name]
    if mode not in method.info.modes:
        with pytest.raises(InvalidInputError, match=f"cannot code a database as '{mode}'"):
            encode(method, mode, data)
        return
    codes = encode(method, mode, data)
    assert codes.shape[0] == len(data)
    assert codes.nbytes == method.bytes_per_item * len(data)
    if method.info.code != "real":
        assert codes.dtype == np.uint8
    decoded = method.decode(codes)
    queries = method.embed_queries(data.views["text"][:5], view="text")
    assert decoded.shape == (len(data), queries.shape[1])
    assert np.isfinite(queries @ decoded.T).all()
    if method.info.code == "binary":
        assert set(np.unique(decoded)) <= {-1.0, 1.0}
        assert method.bytes_per_item == -(-method.n_bits_ // 8)


@each_kind
def test_an_unknown_mode_is_rejected(name, data, fitted):
    with pytest.raises(InvalidInputError, match="cannot code a database as 'magic'"):
        fitted[name].encode(data.views, mode="magic")


@each_kind
@pytest.mark.parametrize("kind", ["float64", "float32", "int", "sparse"])
def test_every_kind_of_matrix_is_taken(name, kind, data):
    convert = {
        "float64": lambda matrix: matrix.astype(np.float64),
        "float32": lambda matrix: matrix.astype(np.float32),
        "int": lambda matrix: np.round(3 * matrix).astype(np.int32),
        "sparse": sp.csr_array,
    }[kind]
    views = {view: convert(matrix) for view, matrix in data.views.items()}
    method = fit_quietly(make(name), views, data.labels)
    for view, matrix in views.items():
        assert np.isfinite(method.project(matrix, view=view)).all()


@each_kind
def test_sparse_and_dense_features_give_the_same_codes(name, data, fitted):
    views = {view: sp.csr_array(matrix) for view, matrix in data.views.items()}
    method = fit_quietly(make(name), views, sp.csr_array(data.labels))
    mode = method.info.modes[0]
    same = encode(method, mode, data) == encode(fitted[name], mode, data)
    # Sums in another order round differently, which may turn a bit here and there.
    assert np.mean(same) > 0.9


@pytest.mark.slow
@every_method
@pytest.mark.parametrize(
    ("n_items", "widths"),
    [(30, {"image": 1, "text": 1}), (30, {"image": 2, "text": 40}), (5, {"image": 4, "text": 3})],
    ids=["one feature", "more bits than features", "fewer items than bits"],
)
def test_odd_shapes_are_taken(name, n_items, widths):
    data = acqh.make_multiview(n_items, widths, n_labels=2, random_state=1)
    method = fit_quietly(make(name), data.views, data.labels)
    for mode in method.info.modes:
        assert np.isfinite(method.decode(encode(method, mode, data))).all()


@each_kind
@pytest.mark.parametrize("kind", ["several", "ids", "words", "sets", "one", "unused"])
def test_labels_of_every_form_are_taken(name, kind, data):
    ids = data.labels.argmax(axis=1)
    labels = {
        "several": np.maximum(data.labels, np.roll(data.labels, 1, axis=0)),
        "ids": ids,
        "words": [f"class {value}" for value in ids],
        "sets": [{f"class {value}", "thing"} for value in ids],
        "one": np.ones((len(data), 1)),
        "unused": np.hstack([data.labels, np.zeros((len(data), 2))]),
    }[kind]
    try:
        method = fit_quietly(make(name), data.views, labels)
    except InvalidInputError:
        if kind != "one":
            raise
        return  # some methods find nothing to learn where all items have the same labels
    assert np.isfinite(method.project(data.views["image"], view="image")).all()


@every_method
def test_labels_are_needed_by_the_supervised_only(name, data):
    method = make(name)
    if method.info.label_free:
        fit_quietly(method, data.views)
        return
    with pytest.raises(LabelError, match="labels are needed"):
        method.fit(data.views)
    with pytest.raises(LabelError, match="label"):
        method.fit(data.views, np.zeros((len(data), 2)))
    with pytest.raises(LabelError, match="rows"):
        method.fit(data.views, data.labels[:-1])
    assert not hasattr(method, "n_features_in_")


@each_kind
def test_data_are_one_object_or_chunks(name, data, fitted):
    for form in (data, data.chunks(25)):
        method = fit_quietly(make(name), form)
        assert method.n_features_in_ == fitted[name].n_features_in_
    with pytest.raises(InvalidInputError, match="empty"):
        make(name).fit(iter(()))
    with pytest.raises(InvalidInputError, match="mapping of names"):
        make(name).fit(data.views["image"], data.labels)


@every_method
@pytest.mark.parametrize("n_views", [1, 3])
def test_other_numbers_of_views_work_or_are_rejected(name, n_views):
    widths = {"image": 8, "text": 9, "sound": 7}
    data = acqh.make_multiview(40, dict([*widths.items()][:n_views]), n_labels=2, random_state=2)
    method = make(name)
    fewest, most = method.view_range
    if n_views < fewest or (most is not None and n_views > most):
        with pytest.raises(ViewError, match=rf"{name} takes .*views?, got {n_views}"):
            method.fit(data.views, data.labels)
        return
    fit_quietly(method, data.views, data.labels)
    for mode in method.info.modes:
        assert len(encode(method, mode, data)) == 40


@each_kind
def test_wrong_queries_are_rejected_with_the_reason(name, data, fitted):
    image = data.views["image"]
    with pytest.raises(NotFittedError, match="call fit first"):
        make(name).project(image, view="image")
    with pytest.raises(NotFittedError, match="call fit first"):
        make(name).encode(data.views)
    method = fitted[name]
    with pytest.raises(ViewError, match="'sound'"):
        method.project(image, view="sound")
    with pytest.raises(ViewError, match="3 features"):
        method.project(image[:, :3], view="image")
    spoilt = image.copy()
    spoilt[4, 0] = np.nan
    with pytest.raises(ViewError, match="row 4"):
        method.project(spoilt, view="image")


@each_kind
def test_every_matrix_is_checked_once_a_call(name, data, fitted, monkeypatch):
    checked = []

    def counting(value, label):
        checked.append(label)
        return as_matrix(value, label)

    monkeypatch.setattr("acqh._core.arrays.as_matrix", counting)
    method = fitted[name]
    method.project(data.views["image"], view="image")
    method.embed_queries(data.views["image"], view="image")
    assert checked == ["view 'image'"] * 2
    for mode in set(method.info.modes) - {"training"}:
        checked.clear()
        encode(method, mode, data)
        expected = data.views if mode == "fused" else ["image"]
        assert checked == [f"view '{view}'" for view in expected]


@each_kind
def test_wrong_training_data_is_rejected_and_nothing_is_set(name, data):
    method = make(name)
    image, text = data.views["image"], data.views["text"]
    spoilt = image.copy()
    spoilt[2, 1] = np.inf
    with pytest.raises(ViewError, match="row 2"):
        method.fit({"image": spoilt, "text": text}, data.labels)
    with pytest.raises(ViewError, match="rows"):
        method.fit({"image": image[:-1], "text": text}, data.labels)
    if "feature_maps" in method.get_params():
        with pytest.raises(ViewError, match=r"sound"):
            make(name, feature_maps={"sound": "bias"}).fit(data.views, data.labels)
    assert vars(method) == method.get_params(deep=False)


@every_method
def test_wrong_parameters_are_rejected_by_name(name, data):
    wrong = {"n_bits": 0, "n_components": 0, "max_iter": 0, "n_anchors": 0, "random_state": "x"}
    for parameter, value in wrong.items():
        if parameter in make(name).get_params():
            with pytest.raises(InvalidInputError, match=parameter):
                make(name, **{parameter: value}).fit(data.views, data.labels)


@every_method
def test_a_method_is_loaded_from_its_bundle_unchanged(name, data, fitted, tmp_path):
    method = fitted[name]
    method.save(tmp_path / "method.acqh")
    loaded = acqh.methods.load_method(tmp_path / "method.acqh")
    assert type(loaded) is type(method)
    assert loaded.get_params() == method.get_params()
    assert loaded.bytes_per_item == method.bytes_per_item
    assert loaded.label_names_ == method.label_names_
    assert {key for key in vars(loaded) if key.endswith("_")} == {
        key for key in vars(method) if key.endswith("_")
    }
    for view, matrix in data.views.items():
        np.testing.assert_array_equal(
            loaded.project(matrix, view=view), method.project(matrix, view=view)
        )
    for mode in method.info.modes:
        np.testing.assert_array_equal(encode(loaded, mode, data), encode(method, mode, data))


@each_kind
def test_a_damaged_bundle_is_rejected(name, fitted, tmp_path):
    fitted[name].save(tmp_path)
    member = next(tmp_path.glob("*.safetensors"))
    content = bytearray(member.read_bytes())
    content[-1] ^= 1
    member.write_bytes(content)
    with pytest.raises(CorruptBundleError):
        acqh.methods.load_method(tmp_path)


@each_kind
def test_an_unfitted_method_cannot_be_saved(name, tmp_path):
    with pytest.raises(NotFittedError, match="call fit first"):
        make(name).save(tmp_path)


@every_method
def test_every_method_finds_related_items_better_than_chance(name):
    widths = {"image": 16, "text": 16}
    data = acqh.make_multiview(240, widths, n_labels=3, noise=0.2, random_state=3)
    larger = {"n_bits": 16, "n_components": 16, "codebook_size": 16, "n_anchors": 60}
    method = make(name, **larger, max_iter=20, max_epochs=20)
    split = make_split(data, "labelled", n_query=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = evaluate(method, data, split, database=method.info.modes[0])
    assert min(row.map_all for row in rows) > 0.45  # chance is about a third
