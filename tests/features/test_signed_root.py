import numpy as np
import scipy.sparse as sp

from acqh.features import SignedRoot


def test_roots_keep_signs_zeros_and_sparsity():
    X = np.array([[0.0, 4.0], [-9.0, 0.25]], dtype=np.float32)
    expected = np.array([[0.0, 2.0], [-3.0, 0.5]])
    dense = SignedRoot().fit_transform(X)
    sparse = SignedRoot().fit_transform(sp.csr_array(X))
    assert dense.dtype == np.float32
    assert sp.issparse(sparse)
    np.testing.assert_allclose(dense, expected)
    np.testing.assert_allclose(sparse.toarray(), expected)
