"""The store that the classes for other frameworks rest on."""

import doctest
import threading
from pathlib import Path

import numpy as np
import pytest

import acqh
from acqh.errors import CorruptBundleError, InvalidInputError, NotFittedError
from acqh.integrations import DocumentStore
from acqh.io import read_bundle, write_bundle
from acqh.quantize import AdditiveQuantizer


def make_vectors(n_items=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n_items, 6))


def make_store(n_items=300, **settings):
    store = DocumentStore(**settings)
    ids = [str(n) for n in range(n_items)]
    store.put(ids, make_vectors(n_items), [{"n": n} for n in range(n_items)])
    return store


def test_codes_are_those_of_compress():
    store = make_store(bytes_per_item=3, normalize=False)
    queries = make_vectors(40, seed=1)
    store.compress(queries)
    quantizer = AdditiveQuantizer(3, random_state=0)
    rows = make_vectors().astype(np.float32)
    quantizer.fit(rows, queries=queries.astype(np.float32))
    codes = quantizer.encode(rows, start=quantizer.training_codes_)
    np.testing.assert_array_equal(store.index.codes, codes)
    found = store.search(queries[0], k=5)
    scores = quantizer.decode(codes) @ queries[0]
    np.testing.assert_allclose([score for _, score in found], -np.sort(-scores)[:5], rtol=1e-4)
    assert repr(store) == "<DocumentStore: 300 documents, 3 bytes for each vector>"


def test_an_id_that_comes_again_takes_the_place_of_the_old_one():
    for compressed in (False, True):
        store = make_store()
        if compressed:
            store.compress()
        store.put(["5", "x", "x"], make_vectors(3, seed=2), [{"n": -1}, {"n": -2}, {"n": -3}])
        assert len(store) == 301
        assert store.get("5") == {"n": -1}
        assert store.get("x") == {"n": -3}
        assert store.search(make_vectors(3, seed=2)[2], k=1)[0][0] == "x"
        assert store.remove(["5", "5", "absent"]) == 1
        assert store.get("5") is None
        assert len(store.search(make_vectors(1)[0], k=400)) == 300


def test_a_zero_vector_scores_zero():
    store = DocumentStore()
    store.put(["a", "b"], [[0.0, 0.0], [0.0, 2.0]], [{}, {}])
    assert store.search([0.0, 3.0], k=2) == [("b", 1.0), ("a", 0.0)]


def test_an_empty_store_can_be_saved_and_filled_later(tmp_path):
    DocumentStore(bytes_per_item=5, compress_at=None, normalize=False).save(tmp_path / "store")
    store = DocumentStore.load(tmp_path / "store")
    assert store.search([1.0], k=3) == []
    store.put([], [], [])
    store.put(["a"], [[2.0]], [{"text": "é\r\n\u2028"}])
    assert store.search([3.0], k=3) == [("a", 6.0)]
    store.save(tmp_path / "store")
    assert DocumentStore.load(tmp_path / "store").get("a") == {"text": "é\r\n\u2028"}
    assert acqh.verify(tmp_path / "store").ok


@pytest.mark.parametrize("compressed", [False, True])
def test_load_and_verify_open_a_store_like_all_else(tmp_path, compressed):
    store = make_store(bytes_per_item=2)
    if compressed:
        store.compress()
    store.save(tmp_path / "store")
    again = acqh.load(tmp_path / "store")
    assert isinstance(again, DocumentStore)
    query = make_vectors(1, seed=3)[0]
    assert again.search(query, k=5) == store.search(query, k=5)
    assert acqh.verify(tmp_path / "store").ok
    bundle = read_bundle(tmp_path / "store", kind="documents")
    items = {"lines": bundle.arrays("items")["lines"], "rows": np.zeros((1, 2), np.uint8)}
    write_bundle(tmp_path / "store", kind="documents", info=bundle.info, arrays={"items": items})
    assert not acqh.verify(tmp_path / "store").ok


def test_what_cannot_be_saved_leaves_the_old_store(tmp_path):
    store = make_store(3)
    store.save(tmp_path / "store")
    store.put(["bad"], make_vectors(1), [{"value": object()}])
    with pytest.raises(InvalidInputError, match="document 'bad'"):
        store.save(tmp_path / "store")
    assert len(DocumentStore.load(tmp_path / "store")) == 3


def test_bad_input_is_refused_and_changes_nothing():
    store = make_store(3)
    with pytest.raises(InvalidInputError, match="2 ids, 1 vectors and 1 documents"):
        store.put(["a", "b"], make_vectors(1), [{}])
    with pytest.raises(InvalidInputError, match="texts"):
        store.put([1], make_vectors(1), [{}])
    with pytest.raises(InvalidInputError, match="NaN"):
        store.put(["a"], [[np.nan] * 6], [{}])
    with pytest.raises(InvalidInputError, match="numbers of shape"):
        store.put(["a"], [1.0, 2.0], [{}])
    assert len(store) == 3
    with pytest.raises(InvalidInputError, match="no documents"):
        DocumentStore().compress()
    store.compress()
    with pytest.raises(InvalidInputError, match="new store"):
        store.compress()
    with pytest.raises(InvalidInputError):
        store.put(["a"], [[1.0]], [{}])
    assert len(store) == len(store.index) == 3
    with pytest.raises(InvalidInputError, match="1 to 16"):
        DocumentStore(bytes_per_item=17)
    with pytest.raises(InvalidInputError, match="compress_at"):
        DocumentStore(compress_at=0)
    with pytest.raises(NotFittedError):
        DocumentStore(AdditiveQuantizer())


def test_damaged_stores_are_refused(tmp_path):
    store = make_store(30, bytes_per_item=2)
    store.compress()
    store.save(tmp_path / "store")
    bundle = read_bundle(tmp_path / "store")
    arrays = {name: bundle.arrays(name) for name in bundle.members}
    items, info = arrays["items"], bundle.info
    twice = np.concatenate([items["lines"][: len(items["lines"]) // 2]] * 2)
    wrong = [
        (info, {**arrays, "items": {**items, "rows": items["rows"][:5]}}),
        (info, {**arrays, "items": {**items, "lines": items["lines"][:-9]}}),
        (info, {**arrays, "items": {**items, "lines": twice}}),
        (info, {**arrays, "items": {**items, "rows": items["rows"].astype(np.float32)}}),
        ({**info, "settings": {"other": 1}}, arrays),
        ({**info, "quantizer": {}}, arrays),
        (info, {"items": items}),
    ]
    for described, stored in wrong:
        write_bundle(tmp_path / "bad", kind="documents", info=described, arrays=stored)
        with pytest.raises(CorruptBundleError):
            DocumentStore.load(tmp_path / "bad")
    with pytest.raises(FileNotFoundError):
        DocumentStore.load(tmp_path / "absent")


def test_threads_that_add_remove_and_search_meet_no_half_changes():
    store = make_store(50, compress_at=200)
    problems = []

    def write(number):
        for step in range(20):
            ids = [f"{number} {step} {n}" for n in range(5)]
            store.put(ids, make_vectors(5, seed=step), [{"n": each} for each in ids])
            store.remove(ids[:2])

    def read():
        for _ in range(60):
            found = store.search(make_vectors(1)[0], k=10)
            if len(found) != 10 or found != sorted(found, key=lambda pair: -pair[1]):
                problems.append(found)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(store) == 50 + 3 * 20 * 3
    assert store.index is not None


@pytest.mark.parametrize("compressed", [False, True])
def test_vectors_of_documents_that_another_thread_removed_are_left_out(compressed):
    store = DocumentStore(compress_at=None)
    store.put(["a", "b"], [[1.0, 0.0], [0.6, 0.8]], [{}, {}])
    if compressed:
        store.compress()
    store.remove(["a"])
    assert store.vectors(["a", "b"]).keys() == {"b"}


def test_the_examples_of_the_guide_print_what_they_say(tmp_path, monkeypatch):
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    monkeypatch.chdir(tmp_path)
    guide = Path(__file__).resolve().parents[2] / "docs" / "guide" / "frameworks.md"
    found = doctest.testfile(str(guide), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
