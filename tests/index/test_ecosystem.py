"""Arrays and columns of other libraries are accepted, and results have the same type."""

import array_api_strict
import faiss
import numpy as np
import pyarrow as pa
import pytest

from acqh import CodeIndex, compress
from acqh.errors import InvalidInputError
from acqh.quantize import AdditiveQuantizer
from acqh.scale import open_shards

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def items():
    rng = np.random.default_rng(0)
    codebooks, codes = rng.standard_normal((8, 16, 5)), rng.integers(16, size=(400, 8))
    return CodeIndex(codebooks).add(codes), rng.standard_normal((3, 5)).astype(np.float32)


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_tensors_of_torch_give_tensors(items, dtype, shards):
    index, queries = items
    searched = open_shards([index]) if shards else index
    tensor = torch.tensor(queries).to(dtype).requires_grad_()
    result = searched.search(tensor, 4)
    expected = index.search(tensor.detach().float().numpy(), 4)
    for name in ("ids", "scores", "counts", "n_scored", "n_scanned", "exact", "bound"):
        value = getattr(result, name)
        assert isinstance(value, torch.Tensor)
        assert value.device == tensor.device
        np.testing.assert_array_equal(value.numpy(), getattr(expected, name))
    assert result.to_pandas().equals(expected.to_pandas())


def test_text_ids_stay_objects_next_to_tensors(items):
    index, queries = items
    named = CodeIndex(index.codebooks).add(index.codes, [f"item {i}" for i in range(400)])
    result = named.search(torch.tensor(queries), 2)
    assert result.ids.dtype == object
    assert isinstance(result.scores, torch.Tensor)


def test_codes_and_codebooks_may_be_tensors(items):
    index, queries = items
    other = CodeIndex(torch.tensor(index.codebooks)).add(torch.tensor(index.codes))
    np.testing.assert_array_equal(other.search(queries, 5).ids, index.search(queries, 5).ids)


def test_arrays_of_the_array_api_give_such_arrays(items):
    index, queries = items
    result = index.search(array_api_strict.asarray(queries), 4)
    expected = index.search(queries, 4)
    for name in ("ids", "scores", "counts", "exact", "bound"):
        assert isinstance(getattr(result, name), type(array_api_strict.asarray([0])))
        np.testing.assert_array_equal(np.asarray(getattr(result, name)), getattr(expected, name))


@pytest.mark.parametrize("values", [[5, 3, 8], ["a", "c", "b"]])
@pytest.mark.parametrize(
    "column", [pd.Series, pd.Index, pl.Series, pa.array, lambda values: pa.chunked_array([values])]
)
def test_columns_are_ids(values, column):
    index = CodeIndex(np.eye(3)[np.newaxis]).add([[0], [1], [2]], ids=column(values))
    assert index.ids.tolist() == values
    assert index.search(np.eye(3), 1, filter=column(values[:1])).counts.tolist() == [1, 1, 1]
    assert len(index.remove(column(values[1:]))) == 1


KINDS = {
    "array": np.asarray,
    "tensor": torch.tensor,
    "tensor with gradients": lambda rows: torch.tensor(rows, requires_grad=rows.dtype.kind == "f"),
    "array API": array_api_strict.asarray,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantizer_returns_the_array_type_of_its_input(kind):
    rows = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    make = KINDS[kind]
    plain = AdditiveQuantizer(2, 8, random_state=0).fit(rows, queries=rows[:50])
    quantizer = AdditiveQuantizer(2, 8, random_state=0).fit(
        make(rows), sample_weight=make(np.ones(300)), queries=make(rows[:50])
    )
    np.testing.assert_array_equal(quantizer.codebooks_, plain.codebooks_)
    codes = quantizer.encode(make(rows), start=make(quantizer.training_codes_))
    vectors = quantizer.decode(codes)
    for array in (codes, vectors):
        assert isinstance(array, type(make(rows)))
    expected = plain.encode(rows, start=plain.training_codes_)
    np.testing.assert_array_equal(np.asarray(codes), expected)
    np.testing.assert_array_equal(np.asarray(vectors), plain.decode(expected))


def test_tensors_of_half_precision_are_compressed():
    rows = torch.tensor(np.random.default_rng(0).standard_normal((300, 5))).bfloat16()
    small = compress(rows, queries=rows[:50].requires_grad_(), bytes_per_item=1)
    assert len(small.add(rows[:5]).index) == 305
    result = small.search(rows[:3], k=2, budget=50)
    assert isinstance(result.bound, torch.Tensor)
    expected = compress(rows.float().numpy(), queries=rows[:50].float().numpy(), bytes_per_item=1)
    np.testing.assert_array_equal(small.codes[:300], expected.codes)


@pytest.mark.parametrize("kind", KINDS)
def test_filters_ids_and_full_vectors_may_be_of_any_kind(items, kind):
    index, queries = items
    make, mask = KINDS[kind], np.arange(400) % 3 == 0
    vectors = np.random.default_rng(1).standard_normal((400, 5)).astype(np.float32)
    expected = index.search(queries, 5, filter=mask, rerank=vectors)
    result = index.search(queries, 5, filter=make(mask), rerank=make(vectors))
    again = index.search(queries, 5, filter=make(np.flatnonzero(mask)), rerank=make(vectors))
    for array in (result, again):
        np.testing.assert_array_equal(array.ids, expected.ids)
    other = CodeIndex(make(index.codebooks)).add(make(index.codes), ids=make(np.arange(400) + 9))
    np.testing.assert_array_equal(other.ids, np.arange(400) + 9)


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("column", [pd.Series, pl.Series, pa.array])
def test_columns_of_booleans_are_masks(items, column, shards):
    index, queries = items
    searched = open_shards([index]) if shards else index
    mask = np.arange(400) % 3 == 0
    result = searched.search(queries, 5, filter=column(mask))
    np.testing.assert_array_equal(result.ids, index.search(queries, 5, filter=mask).ids)


def test_a_column_with_missing_values_is_rejected():
    with pytest.raises(InvalidInputError, match="NoneType"):
        CodeIndex(np.eye(2)[np.newaxis]).add([[0], [1]], ids=pa.array(["a", None]))


@pytest.mark.parametrize(("n_codebooks", "codebook_size"), [(8, 5), (8, 16), (4, 256), (16, 256)])
def test_faiss_gives_the_same_results_on_exported_codes(n_codebooks, codebook_size):
    rng = np.random.default_rng(codebook_size)
    shrinking = 1.5 ** np.arange(n_codebooks)[:, None, None]
    codebooks = rng.standard_normal((n_codebooks, codebook_size, 6)) / shrinking
    index = CodeIndex(codebooks).add(rng.integers(codebook_size, size=(3000, n_codebooks)))
    index.remove(index.ids[::7])
    queries = rng.standard_normal((10, 6)).astype(np.float32)
    theirs = faiss.deserialize_index(faiss.serialize_index(index.to_faiss()))
    scores, rows = theirs.search(queries, 5)
    ours = index.search(queries, 5)
    np.testing.assert_array_equal(index.ids[rows], ours.ids)
    np.testing.assert_allclose(scores, ours.scores, rtol=1e-5)
