"""Methods in bundles: cases beyond the contract of all methods."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

import acqh
from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.features import RBFAnchors, SignedRoot
from acqh.io import read_bundle, write_bundle
from acqh.methods import load_method
from acqh.methods.baselines.label_ridge import LabelRidge


@pytest.fixture(scope="module")
def data():
    return acqh.make_multiview(40, n_labels=3, random_state=0)


@pytest.fixture
def saved(data, tmp_path):
    LabelRidge().fit(data).save(tmp_path / "control.acqh")
    return tmp_path / "control.acqh"


def rewrite(path, change):
    """Write the bundle again with changed content and valid checksums."""
    bundle = read_bundle(path, mmap=False)
    info, arrays = bundle.info, bundle.arrays("fitted")
    change(info, arrays)
    write_bundle(path, kind=bundle.kind, info=info, arrays={"fitted": arrays})


def test_feature_maps_of_every_form_are_restored(data, tmp_path):
    forms = [
        None,
        "bias",
        RBFAnchors(5, random_state=0),
        {"image": make_pipeline(SignedRoot(), RBFAnchors(5, random_state=1)), "text": None},
    ]
    for form in forms:
        method = LabelRidge(feature_maps=form).fit(data)
        method.save(tmp_path)
        loaded = load_method(tmp_path)
        assert repr(loaded) == repr(method)
        for view, matrix in data.views.items():
            np.testing.assert_array_equal(
                loaded.project(matrix, view=view), method.project(matrix, view=view)
            )


def test_view_names_that_contain_each_other_are_distinguished(data, tmp_path):
    views = {"a": data.views["image"], "a/0": data.views["text"], "0": data.views["text"]}
    method = LabelRidge(feature_maps="unit_norm").fit(views, data.labels)
    method.save(tmp_path)
    loaded = load_method(tmp_path)
    for view, matrix in views.items():
        np.testing.assert_array_equal(
            loaded.project(matrix, view=view), method.project(matrix, view=view)
        )


def test_unsupported_values_are_rejected_and_nothing_is_written(data, tmp_path):
    method = LabelRidge(feature_maps=QuantileTransformer(n_quantiles=5)).fit(data)
    with pytest.raises(InvalidInputError, match="QuantileTransformer"):
        method.save(tmp_path / "never")
    method = LabelRidge().fit(data)
    method.ridge = max
    with pytest.raises(InvalidInputError, match="ridge cannot be stored"):
        method.save(tmp_path / "never")
    assert not (tmp_path / "never").exists()


def remove_array(info, arrays):
    del arrays["projections_/image"]


def add_array(info, arrays):
    arrays["extra_"] = np.zeros(1)


def name_another_class(info, arrays):
    info["method"] = "os.system"


def give_an_unknown_parameter(info, arrays):
    info["params"]["command"] = 1


def set_a_private_attribute(info, arrays):
    info["attributes"]["__class__"] = {"kind": "json", "value": 1}


def replace_a_method(info, arrays):
    info["attributes"]["project"] = {"kind": "json", "value": 1}


def leave_out_an_attribute(info, arrays):
    del info["attributes"]["n_features_in_"]


def use_an_unknown_kind(info, arrays):
    info["attributes"]["ridges_"] = {"kind": "pickle"}


def forget_the_parameters(info, arrays):
    del info["params"]


@pytest.mark.parametrize(
    "change",
    [
        remove_array,
        add_array,
        name_another_class,
        give_an_unknown_parameter,
        set_a_private_attribute,
        replace_a_method,
        leave_out_an_attribute,
        use_an_unknown_kind,
        forget_the_parameters,
    ],
)
def test_an_incomplete_bundle_of_a_method_is_rejected(saved, change):
    rewrite(saved, change)
    with pytest.raises(CorruptBundleError):
        load_method(saved)


def test_a_bundle_of_another_kind_is_rejected(tmp_path):
    write_bundle(tmp_path, kind="numbers", arrays={})
    with pytest.raises(InvalidInputError, match="not a model"):
        load_method(tmp_path)
