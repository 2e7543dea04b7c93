"""Arrays of CuPy (on a GPU) and JAX are accepted and returned; skipped if not installed."""

import numpy as np
import pytest

from acqh import CodeIndex, compress
from acqh.quantize import AdditiveQuantizer


def library(name):
    """Return a library of arrays that can hold some here, or skip."""
    module = pytest.importorskip({"cupy": "cupy", "jax": "jax.numpy"}[name])
    try:
        module.asarray([0.0])
    except Exception as error:  # what CuPy raises without a device has many classes
        pytest.skip(f"{name} has no device to hold arrays on: {error}")
    return module


@pytest.fixture(params=["cupy", "jax"])
def arrays(request):
    return library(request.param)


def on_host(array):
    return array.get() if hasattr(array, "get") else np.asarray(array)


def test_an_index_gives_back_the_kind_that_queries_have(arrays):
    rng = np.random.default_rng(0)
    index = CodeIndex(rng.standard_normal((8, 16, 5))).add(rng.integers(16, size=(400, 8)))
    queries = rng.standard_normal((3, 5)).astype(np.float32)
    result, expected = index.search(arrays.asarray(queries), 4), index.search(queries, 4)
    for name in ("ids", "scores", "counts", "exact", "bound"):
        assert isinstance(getattr(result, name), arrays.ndarray)
        np.testing.assert_allclose(on_host(getattr(result, name)), getattr(expected, name), 1e-6)


def test_a_quantizer_gives_back_the_kind_that_rows_have(arrays):
    rows = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    array = arrays.asarray(rows)
    quantizer = AdditiveQuantizer(2, 8, random_state=0).fit(array, queries=array[:50])
    plain = AdditiveQuantizer(2, 8, random_state=0).fit(rows, queries=rows[:50])
    codes = quantizer.encode(array)
    assert isinstance(codes, arrays.ndarray)
    np.testing.assert_array_equal(on_host(codes), plain.encode(rows))
    np.testing.assert_array_equal(on_host(quantizer.decode(codes)), plain.decode(on_host(codes)))


def test_vectors_are_compressed_and_found(arrays):
    rows = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    small = compress(arrays.asarray(rows), queries=arrays.asarray(rows[:50]), bytes_per_item=1)
    expected = compress(rows, queries=rows[:50], bytes_per_item=1)
    np.testing.assert_array_equal(on_host(small.codes), on_host(expected.codes))
    assert isinstance(small.search(arrays.asarray(rows[:3]), k=2).scores, arrays.ndarray)
