"""Properties of all maps, and formulas of the simple ones compared with loops."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

import acqh.features.base as base
import acqh.features.simple as svd_module
from acqh._core.store import pack
from acqh.errors import InvalidInputError, NotFittedError, ViewError
from acqh.features import Bias, RBFAnchors, SignedRoot, TagSVD, list_feature_maps, make_feature_map
from acqh.features.rbf import RBF_VARIANTS
from acqh.methods.registry import HOMES

MAPS = [
    Bias(),
    TagSVD(n_components=3),
    SignedRoot(),
    *(RBFAnchors(n_anchors=6, variant=name, random_state=0) for name in RBF_VARIANTS),
]

matrices = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 7.5]),
)


def counts_matrix(n_rows: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.6, (n_rows, 9)).astype(np.float64)


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_transform_of_chunks_equals_transform_of_the_whole(feature_map: Any) -> None:
    fitted = clone(feature_map).fit(counts_matrix())
    new = counts_matrix(17, seed=1)
    chunks = np.vstack([fitted.transform(new[start : start + 5]) for start in range(0, 17, 5)])
    np.testing.assert_allclose(chunks, fitted.transform(new), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_block_size_does_not_change_the_result(feature_map: Any, monkeypatch: Any) -> None:
    full = clone(feature_map).fit_transform(counts_matrix())
    monkeypatch.setattr(base, "_BLOCK_VALUES", 30)
    blocks = clone(feature_map).fit_transform(counts_matrix())
    np.testing.assert_allclose(blocks, full, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
@given(X=matrices)
def test_sparse_and_dense_rows_give_the_same_result(feature_map: Any, X: np.ndarray) -> None:
    from_dense = clone(feature_map).fit_transform(X)
    from_sparse = clone(feature_map).fit_transform(sp.csr_array(X))
    assert from_sparse.shape == from_dense.shape
    np.testing.assert_allclose(dense(from_sparse), from_dense, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_a_map_fitted_on_dense_rows_takes_sparse_ones_and_the_other_way(feature_map: Any) -> None:
    X, new = counts_matrix(), counts_matrix(7, seed=1)
    on_dense = clone(feature_map).fit(X).transform(sp.csr_array(new))
    on_sparse = clone(feature_map).fit(sp.csr_matrix(X)).transform(new)
    np.testing.assert_allclose(dense(on_dense), dense(on_sparse), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", [Bias, SignedRoot], ids=lambda kind: kind.__name__)
def test_sparse_stays_sparse(kind: Any) -> None:
    assert isinstance(kind().fit_transform(sp.csr_matrix(counts_matrix())), sp.csr_array)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_float32_gives_float32_close_to_float64(feature_map: Any) -> None:
    X, new = counts_matrix(), counts_matrix(7, seed=1)
    single = clone(feature_map).fit(X.astype(np.float32)).transform(new.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, clone(feature_map).fit(X).transform(new), atol=2e-5)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_transform_uses_the_training_rows_only(feature_map: Any) -> None:
    fitted = clone(feature_map).fit(counts_matrix())
    one = counts_matrix(1, seed=1)
    with_others = np.vstack([one, 100 * counts_matrix(5, seed=2)])
    np.testing.assert_allclose(fitted.transform(with_others)[:1], fitted.transform(one), atol=1e-12)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_no_rows_give_no_rows(feature_map: Any) -> None:
    fitted = clone(feature_map).fit(counts_matrix())
    width = fitted.transform(counts_matrix()).shape[1]
    assert fitted.transform(counts_matrix()[:0]).shape == (0, width)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_inputs_are_left_untouched(feature_map: Any) -> None:
    unsorted = sp.csr_array((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    X = sp.vstack([unsorted, sp.csr_array(counts_matrix()[:, :3])], format="csr")
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    clone(feature_map).fit_transform(X)
    for now, then in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_use_before_fit_is_rejected(feature_map: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        clone(feature_map).transform(counts_matrix())
    with pytest.raises(NotFittedError, match="not fitted"):
        pack(clone(feature_map), HOMES)


def test_bad_values_are_named_by_row() -> None:
    X = counts_matrix()
    X[17, 2] = np.nan
    with pytest.raises(ViewError, match="row 17"):
        SignedRoot().fit(X)


def test_another_width_is_rejected() -> None:
    fitted = SignedRoot().fit(counts_matrix())
    with pytest.raises(ViewError, match="features"):
        fitted.transform(np.ones((2, 3)))


def test_feature_names_are_passed_on() -> None:
    fitted = Bias().fit(np.ones((2, 2)))
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1", "bias"]
    rbf = RBFAnchors(variant="rbf_fixed").fit(np.ones((2, 2)))
    assert len(rbf.get_feature_names_out()) == rbf.transform(np.ones((1, 2))).shape[1]


@given(X=matrices)
def test_svd_keeps_the_best_subspace(X: np.ndarray) -> None:
    fitted = TagSVD(n_components=2).fit(X)
    rebuilt = fitted.transform(X) @ fitted.components_
    values = np.linalg.svd(X, compute_uv=False)
    error = np.square(X - rebuilt).sum()
    assert error == pytest.approx(np.square(values[2:]).sum(), abs=1e-6)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_svd_matches_the_full_decomposition(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).normal(size=shape)
    fitted = TagSVD(n_components=500).fit(X)
    _, values, vectors = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(fitted.singular_values_, values, rtol=1e-9)
    np.testing.assert_allclose(np.abs(fitted.components_ @ vectors.T), np.eye(20), atol=1e-8)
    np.testing.assert_allclose(fitted.components_ @ fitted.components_.T, np.eye(20), atol=1e-9)


def test_randomised_svd_agrees_with_the_exact_one_and_repeats(monkeypatch: Any) -> None:
    X = sp.csr_array(counts_matrix(200))
    exact = TagSVD(n_components=4).fit_transform(X)
    monkeypatch.setattr(svd_module, "_MAX_GRAM", 1)
    first = TagSVD(n_components=4, random_state=0).fit_transform(X)
    again = TagSVD(n_components=4, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, exact, atol=1e-3)


def test_randomised_svd_does_without_divide_and_conquer(monkeypatch: Any) -> None:
    def svd(*arguments: Any, lapack_driver: str = "gesdd", **options: Any) -> Any:
        if lapack_driver == "gesdd":  # as it happened once
            raise np.linalg.LinAlgError("SVD did not converge")
        return decompose(*arguments, lapack_driver=lapack_driver, **options)

    decompose = scipy.linalg.svd
    monkeypatch.setattr(scipy.linalg, "svd", svd)
    monkeypatch.setattr(svd_module, "_MAX_GRAM", 1)
    X = np.random.default_rng(0).normal(size=(30, 12)) * np.geomspace(1, 0.1, 12)
    assert TagSVD(3, random_state=0).fit(X).components_.shape == (3, 12)


def test_svd_gives_one_sparse_row_the_bits_it_has_among_many() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 200), density=0.05, format="csr", rng=rng, dtype=np.float32)
    svd = TagSVD(12).fit(X)
    together = svd.transform(X)
    alone = np.vstack([svd.transform(X[[row]]) for row in range(60)])
    np.testing.assert_array_equal(alone, together)


def test_svd_uses_no_more_components_than_the_rank() -> None:
    X = np.outer(np.arange(1.0, 6.0), [1.0, 2.0, 3.0])
    assert TagSVD(n_components=3).fit_transform(X).shape == (5, 1)


def test_every_name_makes_a_map() -> None:
    for name in list_feature_maps():
        assert make_feature_map(name).fit_transform(counts_matrix()).shape[0] == 40


def test_maps_are_made_from_names_with_parameters_and_from_transformers() -> None:
    assert make_feature_map("rbf_fixed", sigma=0.6).get_params()["sigma"] == 0.6
    given_map = RBFAnchors(7).fit(counts_matrix())
    feature_map = make_feature_map(given_map)
    assert feature_map is not given_map
    assert feature_map.n_anchors == 7
    assert not hasattr(feature_map, "anchors_")


def test_a_transformer_without_parameters_is_accepted() -> None:
    class Plain:
        def fit(self, X: Any) -> "Plain":  # noqa: ARG002
            return self

        def transform(self, X: Any) -> Any:
            return X

    assert isinstance(make_feature_map(Plain()), Plain)


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("rbf", {}, "'rbf'"),
        (3, {}, "fit and transform"),
        (SignedRoot, {}, "instance"),
        (SignedRoot(), {"n": 1}, "transformer"),
    ],
)
def test_objects_that_are_no_maps_are_rejected(
    kind: Any, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_feature_map(kind, **params)
