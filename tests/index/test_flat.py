"""Small indexes, scanned without inverted lists: the results of compiled code, to the bit."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import numpy_reference as reference
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acqh.errors import CorruptBundleError, InvalidInputError
from acqh.index import CodeIndex
from acqh.index import flat as layout
from acqh.index.flat import FlatSegment, best_rows


@pytest.fixture(autouse=True, scope="module")
def keep_few():
    """Keep few items as they came, as users' indexes do; the other tests have them laid out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acqh.index.code_index.FLAT_MAX_ROWS", layout.FLAT_MAX_ROWS)
        # As if compiled code were not loaded.
        patch.setattr("acqh.index.code_index.sys", SimpleNamespace(modules={}))
        yield


def make(seed, n, size=4, texts=False):
    rng = np.random.default_rng(seed)
    books = rng.standard_normal((3, size, 5), dtype=np.float32)
    codes = rng.integers(0, size, (n, 3)).astype(np.uint8)
    ids = np.cumsum(rng.integers(1, 4, n))
    index = CodeIndex(books)
    half = n // 2
    index.add(codes[:half], ids=ids[:half]).add(codes[half:], ids=ids[half:])
    return rng, index


def search_compiled(index, *arguments, **options):
    """Search in compiled code, which a budget for all codes asks for."""
    return index.search(*arguments, **options, budget=10**9)


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 200),
    size=st.sampled_from([1, 2, 4, 256]),
    k=st.integers(1, 250),
    removed=st.booleans(),
)
def test_few_codes_are_found_as_compiled_code_finds_them(seed, n, size, k, removed):
    rng, index = make(seed, n, size)
    if removed:
        index.remove(rng.choice(index.ids, n // 3, replace=False))
    assert all(isinstance(part.segment, FlatSegment) for part in index._snapshot.parts)
    query = rng.standard_normal((3, 5), dtype=np.float32)
    for only in (None, rng.random(len(index)) < 0.5):
        result, expected = index.search(query, k, only), search_compiled(index, query, k, only)
        for name in ("ids", "scores", "counts", "exact", "bound"):
            assert getattr(result, name).tobytes() == getattr(expected, name).tobytes()


def test_a_small_index_is_read_back_unchanged(tmp_path):
    rng, index = make(0, 60)
    index.remove(index.ids[5:9]).save(tmp_path / "index")
    again = CodeIndex.load(tmp_path / "index", verify=True)
    query = rng.standard_normal((1, 5))
    np.testing.assert_array_equal(again.codes, index.codes)
    np.testing.assert_array_equal(again.search(query, 7).scores, index.search(query, 7).scores)
    assert again.bytes_per_item < 4
    assert again.reconstruct(index.ids[3]).tolist() == index.reconstruct(index.ids[3]).tolist()


def test_a_stored_code_outside_its_codebook_is_damage():
    planes = np.full((3, 2), 9, dtype=np.uint8)
    with pytest.raises(CorruptBundleError, match="codebook_size"):
        FlatSegment.from_arrays({"planes": planes}, {"codebook_size": 9})


def test_an_index_that_grows_is_laid_out(monkeypatch):
    monkeypatch.setattr("acqh.index.code_index.FLAT_MAX_ROWS", 50)
    monkeypatch.setattr(layout, "FLAT_MAX_ROWS", 50)
    rng, index = make(0, 40)
    index.add(rng.integers(0, 4, (30, 3)))
    assert not any(isinstance(part.segment, FlatSegment) for part in index._snapshot.parts)
    query = rng.standard_normal((1, 5), dtype=np.float32)
    expected = search_compiled(index, query, 20)
    np.testing.assert_array_equal(index.search(query, 20).ids, expected.ids)


def test_few_items_are_searched_without_the_compiler():
    program = (
        "import sys, numpy as np\n"
        "from acqh import CodeIndex\n"
        "index = CodeIndex(np.eye(3)[None])\n"
        "assert index.search(np.ones((1, 3)), 1).counts == 0\n"
        "index.add([[0], [1], [2]], ids=[4, 6, 9]).remove([6]).add([[1]], ids=[11])\n"
        "print(index.search([[0, 1, 2]], 2, filter=[4, 11]).ids)\n"
        "many = np.random.default_rng(0).integers(256, size=(16_000, 4))\n"
        "index = CodeIndex(np.random.default_rng(0).normal(size=(4, 256, 8)))\n"
        "index.add_parts([(many[:9_000], None), (many[9_000:], None)])\n"
        "assert index.search(np.eye(8), 5).counts.tolist() == [5] * 8\n"
        "codewords = CodeIndex(np.eye(3)[None]).add([[0], [1]], ids=['b', 'a']).remove(['b'])\n"
        "print(codewords.ids, codewords.positions(['a', 'c', 'b']), 'numba' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[[11  4]]\n['a'] [ 0 -1 -1] False\n"


def test_queries_that_overflow_are_rejected():
    _, index = make(0, 3)
    with pytest.raises(InvalidInputError, match="overflow"):
        index.search(np.full((1, 5), 3e38, dtype=np.float32), 1)


@given(
    scores=st.lists(st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 2.0]), max_size=300),
    k=st.integers(1, 35),
)
def test_the_best_rows_are_the_first_of_all_rows_in_order(scores, k):
    scores = np.array(scores, dtype=np.float32)
    assert best_rows(scores, k).tolist() == reference.best_rows(scores, k).tolist()
