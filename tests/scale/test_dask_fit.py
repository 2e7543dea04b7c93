"""Workers of a cluster fit the model of one process."""

import numpy as np
import pytest
from worker_chunks import Broken, Late

import acqh
from acqh._core.store import pack
from acqh.data import list_chunks
from acqh.errors import (
    ClusterError,
    CorruptBundleError,
    InvalidInputError,
    LabelError,
)
from acqh.methods.registry import HOMES
from acqh.scale import fit

pytest.importorskip("distributed")


def new_model(**settings):
    return acqh.ACQH(8, n_codebooks=2, random_state=0, **settings)


def assert_same_sums(stats, expected):
    stats, expected = pack(stats.compact(), HOMES)[1], pack(expected.compact(), HOMES)[1]
    assert stats.keys() == expected.keys()
    for name, array in stats.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("chunk_size", [230, 100, 10])
def test_statistics_of_a_file_equal_those_of_one_process(client, items, items_file, chunk_size):
    model = fit(new_model(), items_file, chunk_size=chunk_size, client=client)
    assert_same_sums(model.stats_, new_model().fit(items).stats_)
    assert model.label_names_ == items.label_names
    assert model.codebooks_.dtype == new_model().fit(items).codebooks_.dtype


@pytest.mark.parametrize("chunk_size", [100, 17])
def test_statistics_and_codes_of_targets_equal_those_of_one_process(
    client, items, items_file, chunk_size
):
    settings = {"targets": {"labels": 0.5, "image": 0.25, "text": acqh.Target(0.25, "cosine")}}
    model = fit(new_model(**settings), items_file, chunk_size=chunk_size, client=client)
    full = new_model(**settings).fit(items)
    assert_same_sums(model.stats_, full.stats_)
    # Sums in another order round differently, and codes of nearly equal quality may swap.
    assert np.mean(model.encode(items.views) == full.encode(items.views)) > 0.95


def test_a_job_is_reproducible_to_the_bit(client, items_file):
    first, second = (fit(new_model(), items_file, chunk_size=20, client=client) for _ in range(2))
    assert acqh.methods.fingerprint(first) == acqh.methods.fingerprint(second)


def test_feature_maps_are_fitted_on_the_first_chunk(client, items, items_file):
    settings = {"feature_maps": "standardize"}
    model = fit(new_model(**settings), items_file, chunk_size=100, client=client)
    local = new_model(**settings).fit(items.chunks(100))
    assert_same_sums(model.stats_, local.stats_)


@pytest.mark.parametrize("chunk_size", [230, 100])
def test_kernel_maps_equal_those_of_one_process(client, items, items_file, chunk_size):
    settings = {"feature_maps": "kernel"}
    model = fit(new_model(**settings), items_file, chunk_size=chunk_size, client=client)
    local = fit(new_model(**settings), items_file, chunk_size=chunk_size)
    assert model.stats_.widths == local.stats_.widths
    assert_same_sums(model.stats_, local.stats_)
    np.testing.assert_array_equal(model.encode(items.views), local.encode(items.views))


def test_a_killed_worker_changes_nothing(client, items, items_file, kill_reader):
    chunks = list_chunks(items_file, chunk_size=40)
    chunks, killed = kill_reader(chunks, 3)
    with killed:
        model = fit(new_model(), chunks, client=client)
    assert_same_sums(model.stats_, new_model().fit(items).stats_)
    full = fit(new_model(), items_file, chunk_size=40, client=client)
    assert acqh.methods.fingerprint(model) == acqh.methods.fingerprint(full)


def test_a_straggler_changes_nothing(client, items_file, tmp_path):
    chunks = list_chunks(items_file, chunk_size=40)
    markers = [tmp_path / f"read-{number}" for number in range(len(chunks))]
    late = [
        Late(chunk, marker, tuple(markers[1:]) if number == 0 else ())
        for number, (chunk, marker) in enumerate(zip(chunks, markers, strict=True))
    ]
    # The first chunk is also read to see what the data are like.
    markers[0].touch()
    late[0] = Late(chunks[0], markers[0], ())
    late[1] = Late(chunks[1], markers[1], tuple(markers[2:]))
    model = fit(new_model(), late, client=client)
    full = fit(new_model(), items_file, chunk_size=40, client=client)
    assert acqh.methods.fingerprint(model) == acqh.methods.fingerprint(full)


@pytest.mark.parametrize(
    "error", [CorruptBundleError("it is damaged"), OSError(5, "Input/output error", "p.parquet")]
)
def test_an_unreadable_chunk_stops_the_job_and_is_named(client, items_file, error):
    chunks = list(list_chunks(items_file, chunk_size=40))
    chunks[2] = Broken(chunks[2], error)
    with pytest.raises(type(error)) as caught:
        fit(new_model(), chunks, client=client)
    messages = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    assert any("the broken chunk" in line for line in messages)


def test_views_in_files_cut_otherwise_are_paired(client, items, tmp_path):
    arrays = {**items.views, "labels": items.labels}
    for size, (name, array) in zip((80, 200, 230), arrays.items(), strict=True):
        (tmp_path / "items" / name).mkdir(parents=True)
        for number, start in enumerate(range(0, 230, size)):
            np.save(tmp_path / "items" / name / f"{number}.npy", array[start : start + size])
    model = fit(new_model(), tmp_path / "items", chunk_size=90, client=client)
    assert_same_sums(model.stats_, new_model().fit(items).stats_)


def test_chunks_without_a_labelled_item_add_no_label_sets(client, items, tmp_path):
    labels = items.labels.copy()
    labels[100:200] = 0
    np.savez(tmp_path / "some.npz", **items.views, labels=labels)
    model = fit(new_model(), tmp_path / "some.npz", chunk_size=50, client=client)
    assert model.stats_.counts.sum() == 130


def test_an_empty_training_set_is_reported(client, items, tmp_path):
    np.savez(tmp_path / "none.npz", **items.views, labels=np.zeros((230, 2)))
    with pytest.raises(LabelError, match="label"):
        fit(new_model(), tmp_path / "none.npz", chunk_size=50, client=client)


def test_data_in_memory_do_not_travel(client, items):
    with pytest.raises(InvalidInputError, match="MultiViewData"):
        fit(new_model(), items, client=client)


def test_only_methods_with_sufficient_statistics_are_fitted_on_a_cluster(client, items_file):
    with pytest.raises(InvalidInputError, match="statistics"):
        fit(acqh.methods.get("cvh")(), items_file, client=client)


def test_a_list_of_parquet_files_is_read_in_its_order(client, items, tmp_path):
    pytest.importorskip("pyarrow")
    names = np.array(items.label_names)
    files = [tmp_path / name for name in ("z.parquet", "a.parquet", "m.parquet")]
    for file, part in zip(files, items.chunks(80), strict=True):
        write_parquet(file, part, [names[row.astype(bool)].tolist() for row in part.labels])
    assert [len(chunk) for chunk in list_chunks(files, chunk_size=100)] == [100, 100, 30]
    model = fit(new_model(), files, chunk_size=100, client=client)
    assert_same_sums(model.stats_, new_model().fit(items).stats_)
    with pytest.raises(InvalidInputError, match="Parquet"):
        fit(new_model(), [*files, tmp_path], client=client)


def test_a_damaged_parquet_file_stops_the_job_with_its_name(client, items, tmp_path):
    pytest.importorskip("pyarrow")
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    for file, part in zip(files, items.chunks(80), strict=True):
        write_parquet(file, part, part.labels.tolist())
    chunks = list_chunks(files, chunk_size=80)
    files[1].write_bytes(files[1].read_bytes()[:-100])
    with pytest.raises(CorruptBundleError, match=r"1\.parquet"):
        fit(new_model(), chunks, client=client)


def write_parquet(path, part, labels):
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: pa.array(list(view)) for name, view in part.views.items()}
    has_names = isinstance(labels[0][0], str)
    kind = pa.list_(pa.string()) if has_names else pa.list_(pa.uint8(), len(labels[0]))
    columns["labels"] = pa.array(labels, type=kind)
    parquet.write_table(pa.table(columns), path, compression="none")


def test_a_chunk_that_kills_every_worker_is_named(client, items_file, kill_reader, monkeypatch):
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    chunks, killed = kill_reader(list_chunks(items_file, chunk_size=230), 0)
    with killed, pytest.raises(ClusterError, match="died"):
        fit(new_model(), chunks, client=client)


def test_items_are_counted_as_they_are_read(client, items_file):
    calls = []
    fit(new_model(), items_file, chunk_size=100, client=client, progress=lambda *c: calls.append(c))
    assert len(calls) == 3
    assert calls[-1] == (230, 230, "230 items read")
