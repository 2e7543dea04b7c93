"""Arrays of any library are read as matrices of numbers; others are rejected by name."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from acqh._core.arrays import as_matrix, unit_rows
from acqh._core.labels import as_label_matrix
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.features import Bias
from acqh.index import CodeIndex

SPOILT_INDICES = [10**6, 25, 4, -1]


def spoilt_csr(kind, index, shape=(6, 4)):
    matrix = kind(np.ones(shape))
    matrix.indices[3] = index
    return matrix


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.bsr_array])
@pytest.mark.parametrize("index", SPOILT_INDICES)
def test_sparse_indices_outside_the_matrix_are_rejected(kind, index):
    if kind is sp.csc_array and index == 4:
        index = 6  # its indices are rows
    with pytest.raises(ViewError, match="sparse"):
        MultiViewData({"image": spoilt_csr(kind, index)})


def test_decreasing_sparse_pointers_are_rejected():
    matrix = sp.csr_array(np.eye(4))
    matrix.indptr[1:4] = [3, 1, 2]
    with pytest.raises(ViewError, match="sparse"):
        as_matrix(matrix, "view 'image'")


def test_coordinates_outside_the_matrix_are_rejected():
    matrix = sp.coo_array(np.eye(4))
    matrix.coords[0][1] = 10**6
    with pytest.raises(ViewError, match="sparse"):
        as_matrix(matrix, "view 'image'")


@pytest.mark.parametrize("index", SPOILT_INDICES)
def test_sparse_labels_and_inputs_of_feature_maps_have_the_same_checks(index):
    with pytest.raises(LabelError, match="labels"):
        as_label_matrix(spoilt_csr(sp.csr_array, index))
    with pytest.raises(ViewError, match="sparse"):
        Bias().fit(spoilt_csr(sp.csr_array, index))


def test_a_sparse_matrix_is_left_as_it_was():
    matrix = sp.csr_array(np.eye(3))
    matrix.indices = matrix.indices.astype(np.int64)
    before = matrix.indices.dtype, matrix.data.copy()
    as_matrix(matrix, "x")
    assert matrix.indices.dtype == before[0]
    np.testing.assert_array_equal(matrix.data, before[1])


def test_masked_entries_are_rejected_and_the_row_is_named():
    masked = np.ma.masked_array(np.eye(4), mask=np.zeros((4, 4), dtype=bool))
    np.testing.assert_array_equal(as_matrix(masked, "x"), np.eye(4))
    masked[2, 1] = np.ma.masked
    with pytest.raises(ViewError, match="row 2"):
        MultiViewData({"image": masked})
    with pytest.raises(LabelError, match="row 1"):
        MultiViewData({"image": np.eye(2)}, np.ma.masked_array([0, 1], mask=[False, True]))
    with pytest.raises(InvalidInputError, match="masked"):
        CodeIndex(np.ones((1, 2, 4))).add([[0]]).search(masked, k=1)


def test_rows_of_different_lengths_are_rejected():
    with pytest.raises(ViewError, match="view 'image'"):
        MultiViewData({"image": [[1.0, 2.0], [3.0]]})


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", "longdouble"])
def test_other_byte_orders_and_wide_floats_become_native_floats(dtype):
    matrix = as_matrix(np.arange(6).reshape(2, 3).astype(dtype), "x")
    assert matrix.dtype.isnative
    assert matrix.dtype.itemsize <= 8
    np.testing.assert_array_equal(matrix, np.arange(6).reshape(2, 3))


def test_a_wide_float_beyond_float64_is_infinite_and_rejected():
    huge = np.full((1, 1), 2, dtype=np.longdouble) ** 5000
    if not np.isfinite(huge).all():
        pytest.skip("long doubles of this machine are no wider than float64")
    with pytest.raises(ViewError, match="row 0"):
        as_matrix(huge, "x")


def test_half_precision_is_kept_and_its_sum_does_not_overflow():
    matrix = as_matrix(np.full((3, 2), 60_000, dtype=np.float16), "x")
    assert matrix.dtype == np.float16


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_rows_are_those_of_scikit_learn(dtype):
    rows = np.random.default_rng(0).normal(size=(40, 33)).astype(dtype)
    rows[3] = 0
    assert unit_rows(rows).tobytes() == normalize(rows).tobytes()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1e-5, 1e-7, 1e-18])
def test_short_rows_are_scaled_to_length_one_too(kind, dtype, length):
    rows = kind(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -1.0]], dtype=dtype) * dtype(length))
    result = unit_rows(rows)
    result = result.toarray() if sp.issparse(result) else result
    np.testing.assert_allclose(result, [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]], rtol=1e-6)
    assert result.dtype == dtype
