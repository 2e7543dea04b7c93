"""Embeddings to codes, an index and a report."""

import os
import subprocess
import sys
import tracemalloc
from copy import copy
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

import acqh
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError
from acqh.quantize import AdditiveQuantizer
from acqh.scale import Compressed, keep_vectors, sweep
from acqh.scale.chunks import list_vector_chunks
from acqh.scale.compression import exact_best, merge_best, sample_rows, share_found
from acqh.scale.recall import enough_bytes

N_COMPONENTS = 8


def make_items(n_items=900, seed=0):
    return np.random.default_rng(seed).normal(size=(n_items, N_COMPONENTS)).astype(np.float32)


def make_queries(n_queries=200):
    return make_items(n_queries, seed=1) * np.geomspace(0.1, 2.0, N_COMPONENTS, dtype=np.float32)


@pytest.fixture(scope="module")
def small():
    return acqh.compress(make_items(), queries=make_queries(), bytes_per_item=2)


def test_codes_and_index_are_those_of_the_quantizer(small):
    quantizer = small.quantizer
    codes = quantizer.encode(make_items(), start=quantizer.training_codes_)
    np.testing.assert_array_equal(small.codes, codes)
    result = small.search(make_queries(), k=5)
    scores = make_queries() @ small.quantizer.decode(codes).T
    np.testing.assert_allclose(result.scores, -np.sort(-scores, axis=1)[:, :5], rtol=1e-4)


def test_the_report_equals_exact_search_of_held_out_queries(small):
    report = small.report
    assert (report.n_items, report.n_components, report.bytes_per_item) == (900, N_COMPONENTS, 2)
    assert (report.n_queries, report.n_held_out, report.n_trained) == (200, 40, 900)
    assert set(report.recall) == {1, 10, 100}
    assert 0 < report.recall[10] < report.recall[100] < 1
    decoded = small.quantizer.decode(small.codes)
    items = make_items()
    error = np.square(items - decoded).sum() / np.square(items - items.mean(axis=0)).sum()
    assert report.error == pytest.approx(error, rel=1e-3)
    assert {"fit", "encode", "index", "evaluate"} <= set(report.seconds)


def test_the_report_counts_all_that_is_written(small, tmp_path):
    small.save(tmp_path / "small.acqh")
    written = sum(file.stat().st_size for file in (tmp_path / "small.acqh").iterdir())
    manifest = (tmp_path / "small.acqh" / "manifest.json").stat().st_size
    assert small.report.n_bytes == pytest.approx(written - manifest, abs=2000)
    assert small.report.compression == 4 * N_COMPONENTS * 900 / small.report.n_bytes


def test_overfitted_codewords_are_reported():
    few = acqh.compress(make_items(400), bytes_per_item=2)
    assert few.report.compression < 1
    assert "memorized" in few.report.advice
    assert few.report.advice in str(few.report)
    assert "larger than" in few.report.advice


def test_recall_without_queries_is_that_of_new_vectors():
    items, new = (
        chunk / np.linalg.norm(chunk, axis=1, keepdims=True)
        for chunk in (make_items(2000), make_items(1000, seed=7))
    )
    small = acqh.compress(items, bytes_per_item=2)
    true = exact_best(new, items, 0, 100)[0]
    hits = small.search(new, 500).ids
    for k in (1, 10, 100):
        recall = share_found(true[:, :k], hits[:, :k])
        assert small.report.recall[k] == pytest.approx(recall, abs=0.05)
    for n in (100, 500):
        recall = share_found(true[:, :10], hits[:, :n])
        assert small.report.reranked_recall[n] == pytest.approx(recall, abs=0.05)


def test_the_report_can_be_read_at_a_glance(small):
    assert repr(small).startswith("<Compressed: 900 items of 8 dimensions in 2 bytes each;")
    assert "recall @1 0." in repr(small)
    assert "40 held-out queries" in repr(small)


def test_load_opens_what_was_saved(small, tmp_path):
    small.save(tmp_path / "small.acqh", name="small")
    index = acqh.load(tmp_path / "small.acqh")
    assert index.info["compress"] == small.report.to_dict()
    assert len(index.add(make_items(3, seed=5))) == 903
    assert isinstance(acqh.load(tmp_path / "small.acqh", acqh.CodeIndex), acqh.CodeIndex)
    index, queries = acqh.load(tmp_path / "small.acqh"), make_queries()
    np.testing.assert_array_equal(index.search(queries, 3).ids, small.search(queries, 3).ids)


def test_items_can_be_added_to_a_saved_index(small, tmp_path):
    path = tmp_path / "small.acqh"
    small.save(path)
    again = Compressed.load(path)
    assert again.report == small.report
    more = make_items(50, seed=2)
    codes = small.quantizer.encode(more)
    np.testing.assert_array_equal(again.quantizer.encode(more), codes)
    assert again.quantizer.shrinkage_ == small.quantizer.shrinkage_
    again.add(more)
    np.testing.assert_array_equal(again.codes, np.concatenate([small.codes, codes]))
    again.save(path)
    assert len(Compressed.load(path).index) == 950
    assert acqh.verify(path).ok


def test_an_index_without_its_quantizer_is_no_place_for_further_vectors(small, tmp_path):
    small.index.save(tmp_path / "index.acqh", info={"compress": small.report.to_dict()})
    with pytest.raises(InvalidInputError, match="quantizer"):
        Compressed.load(tmp_path / "index.acqh")


def test_an_inconsistent_stored_quantizer_is_rejected(small, tmp_path):
    info, arrays = small.quantizer.to_state()
    state = {"compress": small.report.to_dict(), "quantizer": info}
    wrong = [
        ({**state, "quantizer": {}}, arrays),
        ({**state, "quantizer": {**info, "params": {"beam_width": 0}}}, arrays),
        ({**state, "compress": {}}, arrays),
        (state, {}),
        (state, {**arrays, "_forward": np.eye(3)}),
        ({**state, "quantizer": {**info, "params": {"n_codebooks": 1}}}, arrays),
    ]
    for stored, values in wrong:
        small.index.save(tmp_path / "index.acqh", info=stored, arrays=values)
        with pytest.raises(CorruptBundleError):
            Compressed.load(tmp_path / "index.acqh")


def write_parquet(path, vectors):
    arrow = pytest.importorskip("pyarrow")
    width = vectors.shape[1]
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.ravel()), width)
    table = arrow.table({"vector": lists, "id": [f"n{i}" for i in range(len(vectors))]})
    pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=200)


def write_arrow(path, vectors):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"vector": list(vectors), "id": np.arange(len(vectors))})
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=250)


def write_fbin(path, vectors):
    path.write_bytes(np.array(vectors.shape, "<u4").tobytes() + vectors.tobytes())


def write_faiss(path, vectors):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(path))


WRITERS = {
    "items.npy": np.save,
    "items.npz": lambda path, vectors: np.savez(path, vector=vectors, other=np.ones((3, 2))),
    "items.parquet": write_parquet,
    "items.arrow": write_arrow,
    "items.fbin": write_fbin,
    "items.faiss": write_faiss,
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_in_chunks_and_arrays_give_the_same_result(small, tmp_path, name):
    WRITERS[name](tmp_path / name, make_items())
    np.save(tmp_path / "queries.npy", make_queries())
    view = "vector" if name == "items.npz" else None
    from_file = acqh.compress(
        tmp_path / name, tmp_path / "queries.npy", 2, view=view, chunk_size=130
    )
    np.testing.assert_array_equal(from_file.codes, small.codes)
    assert from_file.report.recall == small.report.recall
    if name == "items.parquet":
        assert from_file.index.ids[7] == "n7"


def test_data_and_their_views_are_taken():
    items = make_items()
    data = acqh.MultiViewData({"image": items, "text": items[:, :3]}, ids=np.arange(900) + 5)
    from_data = acqh.compress(data, bytes_per_item=1, view="image", chunk_size=400)
    np.testing.assert_array_equal(from_data.index.ids, data.ids)
    np.testing.assert_array_equal(from_data.codes, acqh.compress(items, bytes_per_item=1).codes)
    with pytest.raises(ViewError, match="image, text"):
        acqh.compress(data)


def test_all_items_are_encoded_if_training_uses_a_sample():
    small = acqh.compress(make_items(), bytes_per_item=1, n_train=300, chunk_size=128)
    assert small.report.n_trained == 300
    assert len(small.index) == 900
    np.testing.assert_array_equal(small.codes, small.quantizer.encode(make_items()))


def test_progress_reports_reading_and_encoding():
    events = []
    acqh.compress(
        make_items(), bytes_per_item=1, chunk_size=500, progress=lambda *event: events.append(event)
    )
    assert [event for event in events if event[2] != "training steps"] == [
        (500, 900, "500 items read"),
        (900, 900, "900 items read"),
        (500, 900, "500 items encoded"),
        (900, 900, "900 items encoded"),
    ]


def test_without_queries_items_are_used_as_queries():
    small = acqh.compress(make_items(), bytes_per_item=2)
    assert small.report.n_queries == 0
    assert small.report.shrinkage == 1
    assert "500 items as queries" in repr(small)


def test_ids_of_the_caller_are_kept():
    ids = [f"item {i}" for i in range(900)]
    small = acqh.compress(make_items(), bytes_per_item=1, ids=ids)
    assert small.index.ids.tolist() == ids
    assert small.report.recall[100] > 0.3


def test_a_cluster_gives_the_result_of_one_process(tmp_path):
    distributed = pytest.importorskip("distributed")
    items, queries = make_items(), make_queries()
    np.save(tmp_path / "items.npy", items)
    local = acqh.compress(items, queries, 1, n_train=500, chunk_size=200)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for source in (tmp_path / "items.npy", items):
            remote = acqh.compress(source, queries, 1, n_train=500, chunk_size=200, client=client)
            np.testing.assert_array_equal(remote.codes, local.codes)
            assert remote.report.recall == local.report.recall


@pytest.mark.parametrize("n_items", [1, 3, 200])
def test_fewer_items_than_codewords_are_quantized_exactly(n_items):
    items = make_items(n_items)
    small = acqh.compress(items, queries=make_queries(), bytes_per_item=1)
    np.testing.assert_allclose(small.quantizer.decode(small.codes), items, atol=1e-4)
    assert small.report.recall[10] == pytest.approx(1.0)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_items_that_are_all_equal_are_found_as_one(value):
    items = np.full((700, N_COMPONENTS), value, dtype=np.float32)
    small = acqh.compress(items, queries=make_queries(), bytes_per_item=4)
    np.testing.assert_allclose(small.quantizer.decode(small.codes), items, atol=1e-5)
    assert np.isfinite(small.report.error)
    assert small.report.recall[100] == 1.0


def test_zero_vectors_among_items_and_queries_do_no_harm():
    items, queries = make_items(), make_queries()
    items[::3], queries[::2] = 0, 0
    small = acqh.compress(items, queries=queries, bytes_per_item=2)
    assert np.isfinite(small.quantizer.codebooks_).all()
    assert all(np.isfinite(value) for value in small.report.recall.values())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16, np.float64])
def test_numbers_of_any_kind_are_taken(dtype):
    items = np.random.default_rng(0).integers(0, 100, (300, 4)).astype(dtype)
    small = acqh.compress(items, bytes_per_item=1)
    assert small.quantizer.codebooks_.dtype == np.float32


def with_nan():
    items = make_items()
    items[12, 3] = np.nan
    return items


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"items": with_nan()}, ViewError, "items .*row 12"),
        ({"items": np.full((5, 6), 1e200)}, ViewError, "scale"),
        ({"queries": with_nan()}, ViewError, "queries .*row 12"),
        ({"queries": np.ones((5, 3))}, InvalidInputError, "dimensions"),
        ({"queries": np.ones((0, 8))}, InvalidInputError, "queries"),
        ({"items": np.ones((0, 8))}, ViewError, "items"),
        ({"items": np.ones(8)}, ViewError, "1 dimensions"),
        ({"bytes_per_item": 0}, InvalidInputError, "got 0"),
        ({"bytes_per_item": 65}, InvalidInputError, "got 65"),
        ({"bytes_per_item": 2.5}, InvalidInputError, "whole number"),
        ({"n_train": 0}, InvalidInputError, "n_train"),
        ({"chunk_size": 0}, InvalidInputError, "chunk_size"),
        ({"ids": [1, 2]}, InvalidInputError, "900"),
    ],
)
def test_bad_input_is_rejected(arguments, error, message):
    with pytest.raises(error, match=message):
        acqh.compress(**{"items": make_items()} | arguments)


def test_a_damaged_file_is_rejected(tmp_path):
    write_fbin(tmp_path / "items.fbin", make_items())
    with (tmp_path / "items.fbin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(CorruptBundleError, match="damaged"):
        acqh.compress(tmp_path / "items.fbin")


def test_the_exact_best_do_not_depend_on_chunks():
    queries, items = make_queries(20), make_items(100)
    full = exact_best(queries, items, 0, 30)
    parts = [exact_best(queries, items[start : start + 7], start, 30) for start in range(0, 100, 7)]
    merged = reduce(lambda best, later: merge_best(best, later, 30), parts)
    np.testing.assert_array_equal(merged[0], full[0])
    np.testing.assert_array_equal(full[0], np.argsort(-(queries @ items.T), axis=1)[:, :30])


def test_recall_is_the_share_of_the_best_that_were_found():
    true, result = np.arange(10)[np.newaxis], np.array([[0, 2, 1, 3, 4, 5, 6, 7, 90, 91]])
    assert share_found(true, result) == 0.8
    assert share_found(true[:, :1], result[:, :1]) == 1.0
    assert share_found(true[:, :0], result[:, :0]) == 1.0


def test_a_query_aware_quantizer_has_a_higher_recall():
    items, queries = make_items(3000), make_queries(600)
    query_aware = acqh.compress(items, queries=queries, bytes_per_item=1)
    plain = AdditiveQuantizer(1, random_state=0).fit(items)
    index = acqh.CodeIndex(plain.codebooks_).add(plain.encode(items))
    new = make_queries(900)[600:]
    best = exact_best(new, items, 0, 100)[0]
    recalls = [share_found(best, one.search(new, 100).ids) for one in (index, query_aware)]
    assert recalls[1] > recalls[0]


def test_a_ridge_is_used_only_if_training_uses_a_sample():
    items = np.random.default_rng(0).normal(size=(700, 8)).astype(np.float32)
    for n_train, ridge in ((700, 0.0), (400, None)):
        small = acqh.compress(items, bytes_per_item=2, n_train=n_train, random_state=0)
        assert small.quantizer.ridge == ridge


@pytest.mark.parametrize("name", ["items.pq", "items.ipc", "folder/items.parquet"])
def test_only_the_requested_view_of_a_table_is_read(tmp_path, name):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table({"image": [[1.0, 2.0]], "text": [[3.0]]}), path)
    source = path if path.parent == tmp_path else path.parent
    assert list(list_vector_chunks(source, "text", 10)[0].read().views) == ["text"]


def test_the_smallest_size_that_larger_ones_hardly_improve_on_is_enough():
    assert enough_bytes({2: 0.3, 4: 0.6, 8: 0.8, 16: 0.82}) == 8
    assert enough_bytes({2: 0.3, 4: 0.34, 8: 0.8}) == 8
    assert enough_bytes({4: 0.99, 16: 1.0}) == 4


def of_clusters(n, rng, width=16, shift=0.0):
    """Vectors around 40 centres; others around others, where they are shifted."""
    centres = np.random.default_rng(7).normal(size=(40, width)) + shift
    return (centres[rng.integers(40, size=n)] + 0.3 * rng.normal(size=(n, width))).astype("f4")


@pytest.mark.parametrize("n_train", [500, 4000], ids=["some learnt from", "all learnt from"])
def test_only_items_unlike_the_training_items_are_drift(n_train):
    rng = np.random.default_rng(0)
    items = of_clusters(2000, rng)
    alike, foreign = (
        acqh.compress(items, bytes_per_item=2, n_train=n_train).add(more).drift
        for more in (of_clusters(400, rng), rng.normal(size=(400, 16)).astype("f4"))
    )
    assert alike.n_added == foreign.n_added == 400
    assert 0.7 < alike.ratio < 1.3
    assert not alike.retraining_recommended
    assert foreign.ratio > 1.5
    assert foreign.retraining_recommended
    assert "retraining is recommended" in str(foreign)


def test_drift_is_saved_with_the_index(tmp_path):
    rng = np.random.default_rng(0)
    small = acqh.compress(of_clusters(300, rng), bytes_per_item=1)
    assert small.drift.ratio is None
    small.add(rng.normal(size=(50, 16)).astype("f4")).save(tmp_path / "small.acqh")
    stored = acqh.load(tmp_path / "small.acqh").info["drift"]
    assert stored["retraining_recommended"]
    assert stored["ratio"] == small.drift.ratio
    again = Compressed.load(tmp_path / "small.acqh")
    assert again.drift == small.drift
    assert again.add(rng.normal(size=(50, 16)).astype("f4")).drift.n_added == 100


def test_retraining_fits_added_items_and_keeps_the_old_index():
    rng = np.random.default_rng(0)
    items, foreign = of_clusters(1000, rng), rng.normal(size=(1000, 16)).astype("f4")
    small = acqh.compress(items, bytes_per_item=2).add(foreign)
    small.index.remove([3])
    codes = small.codes.copy()
    new = small.retrain(np.concatenate([items, foreign]))
    assert sorted(new.index.ids) == sorted(small.index.ids)
    assert new.drift.n_added == 0
    assert (small.codes == codes).all()
    old, learnt = (
        np.square(foreign - one.quantizer.decode(one.codes[-1000:])).sum() for one in (small, new)
    )
    assert learnt < 0.8 * old


def test_tensors_are_added_like_arrays():
    torch = pytest.importorskip("torch")
    items = of_clusters(200, np.random.default_rng(0))
    more = torch.tensor(items[:40] + 0.1, requires_grad=True)
    small = acqh.compress(items, bytes_per_item=1).add(more)
    assert small.drift.n_added == 40
    assert len(small.index) == 240


def test_drift_of_small_whole_numbers_is_that_of_floats():
    items = np.random.default_rng(0).integers(0, 255, (300, 16)).astype(np.uint8)
    drifts = [
        acqh.compress(items, bytes_per_item=1).add(items[:50].astype(kind)).drift
        for kind in (np.uint8, np.float16, np.float64)
    ]
    assert drifts[0] == drifts[2]
    assert drifts[1] == drifts[2]


def test_retraining_requires_all_items():
    items = of_clusters(200, np.random.default_rng(0))
    small = acqh.compress(items, bytes_per_item=1)
    with pytest.raises(InvalidInputError, match="20 of 200"):
        small.retrain(items[:180])


def test_rows_outside_the_sample_are_drawn_from_all_of_them():
    rows, others = sample_rows(10, 5, np.random.default_rng(0))
    assert sorted([*rows, *others]) == list(range(10))
    assert sample_rows(10, 10, np.random.default_rng(0))[1].tolist() == []
    rows, others = sample_rows(10_000, 5_000, np.random.default_rng(0))
    assert len(np.unique(np.concatenate([rows, others]))) == 5_500
    assert 4_000 < others.mean() < 6_000


def test_drawing_rows_takes_no_memory_per_item():
    tracemalloc.start()
    try:
        rows, others = sample_rows(10**8, 5_000, np.random.default_rng(0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(np.unique(np.concatenate([rows, others]))) == 5_500
    assert peak < 2e6


BLAS_THREADS = """
import acqh, numpy as np
from threadpoolctl import threadpool_info

def blas_threads():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

items, seen = np.random.default_rng(0).normal(size=(300, 4)), []
acqh.compress(items, bytes_per_item=1, n_threads=1, progress=lambda *_: seen.append(blas_threads()))
print(set(seen), blas_threads())
"""


def test_the_number_of_threads_limits_blas_too():
    threads = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", BLAS_THREADS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **threads},
    )
    assert done.stdout.split() == ["{1}", "2"]


def test_an_unknown_keyword_of_compress_suggests_the_nearest():
    with pytest.raises(TypeError, match="did you mean 'bytes_per_item'"):
        acqh.compress(np.ones((3, 2)), n_bytes=4)


def exact_scores(metric, items, queries):
    items, queries = items.astype(float), queries.astype(float)
    if metric == "l2":
        return -np.square(queries[:, np.newaxis] - items).sum(axis=2)
    if metric == "cosine":
        items, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (items, queries))
    return queries @ items.T


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
@pytest.mark.parametrize(("n_bytes", "correlation"), [(1, 0.7), (2, 0.85), (6, 0.99)])
def test_scores_are_those_of_the_metric(metric, n_bytes, correlation, tmp_path):
    items = 3 + make_items() * np.linspace(0.2, 4, 900, dtype=np.float32)[:, np.newaxis]
    queries = 3 + make_queries(50)
    compressed = acqh.compress(items, queries, n_bytes, metric)
    assert compressed.codes.shape == (900, n_bytes)
    compressed.save(tmp_path / "index.acqh")
    hits = Compressed.load(tmp_path / "index.acqh").search(queries, k=900)
    truth = np.take_along_axis(exact_scores(metric, items, queries), hits.ids, axis=1)
    assert np.corrcoef(hits.scores.ravel(), truth.ravel())[0, 1] > correlation
    assert (np.diff(hits.scores, axis=1) <= 0).all()


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_recall_of_the_report_is_that_of_the_metric(metric):
    items, queries = 3 + make_items(2000), 3 + make_queries()
    compressed = acqh.compress(items, queries, 4, metric)
    measured = acqh.metrics.recall(compressed.index, items, queries, k=10)
    assert measured.metric == compressed.report.metric == metric
    assert compressed.report.recall[10] == pytest.approx(measured.recall[10], abs=0.1)
    assert measured.recall[10] > 0.6


def test_l2_does_not_depend_on_the_origin():
    items = make_items()
    recalls = [acqh.compress(items + shift, None, 4, "l2").report.recall[10] for shift in (0, 1000)]
    assert recalls[0] == pytest.approx(recalls[1], abs=0.05)


def test_items_added_to_an_l2_index_have_their_norm():
    items, more = make_items() * 2 + 1, make_items(40, seed=3) * 2 + 1
    compressed = acqh.compress(items, None, 6, "l2").add(more)
    hits = compressed.search(more, 1)
    assert np.mean(hits.ids[:, 0] >= 900) > 0.7
    decoded = compressed.index.reconstruct(900)
    assert np.linalg.norm(decoded - more[0]) < 0.5 * np.linalg.norm(more[0])


def test_distances_are_most_accurate_for_the_queries():
    items, queries = make_items(3000), make_queries(400)
    aware, plain = (acqh.compress(items, sample, 2, "l2") for sample in (queries[:200], None))
    assert aware.report.shrinkage < 1
    truth = np.argsort(-exact_scores("l2", items, queries[200:]), axis=1)[:, :10]
    shares = [share_found(truth, small.search(queries[200:], 10).ids) for small in (aware, plain)]
    assert shares[0] > shares[1] + 0.05


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"n_threads": 0}, "n_threads"),
        ({"view": "image"}, "view"),
        ({"queries": make_queries(0)}, "queries is empty"),
    ],
)
def test_arguments_that_would_be_ignored_are_rejected(changes, word):
    with pytest.raises(InvalidInputError, match=word):
        acqh.compress(make_items(), **{"bytes_per_item": 1, **changes})


def test_no_items_can_be_added(small):
    before = small.drift
    assert len(copy(small).add(make_items(0))) == len(small)
    assert small.drift == before


def test_a_sweep_announces_the_time_of_all_sizes(monkeypatch, caplog):
    monkeypatch.setattr(AdditiveQuantizer, "expected_seconds", lambda *_: 30.0)
    sweep(make_items(), None, (1, 2), max_iter=0)
    assert caplog.messages[0] == "training in 2 sizes takes about 60 s"


def test_an_unknown_metric_is_rejected():
    with pytest.raises(InvalidInputError, match="metric"):
        acqh.compress(make_items(), None, 2, "hamming")


def test_drift_of_many_items_is_measured_on_items_held_out_of_training():
    items = make_items(4_500)
    small = acqh.compress(items, bytes_per_item=1)
    assert small.report.n_trained == 4_500 - 35
    assert small.ids.tolist() == list(range(4_500))
    held_out_error = small.drift.expected
    assert 0.5 < small.add(make_items(500, seed=3)).drift.relative_error / held_out_error < 2
    trained = small.quantizer.relative_error(items)
    assert held_out_error > 0.9 * trained


def test_every_step_of_training_is_reported():
    steps = []
    acqh.compress(make_items(), bytes_per_item=2, progress=lambda *step: steps.append(step))
    training = [(done, total) for done, total, text in steps if text == "training steps"]
    assert [done for done, _ in training][:3] == [1, 2, 3]
    assert {total for _, total in training} == {12}


def test_a_sweep_names_the_size_in_its_progress():
    texts = set()
    reports, _ = sweep(make_items(), None, (1, 2), progress=lambda *step: texts.add(step[2]))
    assert list(reports) == [1, 2]
    assert "size 2 of 2, 2 bytes per item: training steps" in texts


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_kept_vectors_rerank_as_the_items_do(tmp_path, dtype):
    items, queries, path = make_items(), make_queries(), tmp_path / "full.npy"
    n_bytes = keep_vectors(items, path, dtype, chunk_size=400)
    assert n_bytes == path.stat().st_size
    assert n_bytes < items.nbytes * (0.55 if dtype == "float16" else 0.4)
    small = acqh.compress(items, queries, bytes_per_item=1, rerank=path)
    assert small.report.recall[10] < 0.9
    assert small.report.reranked_recall[500] > 0.95
    hits = small.search(queries, 10, rerank=path, rerank_k=500)
    assert share_found(exact_best(queries, items, 0, 10)[0], hits.ids) > 0.95
    with pytest.raises(InvalidInputError, match="rerank has"):
        acqh.compress(items[:800], queries, bytes_per_item=1, rerank=path)
    with pytest.raises(FileExistsError):
        keep_vectors(items, path, dtype)


def test_advice_for_low_recall_has_the_recall_of_reranking():
    report = acqh.compress(make_items(), make_queries(), bytes_per_item=1).report
    assert f"{report.reranked_recall[100]:.3f} (100 candidates)" in report.advice
    assert "re-rank, or use more bytes" in report.advice
    worse = replace(report, reranked_recall={100: 0.2, 500: 0.4})
    assert "re-rank, or" not in worse.advice
    assert replace(report, recall={**report.recall, 10: 0.95}).advice == ""


def test_a_file_that_is_no_vectors_is_an_error(tmp_path):
    (tmp_path / "full.npy").write_bytes(b"no vectors")
    with pytest.raises(InvalidInputError, match="--keep"):
        acqh.compress(make_items(), bytes_per_item=1, rerank=tmp_path / "full.npy")
