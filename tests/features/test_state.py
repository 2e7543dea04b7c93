"""Fitted maps survive a trip through JSON and named arrays, and nothing else is let in."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, FastICA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import acqh.features
from acqh.encoders import HogColour, make_encoder, register_encoder, word_vectorizer
from acqh.errors import InvalidInputError, NotFittedError
from acqh.features import (
    Bias,
    KernelMap,
    RBFAnchors,
    SignedRoot,
    TagSVD,
    describe_feature_map,
    feature_map_from_description,
    feature_map_from_state,
    feature_map_state,
)
from acqh.features.rbf import RBF_VARIANTS

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
    FunctionTransformer(np.log1p),
    FunctionTransformer(),
    make_pipeline(StandardScaler(), "passthrough", PCA(2)),
    ColumnTransformer(
        [
            ("scaled", StandardScaler(), [0, 3]),
            ("kept", "passthrough", slice(1, 3)),
            ("gone", "drop", [4]),
            ("both", make_pipeline(FunctionTransformer(np.sqrt), PCA(1)), [2, 5]),
        ],
        n_jobs=1,
    ),
    ColumnTransformer([("sparse", TfidfTransformer(), [0, 1, 2])], remainder="passthrough"),
    make_pipeline(
        TfidfTransformer(), TagSVD(3), RBFAnchors(4, random_state=np.random.default_rng(0)), Bias()
    ),
]
TEXT_MAPS = [
    word_vectorizer(),
    word_vectorizer(use_idf=False, norm=None, min_df=2),
    TfidfVectorizer(ngram_range=(1, 2), stop_words=["a"], sublinear_tf=True),
    make_encoder("tfidf", view="text", random_state=0),
    make_pipeline(TfidfVectorizer(analyzer="char", dtype=np.float32), TruncatedSVD(2)),
]


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def stored_and_restored(fitted: Any, folder: Path) -> Any:
    description, arrays = feature_map_state(fitted)
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, folder / "map.safetensors")
    return feature_map_from_state(
        json.loads(json.dumps(description)), load_file(folder / "map.safetensors")
    )


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda kind: type(kind).__name__)
def test_a_fitted_map_survives_json_and_safetensors(feature_map: Any, tmp_path: Path) -> None:
    fitted = clone(feature_map).fit(X)
    restored = stored_and_restored(fitted, tmp_path)
    found, expected = restored.transform(X), fitted.transform(X)
    assert sp.issparse(found) == sp.issparse(expected)
    # Stored arrays lie row by row, whichever way the fitted ones did: sums may round otherwise.
    np.testing.assert_allclose(dense(found), dense(expected), rtol=1e-12, atol=1e-14)
    if getattr(feature_map, "func", "") != "":
        return  # names of columns are of no use to a plain function
    if "FunctionTransformer" not in repr(feature_map):
        assert restored.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


@pytest.mark.parametrize("encoder", TEXT_MAPS, ids=lambda kind: type(kind).__name__)
def test_a_fitted_encoder_of_texts_survives(encoder: Any, tmp_path: Path) -> None:
    fitted = clone(encoder).fit(TEXTS)
    restored = stored_and_restored(fitted, tmp_path)
    new = [*TEXTS, "an unseen red word"]
    np.testing.assert_array_equal(dense(restored.transform(new)), dense(fitted.transform(new)))
    assert restored.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


def test_columns_by_name_survive(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "size": [1.0, 2.0, 4.0, 8.0, 5.0]})
    whole = ColumnTransformer([("w", TfidfVectorizer(), "text"), ("s", StandardScaler(), ["size"])])
    restored = stored_and_restored(whole.fit(table), tmp_path)
    turned = table[["size", "text"]]
    np.testing.assert_array_equal(dense(restored.transform(turned)), dense(whole.transform(turned)))


@pytest.mark.parametrize("feature_map", [*MAPS, *TEXT_MAPS], ids=lambda kind: type(kind).__name__)
def test_an_unfitted_map_survives_json_and_is_not_stored_as_fitted(feature_map: Any) -> None:
    description = json.loads(json.dumps(describe_feature_map(feature_map)))
    made = feature_map_from_description(description)
    assert describe_feature_map(made) == description
    if not isinstance(feature_map, FunctionTransformer):
        with pytest.raises(NotFittedError, match="not fitted"):
            feature_map_state(made)


def test_sparse_anchors_survive() -> None:
    for kind in (RBFAnchors(5, random_state=0), Nystroem(n_components=4, random_state=0)):
        fitted = kind.fit(sp.csr_array(X))
        restored = feature_map_from_state(*feature_map_state(fitted))
        np.testing.assert_array_equal(restored.transform(X), fitted.transform(X))


def test_other_classes_and_functions_are_not_stored() -> None:
    class Bias(SignedRoot):
        pass

    for stranger in (FastICA(2), Bias().fit(X), make_pipeline(FastICA(2))):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            feature_map_state(stranger)
    for stranger in (
        FunctionTransformer(lambda rows: rows),
        FunctionTransformer(np.save),
        TfidfVectorizer(tokenizer=str.split),
        Nystroem(kernel=max),
        ColumnTransformer([("all", Normalizer(), len)]),
    ):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            describe_feature_map(stranger)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"class": "os.system", "params": {}}, "unknown class 'os.system'"),
        ({"class": "Bias", "params": {"command": 1}}, "not readable"),
        ({"params": {}}, "not readable"),
        ({"class": "Pipeline", "steps": [["only"]]}, "not readable"),
        (
            {"class": "Pipeline", "steps": [["bias", {"class": "Bias", "params": {}}]]},
            "belongs to no step",
        ),
        ({"class": "Bias"}, "not readable"),
        (
            {"class": "FunctionTransformer", "params": {"func": {"function": "os.system"}}},
            "something unknown",
        ),
        ({"class": "TfidfVectorizer", "params": {"input": "filename"}}, "cannot set input"),
        ({"class": "TfidfVectorizer", "params": {"analyzer": "wore"}}, "that it cannot have"),
        ({"class": "TfidfVectorizer", "params": {"token_pattern": "(("}}, "that it cannot have"),
        ({"class": "ColumnTransformer", "params": {"n_jobs": 64}}, "cannot set n_jobs"),
        ({"class": "Nystroem", "params": {"kernel": {"function": "eval"}}}, "something unknown"),
    ],
)
def test_strange_descriptions_are_refused(description: dict[str, Any], message: str) -> None:
    _, arrays = feature_map_state(Bias().fit(X))
    with pytest.raises(InvalidInputError, match=message):
        feature_map_from_state(description, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples_seen": None}, "lacks the array 'n_samples_seen'"),
        ({"extra": np.ones(2)}, "unknown arrays"),
        ({"mean": np.ones(5)}, "5 entries along n_features, not 6"),
        ({"n_features_in": np.ones(2)}, "must be one number"),
        ({"mean": np.ones((6, 1))}, "2 dimensions, not 1"),
        ({"mean": np.array(["x"] * 6)}, "holds no numbers"),
        ({"mean": None}, "lacks the array 'mean'"),
    ],
)
def test_strange_arrays_are_refused(change: dict[str, Any], message: str) -> None:
    description, arrays = feature_map_state(StandardScaler().fit(X))
    changed = {k: v for k, v in {**arrays, **change}.items() if v is not None}
    with pytest.raises(InvalidInputError, match=message):
        feature_map_from_state(description, changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": None}, "not readable"),
        ({"vocabulary": b"{"}, "not readable"),
        ({"vocabulary": b'["a", "a"]'}, "not a list of different words"),
        ({"vocabulary": b'["a", 2]'}, "not a list of different words"),
        ({"vocabulary": b'["a"]'}, "entries along n_features, not 1"),
        ({"other": b"1"}, "unknown array"),
        ({"idf": None}, "lacks the array 'idf'"),
    ],
)
def test_strange_words_are_refused(change: dict[str, bytes | None], message: str) -> None:
    description, arrays = feature_map_state(word_vectorizer().fit(TEXTS))
    for key, value in change.items():
        if value is None:
            del arrays[key]
        else:
            arrays[key] = np.frombuffer(value, dtype=np.uint8)
    with pytest.raises(InvalidInputError, match=message):
        feature_map_from_state(description, arrays)


def test_a_broken_sparse_matrix_is_refused() -> None:
    description, arrays = feature_map_state(RBFAnchors(5, random_state=0).fit(sp.csr_array(X)))
    arrays["anchors.indices"] = arrays["anchors.indices"] + 100
    with pytest.raises(InvalidInputError, match="not a CSR matrix"):
        feature_map_from_state(description, arrays)


@register_encoder
class Chatty(HogColour):
    """An encoder of one's own, with parameters that are not kept of scikit-learn's."""

    def __init__(self, verbose: int = 0, memory: str | None = None) -> None:
        self.verbose = verbose
        self.memory = memory


def test_an_encoder_of_ones_own_keeps_all_its_parameters() -> None:
    restored = feature_map_from_state(*feature_map_state(Chatty(2, memory="small")))
    assert restored.get_params() == {"verbose": 2, "memory": "small"}


WIDTH = {"n_features_in": np.array([2])}
FORMER = {
    "Center": ({}, {**WIDTH, "mean": np.array([1.0, 2.0])}, [[2.0, 6.0]]),
    "Standardize": (
        {"with_mean": True},
        {**WIDTH, "mean": np.array([1.0, 2.0]), "scale": np.array([2.0, 4.0])},
        [[1.0, 1.5]],
    ),
    "UnitNorm": ({}, WIDTH, [[3 / np.sqrt(73), 8 / np.sqrt(73)]]),
    "Tfidf": ({}, {**WIDTH, "idf": np.array([2.0, 0.75])}, [[1 / 2**0.5, 1 / 2**0.5]]),
}


@pytest.mark.parametrize("name", FORMER)
def test_maps_stored_by_the_release_before_are_read(name: str) -> None:
    params, arrays, expected = FORMER[name]
    restored = feature_map_from_state({"class": name, "params": params}, arrays)
    np.testing.assert_allclose(dense(restored.transform(np.array([[3.0, 8.0]]))), expected)
    assert feature_map_state(restored)[0]["class"] != name
    feature_map_from_description({"class": name, "params": params})


@pytest.mark.parametrize("n_components", [None, 2])
def test_texts_stored_by_the_release_before_are_read(n_components: int | None) -> None:
    words = word_vectorizer().fit(TEXTS)
    svd = TagSVD(2).fit(words.transform(TEXTS))
    arrays = {
        "vocabulary": feature_map_state(words)[1]["vocabulary"],
        "tfidf.idf": words.idf_,
        "tfidf.n_features_in": np.array([len(words.idf_)]),
    }
    expected = words.transform(TEXTS)
    if n_components:
        arrays |= {f"svd.{name}": value for name, value in svd.get_state().items()}
        expected = svd.transform(expected)
    params = {"min_texts": 1, "n_components": n_components, "random_state": None}
    restored = feature_map_from_state({"class": "TfidfText", "params": params}, arrays)
    np.testing.assert_allclose(dense(restored.transform(TEXTS)), dense(expected), rtol=1e-6)


@pytest.mark.parametrize("name", ["Center", "Standardize", "Tfidf", "TfidfText", "UnitNorm"])
def test_former_names_work_and_name_what_to_use(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} goes .*; use") as warned:
        made = getattr(acqh.features, name)()
    assert warned[0].filename.endswith("test_state.py")
    assert hasattr(made, "fit")
    with pytest.raises(AttributeError, match="Nothing"):
        _ = acqh.features.Nothing
