import numpy as np
import pytest

from acqh.errors import InvalidInputError
from acqh.index import CodeIndex, HammingIndex, exhaustive_search

torch = pytest.importorskip("torch", reason="torch is not installed")


def make_tensors(n_items=500):
    rng = np.random.default_rng(0)
    codebooks = torch.from_numpy(rng.normal(size=(3, 16, 5)).astype(np.float32))
    codes = torch.from_numpy(rng.integers(0, 16, size=(n_items, 3)).astype(np.uint8))
    return torch.from_numpy(rng.normal(size=(7, 5)).astype(np.float32)), codes, codebooks


@pytest.mark.parametrize("max_memory", [1 << 30, 4 * 26 * 40])
def test_scores_of_tensors_are_those_of_the_index(max_memory):
    queries, codes, codebooks = make_tensors()
    rows, scores = exhaustive_search(queries, codes, codebooks, 50, max_memory=max_memory)
    result = CodeIndex(codebooks.numpy()).add(codes.numpy()).search(queries.numpy(), k=50)
    np.testing.assert_allclose(scores.numpy(), result.scores, rtol=1e-5, atol=1e-6)
    vectors = sum(codebooks[s][codes[:, s].long()] for s in range(3))
    expected = torch.stack([queries[i] @ vectors[rows[i]].T for i in range(7)])
    torch.testing.assert_close(expected, scores)
    assert all(len(set(row.tolist())) == 50 for row in rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, c, b: (q[0], c, b, 1), "queries must be"),
        (lambda q, c, b: (q[:, :2], c, b, 1), "do not fit"),
        (lambda q, c, b: (q, c[:, :2], b, 1), "do not fit"),
        (lambda q, c, b: (q, c, b, 0), "k must be 1 to 500"),
        (lambda q, c, b: (q, c, b, 501), "k must be 1 to 500"),
    ],
)
def test_tensors_that_do_not_fit_are_rejected(change, message):
    with pytest.raises(InvalidInputError, match=message):
        exhaustive_search(*change(*make_tensors()))


@pytest.mark.parametrize("is_real", [True, False])
def test_binary_codes_are_searched_with_tensors_and_give_tensors(is_real):
    rng = np.random.default_rng(0)
    codes = rng.integers(256, size=(40, 2)).astype(np.uint8)
    queries = rng.normal(size=(3, 16)).astype(np.float32) if is_real else codes[:3]
    index = HammingIndex(16).add(torch.from_numpy(codes))
    result, expected = index.search(torch.from_numpy(queries), 5), index.search(queries, 5)
    assert torch.is_tensor(result.ids)
    np.testing.assert_array_equal(result.ids.numpy(), expected.ids)
    np.testing.assert_array_equal(result.scores.numpy(), expected.scores)
