"""Fitted maps survive JSON and named arrays, and other values are rejected."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.decomposition import PCA, FastICA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from acqh._core.store import pack, unpack
from acqh.encoders import HogColor, make_encoder, register_encoder, tfidf_vectorizer
from acqh.errors import InvalidInputError, NotFittedError
from acqh.features import Bias, KernelMap, RBFAnchors, SignedRoot, TagSVD
from acqh.features.rbf import RBF_VARIANTS
from acqh.methods.registry import HOMES

X = np.random.default_rng(0).poisson(0.8, (30, 6)).astype(np.float64)
TEXTS = ["A red rose", "a red, red CAR", "ein Straßenbahnwagen", "", "car park 2"]
MAPS = [
    Bias(),
    TagSVD(n_components=np.int64(3)),
    SignedRoot(),
    KernelMap(random_state=0),
    *(RBFAnchors(5, variant=name, random_state=0) for name in RBF_VARIANTS),
    StandardScaler(),
    StandardScaler(with_mean=False, with_std=False),
    Normalizer("l1"),
    TfidfTransformer(),
    TfidfTransformer(use_idf=False),
    PCA(3),
    PCA(0.9, whiten=True),
    TruncatedSVD(2, random_state=0),
    Nystroem(n_components=4, random_state=0, kernel="poly", degree=2),
    make_pipeline(StandardScaler(), "passthrough", PCA(2)),
    make_pipeline(
        TfidfTransformer(), TagSVD(3), RBFAnchors(4, random_state=np.random.default_rng(0)), Bias()
    ),
]
TEXT_MAPS = [
    tfidf_vectorizer(),
    tfidf_vectorizer(use_idf=False, norm=None, min_df=2),
    TfidfVectorizer(ngram_range=(1, 2), stop_words=["a"], sublinear_tf=True),
    make_encoder("tfidf", view="text", random_state=0),
    make_pipeline(TfidfVectorizer(analyzer="char", dtype=np.float32), TruncatedSVD(2)),
]


def packed(fitted: Any) -> tuple[Any, dict[str, Any]]:
    return pack(fitted, HOMES)


def state_of(unfitted: Any) -> Any:
    return pack(unfitted, HOMES, fitted=False)[0]


def restored_of(description: Any, arrays: dict[str, Any] | None = None) -> Any:
    return unpack(description, dict(arrays or {}), HOMES)


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def stored_and_restored(fitted: Any, folder: Path) -> Any:
    description, arrays = packed(fitted)
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, folder / "map.safetensors")
    return restored_of(json.loads(json.dumps(description)), load_file(folder / "map.safetensors"))


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda kind: type(kind).__name__)
def test_a_fitted_map_survives_json_and_safetensors(feature_map: Any, tmp_path: Path) -> None:
    fitted = clone(feature_map).fit(X)
    restored = stored_and_restored(fitted, tmp_path)
    result, expected = restored.transform(X), fitted.transform(X)
    assert sp.issparse(result) == sp.issparse(expected)
    # Stored arrays lie row by row, whichever way the fitted ones did: sums may round otherwise.
    np.testing.assert_allclose(dense(result), dense(expected), rtol=1e-12, atol=1e-14)
    assert restored.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize("encoder", TEXT_MAPS, ids=lambda kind: type(kind).__name__)
def test_a_fitted_encoder_of_texts_survives(encoder: Any, tmp_path: Path) -> None:
    fitted = clone(encoder).fit(TEXTS)
    restored = stored_and_restored(fitted, tmp_path)
    new = [*TEXTS, "an unseen red word"]
    np.testing.assert_array_equal(dense(restored.transform(new)), dense(fitted.transform(new)))
    assert restored.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize("feature_map", [*MAPS, *TEXT_MAPS], ids=lambda kind: type(kind).__name__)
def test_an_unfitted_map_survives_json_and_is_not_stored_as_fitted(feature_map: Any) -> None:
    description = json.loads(json.dumps(state_of(feature_map)))
    restored = restored_of(description)
    assert state_of(restored) == description
    with pytest.raises(NotFittedError, match="not fitted"):
        packed(restored)


def test_sparse_anchors_survive() -> None:
    for kind in (RBFAnchors(5, random_state=0), Nystroem(n_components=4, random_state=0)):
        fitted = kind.fit(sp.csr_array(X))
        restored = restored_of(*packed(fitted))
        np.testing.assert_array_equal(restored.transform(X), fitted.transform(X))


def test_other_classes_and_functions_are_not_stored() -> None:
    class Bias(SignedRoot):
        pass

    for stranger in (FastICA(2), Bias().fit(X), make_pipeline(FastICA(2))):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            packed(stranger)
    for stranger in (
        FunctionTransformer(np.log1p),
        TfidfVectorizer(tokenizer=str.split),
        Nystroem(kernel=max),
    ):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            state_of(stranger)


BIAS = {"class": "Bias", "params": {}}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"class": "os.system", "params": {}}, "os.system"),
        ({"class": "fold_text", "params": {}}, "not a class"),
        ({"class": "Bias", "params": {"command": 1}}, "not readable"),
        ({"params": {}}, "not readable"),
        ({"class": "Pipeline", "params": {"steps": 3}}, "not readable"),
        ({"class": "Pipeline", "params": {"steps": [["bias", BIAS]]}}, "unexpected"),
        ({"class": "Bias"}, "not readable"),
        ({"class": "FunctionTransformer", "params": {}}, "FunctionTransformer"),
        ({"class": "TfidfVectorizer", "params": {"input": "filename"}}, "input"),
        ({"class": "TfidfVectorizer", "params": {"analyzer": "wore"}}, "analyzer"),
        ({"class": "PCA", "params": {"verbose": 64}}, "verbose"),
        ({"class": "Nystroem", "params": {"kernel": {"name": "eval"}}}, "'eval'"),
        ({"class": "Bias", "params": {}, "state": {}, "more": 1}, "not readable"),
        ({"class": "Bias", "params": {}, "state": {}}, "lacks n_features_in_"),
        ({"class": "Bias", "params": {}, "state": {"n_features_in_": "2"}}, "not a <class 'int'>"),
        ({"array": "none"}, "'none'"),
    ],
)
def test_invalid_metadata_are_rejected(description: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        restored_of(description, {"extra": np.ones(2)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": np.ones(2)}, "extra"),
        ({"mean_": np.ones(5)}, "n_features"),
        ({"mean_": np.ones((6, 1))}, "1 dimensions"),
        ({"mean_": np.array(["x"] * 6)}, "not numbers"),
        ({"mean_": None}, "'mean_"),
    ],
)
def test_invalid_arrays_are_rejected(change: dict[str, Any], message: str) -> None:
    description, arrays = packed(StandardScaler().fit(X))
    changed = {k: v for k, v in {**arrays, **change}.items() if v is not None}
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        restored_of(description, changed)


def test_a_scaler_without_its_fitted_arrays_is_rejected() -> None:
    description, arrays = packed(StandardScaler().fit(X))
    description["state"]["scale_"] = None
    del arrays["scale_"]
    with pytest.raises(InvalidInputError, match="cannot be used"):
        restored_of(description, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": None}, "'words'"),
        ({"words": b"{"}, "not readable"),
        ({"words": b'["a", "a"]'}, "not a list of different words"),
        ({"words": b'["a", 2]'}, "not a list of different words"),
        ({"words": b'["a"]'}, "not readable"),
        ({"other": b"1"}, "unexpected"),
        ({"idf_": None}, "'idf_'"),
    ],
)
def test_invalid_vocabularies_are_rejected(change: dict[str, bytes | None], message: str) -> None:
    description, arrays = packed(tfidf_vectorizer().fit(TEXTS))
    for key, value in change.items():
        if value is None:
            del arrays[key]
        else:
            arrays[key] = np.frombuffer(value, dtype=np.uint8)
    with pytest.raises(InvalidInputError, match=message):
        restored_of(description, arrays)


def test_an_invalid_token_pattern_is_rejected() -> None:
    description, arrays = packed(tfidf_vectorizer().fit(TEXTS))
    description["params"] |= {"token_pattern": "(("}
    with pytest.raises(InvalidInputError, match="cannot be used"):
        restored_of(description, arrays)


def test_a_broken_sparse_matrix_is_rejected() -> None:
    description, arrays = packed(RBFAnchors(5, random_state=0).fit(sp.csr_array(X)))
    arrays["anchors_.indices"] = arrays["anchors_.indices"] + 100
    with pytest.raises(InvalidInputError, match="CSR"):
        restored_of(description, arrays)


@register_encoder
class Chatty(HogColor):
    """An encoder of one's own, with parameters that are not kept of scikit-learn's."""

    def __init__(self, verbose: int = 0, memory: str | None = None) -> None:
        self.verbose = verbose
        self.memory = memory


def test_a_custom_encoder_keeps_all_its_parameters() -> None:
    restored = restored_of(*packed(Chatty(2, memory="small")))
    assert restored.get_params() == {"verbose": 2, "memory": "small"}
