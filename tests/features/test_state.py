"""Fitted maps survive a trip through JSON and named arrays, and nothing else is let in."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from acqh.errors import InvalidInputError
from acqh.features import (
    Bias,
    Center,
    RBFAnchors,
    SignedRoot,
    Standardize,
    TagSVD,
    Tfidf,
    UnitNorm,
    describe_feature_map,
    feature_map_from_description,
    feature_map_from_state,
    feature_map_state,
)
from acqh.features._rbf import RBF_VARIANTS

X = np.random.default_rng(0).poisson(0.8, (30, 6)).astype(np.float64)
MAPS = [
    Bias(),
    Center(),
    Standardize(),
    TagSVD(n_components=np.int64(3)),
    Tfidf(),
    SignedRoot(),
    UnitNorm(),
    *(RBFAnchors(5, variant=name, random_state=0) for name in RBF_VARIANTS),
    make_pipeline(Tfidf(), TagSVD(3), RBFAnchors(4, random_state=np.random.default_rng(0)), Bias()),
]


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda kind: type(kind).__name__)
def test_a_fitted_map_survives_json_and_safetensors(feature_map: Any, tmp_path: Path) -> None:
    fitted = clone(feature_map).fit(X)
    description, arrays = feature_map_state(fitted)
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, tmp_path / "map.safetensors")
    restored = feature_map_from_state(
        json.loads(json.dumps(description)), load_file(tmp_path / "map.safetensors")
    )
    np.testing.assert_array_equal(restored.transform(X), fitted.transform(X))
    assert restored.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda kind: type(kind).__name__)
def test_an_unfitted_map_survives_json(feature_map: Any) -> None:
    description = json.loads(json.dumps(describe_feature_map(feature_map)))
    made = feature_map_from_description(description)
    assert not hasattr(made, "n_features_in_")
    assert describe_feature_map(made) == description


def test_sparse_anchors_survive() -> None:
    fitted = RBFAnchors(5, random_state=0).fit(sp.csr_array(X))
    restored = feature_map_from_state(*feature_map_state(fitted))
    assert sp.issparse(restored.anchors_)
    np.testing.assert_array_equal(restored.transform(X), fitted.transform(X))


def test_other_classes_are_not_stored() -> None:
    class Bias(UnitNorm):
        pass

    for stranger in (PCA(2).fit(X), Bias().fit(X), make_pipeline(PCA(2)).fit(X)):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            feature_map_state(stranger)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"class": "os.system", "params": {}}, "unknown class 'os.system'"),
        ({"class": "Center", "params": {"command": 1}}, "not readable"),
        ({"params": {}}, "not readable"),
        ({"class": "Pipeline", "steps": [["only"]]}, "not readable"),
        (
            {"class": "Pipeline", "steps": [["center", {"class": "Center", "params": {}}]]},
            "belongs to no step",
        ),
        ({"class": "Center"}, "not readable"),
    ],
)
def test_strange_descriptions_are_refused(description: dict[str, Any], message: str) -> None:
    _, arrays = feature_map_state(Center().fit(X))
    with pytest.raises(InvalidInputError, match=message):
        feature_map_from_state(description, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": None}, "lacks the array 'mean'"),
        ({"extra": np.ones(2)}, "unknown arrays"),
        ({"mean": np.ones(5)}, "5 entries along n_features, not 6"),
        ({"n_features_in": np.ones(2)}, "must be one number"),
        ({"mean": np.ones((6, 1))}, "2 dimensions, not 1"),
    ],
)
def test_strange_arrays_are_refused(change: dict[str, Any], message: str) -> None:
    description, arrays = feature_map_state(Center().fit(X))
    changed = {k: v for k, v in {**arrays, **change}.items() if v is not None}
    with pytest.raises(InvalidInputError, match=message):
        feature_map_from_state(description, changed)


def test_a_broken_sparse_matrix_is_refused() -> None:
    description, arrays = feature_map_state(RBFAnchors(5, random_state=0).fit(sp.csr_array(X)))
    arrays["anchors.indices"] = arrays["anchors.indices"] + 100
    with pytest.raises(InvalidInputError, match="no CSR matrix"):
        feature_map_from_state(description, arrays)
