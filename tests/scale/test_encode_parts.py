"""Encoding in parts gives the codes of one pass, also after interrupts."""

import os
import shutil
import tracemalloc

import numpy as np
import pytest

import acqh
from acqh.data import list_chunks
from acqh.errors import (
    CorruptBundleError,
    DuplicateIdError,
    InvalidInputError,
    LabelError,
)
from acqh.methods import fingerprint, load_method
from acqh.scale import CodeParts, build_index, encode_parts

_CODE = """
model, data, out = sys.argv[2:]
encode_parts(load_method(model), data, out, chunk_size=40)
"""


class Counted:
    """A model that notes how many items it codes."""

    def __init__(self, model):
        self._model = model
        self.coded = []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def encode(self, items, **options):
        self.coded.append(len(items["image"]))
        return self._model.encode(items, **options)


@pytest.fixture
def counted(model, monkeypatch):
    counter = Counted(model)
    monkeypatch.setattr("acqh.scale.parts.fingerprint", lambda model_: fingerprint(model_._model))
    return counter


def codes_of(parts):
    return np.concatenate([part.codes for part in parts])


def ids_of(parts):
    return np.concatenate([part.ids for part in parts])


@pytest.mark.parametrize("by_labels", [False, True])
@pytest.mark.parametrize("chunk_size", [9, 64, 1000])
def test_codes_are_unchanged_by_chunk_size(model, items, tmp_path, chunk_size, by_labels):
    labels = {"labels": items.labels} if by_labels else {}
    few = items.subset(np.arange(70))
    expected = model.encode(items.views, **labels)[:70]
    parts = encode_parts(model, few, tmp_path / "c", by_labels=by_labels, chunk_size=chunk_size)
    assert len(parts) == 70
    assert parts.n_parts == -(-70 // chunk_size)
    np.testing.assert_array_equal(codes_of(parts), expected)
    np.testing.assert_array_equal(ids_of(parts), few.ids)


def test_a_path_the_data_and_its_chunks_give_the_same(model, items, tmp_path):
    np.savez(tmp_path / "items.npz", **items.views)
    sources = {"path": tmp_path / "items.npz", "data": items, "chunks": items.chunks(50)}
    for name, source in sources.items():
        parts = encode_parts(model, source, tmp_path / name, chunk_size=50)
        np.testing.assert_array_equal(codes_of(parts), model.encode(items.views))
        assert ids_of(parts).tolist() == list(range(230))


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "é", "", "a" * 50],
        [7, 3, -9, 2**60],
        [5, 6, 7, 8],
        [2**63 - 2, 2**63 - 1, -(2**63), 1 - 2**63],
    ],
    ids=["text", "any", "running", "wrapping"],
)
def test_ids_are_kept(model, items, tmp_path, ids):
    few = acqh.MultiViewData({name: view[:4] for name, view in items.views.items()}, ids=ids)
    parts = encode_parts(model, few, tmp_path / "codes", chunk_size=3)
    assert ids_of(parts).tolist() == ids
    np.testing.assert_array_equal(codes_of(parts), model.encode(few.views))
    # Finding the same ids again takes part in going on.
    encode_parts(model, few, tmp_path / "codes", chunk_size=3)


@pytest.mark.parametrize("n_renamed", [6, 7, 8])
def test_a_killed_job_resumes_where_it_stopped(
    model, items, counted, tmp_path, n_renamed, run_killed
):
    model.save(tmp_path / "model")
    np.savez(tmp_path / "items.npz", **items.views)
    out = tmp_path / "codes"
    run_killed(_CODE, n_renamed, tmp_path / "model", tmp_path / "items.npz", out)
    with pytest.raises(InvalidInputError, match="not finished"):
        CodeParts(out)
    n_done = (n_renamed - 2) // 3
    before = {path: path.stat().st_mtime_ns for path in out.glob("part-*/manifest.json")}
    assert len(before) == n_done
    parts = encode_parts(counted, tmp_path / "items.npz", out, chunk_size=40)
    assert counted.coded == [40, 40, 40, 40, 40, 30][n_done:]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    np.testing.assert_array_equal(codes_of(parts), model.encode(items.views))


@pytest.mark.slow
def test_a_resumed_job_does_not_reread_encoded_chunks(model, items, tmp_path, run_killed):
    model.save(tmp_path / "model")
    source, out = tmp_path / "items", tmp_path / "codes"
    source.mkdir()
    for name, view in items.views.items():
        np.save(source / f"{name}.npy", view)
    run_killed(_CODE, 8, tmp_path / "model", source, out)
    assert len(list(out.glob("part-*/manifest.json"))) == 2
    # Whoever reads the rows of the two parts again now finds that they are no numbers.
    for file in source.iterdir():
        times = file.stat().st_atime_ns, file.stat().st_mtime_ns
        np.load(file, mmap_mode="r+")[:80] = np.nan
        os.utime(file, ns=times)
    events = []
    parts = encode_parts(
        model, source, out, chunk_size=40, progress=lambda *event: events.append(event[:2])
    )
    np.testing.assert_array_equal(codes_of(parts), model.encode(items.views))
    assert events == [(done, 230) for done in (80, 120, 160, 200, 230)]


@pytest.mark.parametrize("change", ["time", "rows", "name"])
def test_a_source_that_has_changed_is_rejected(model, items, tmp_path, change):
    source, out = tmp_path / "items", tmp_path / "codes"
    source.mkdir()
    for name, view in items.views.items():
        np.save(source / f"{name}.npy", view)
    encode_parts(model, source, out, chunk_size=100)
    encode_parts(model, source, out, chunk_size=100)
    if change == "time":
        os.utime(source / "image.npy", ns=(0, 0))
    elif change == "rows":
        for name, view in items.views.items():
            np.save(source / f"{name}.npy", view[:-1])
    else:
        np.save(source / "ids.npy", np.arange(230))
    with pytest.raises(InvalidInputError, match="another source"):
        encode_parts(model, source, out, chunk_size=100)


def test_a_folder_may_be_moved_with_its_source(model, items_file, tmp_path):
    encode_parts(model, items_file, tmp_path / "codes", chunk_size=100)
    moved = tmp_path / items_file.name
    shutil.copy2(items_file, moved)
    encode_parts(model, moved, tmp_path / "codes", chunk_size=100)


def test_chunks_are_encoded_one_by_one(model, items, items_file, tmp_path):
    chunks = list_chunks(items_file, chunk_size=90)
    for name, source in {"all": chunks, "list": list(chunks)}.items():
        parts = encode_parts(model, source, tmp_path / name)
        assert [len(part.ids) for part in parts] == [90, 90, 50]
        np.testing.assert_array_equal(parts.to_arrays().codes, model.encode(items.views))
        np.testing.assert_array_equal(parts.to_arrays().ids, items.ids)


def test_a_finished_folder_is_not_encoded_again(counted, items, tmp_path):
    for _ in range(2):
        parts = encode_parts(counted, items, tmp_path / "codes", chunk_size=100)
    assert counted.coded == [100, 100, 30]
    assert len(parts) == 230


def test_progress_is_reported_after_each_part(model, items, tmp_path):
    events = []
    encode_parts(model, items, tmp_path / "c", chunk_size=100, progress=lambda *a: events.append(a))
    assert [event[:2] for event in events] == [(100, 230), (200, 230), (230, 230)]


def test_a_damaged_part_is_found(model, items, tmp_path):
    folder = tmp_path / "codes"
    parts = encode_parts(model, items, folder, chunk_size=100)
    parts.verify()
    member = next((folder / "part-00000001").glob("*.safetensors"))
    content = bytearray(member.read_bytes())
    content[-1] ^= 1
    member.write_bytes(content)
    for read in (
        parts.verify,
        lambda: CodeParts(folder, verify=True),
        lambda: build_index(model.codebooks_, parts),
        lambda: encode_parts(model, items, folder, chunk_size=100),
    ):
        with pytest.raises(CorruptBundleError, match="part-00000001"):
            read()
    shutil.rmtree(folder / "part-00000001")
    with pytest.raises(CorruptBundleError, match="part-00000001"):
        parts.verify()
    encode_parts(model, items, folder, chunk_size=100).verify()


def test_a_part_in_the_place_of_another_is_found(model, items, tmp_path):
    folder = tmp_path / "codes"
    parts = encode_parts(model, items, folder, chunk_size=100)
    shutil.rmtree(folder / "part-00000001")
    shutil.copytree(folder / "part-00000000", folder / "part-00000001")
    with pytest.raises(CorruptBundleError, match="not that part"):
        parts.verify()


def test_other_files_in_the_folder_are_rejected(model, items, tmp_path):
    folder = tmp_path / "codes"
    expected = codes_of(encode_parts(model, items, folder, chunk_size=100))
    other = acqh.ACQH(8, n_codebooks=2, random_state=1).fit(items)
    renamed = acqh.MultiViewData(items.views, ids=np.arange(230)[::-1])
    shorter = items.subset(np.arange(200))
    for match, arguments in {
        "another model": (other, items, {"chunk_size": 100}),
        "chunk_size: 100, not 99": (model, items, {"chunk_size": 99}),
        "chunk_size: 100, not None": (model, items.chunks(100), {}),
        "by_labels": (model, items, {"chunk_size": 100, "by_labels": True}),
        "other items": (model, renamed, {"chunk_size": 100}),
        "parts after": (model, shorter, {"chunk_size": 100}),
    }.items():
        used, source, options = arguments
        with pytest.raises(InvalidInputError, match=match):
            encode_parts(used, source, folder, **options)
    np.testing.assert_array_equal(codes_of(CodeParts(folder)), expected)


def test_chunks_of_another_size_are_rejected(model, items, tmp_path):
    encode_parts(model, items.chunks(100), tmp_path / "codes")
    with pytest.raises(InvalidInputError, match="other items"):
        encode_parts(model, items.chunks(50), tmp_path / "codes")


def test_data_that_cannot_be_encoded_are_rejected(model, items, tmp_path):
    with pytest.raises(LabelError, match="no labels"):
        encode_parts(model, items.without_labels(), tmp_path / "a", by_labels=True)
    with pytest.raises(InvalidInputError, match="empty"):
        encode_parts(model, [], tmp_path / "b")
    with pytest.raises(InvalidInputError, match="MultiViewData"):
        encode_parts(model, [1], tmp_path / "c")
    with pytest.raises(InvalidInputError, match="source"):
        encode_parts(model, 3, tmp_path / "d")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        encode_parts(model, items, tmp_path / "e")


def test_an_index_of_parts_has_their_items_in_order(model, items, tmp_path):
    ids = [f"item {number}" for number in range(230)]
    named = acqh.MultiViewData(items.views, ids=ids)
    events = []
    parts = encode_parts(model, named, tmp_path / "codes", chunk_size=100)
    index = build_index(model.codebooks_, parts, progress=lambda *event: events.append(event[:2]))
    assert index.ids.tolist() == ids
    np.testing.assert_array_equal(index.codes, model.encode(items.views))
    # What was read once counts half.
    assert events == [(50, None), (100, None), (115, None), (165, 230), (215, 230), (230, 230)]


def test_an_id_in_two_parts_is_rejected_by_the_index(model, items, tmp_path):
    parts = encode_parts(model, [items, items], tmp_path / "codes")
    with pytest.raises(DuplicateIdError):
        build_index(model.codebooks_, parts)


def test_a_fingerprint_survives_saving_and_distinguishes_models(model, items, tmp_path):
    model.save(tmp_path / "model")
    assert fingerprint(load_method(tmp_path / "model")) == fingerprint(model)
    other = load_method(tmp_path / "model")
    other.codebooks_ = np.nextafter(other.codebooks_, np.inf)
    assert fingerprint(other) != fingerprint(model)


def test_parts_are_loaded_and_verified_like_any_bundle(model, items, tmp_path):
    encode_parts(model, items, tmp_path / "codes", chunk_size=100)
    assert len(acqh.load(tmp_path / "codes")) == 230
    assert acqh.verify(tmp_path / "codes").ok
    shutil.rmtree(tmp_path / "codes" / "part-00000002")
    assert "part-00000002 is missing" in acqh.verify(tmp_path / "codes").problems[0]


def test_memory_does_not_grow_with_the_number_of_items(model, items, tmp_path):
    peaks = []
    # The first run is not counted: it loads modules and compiles kernels.
    for run, n_chunks in enumerate([2, 5, 50]):
        source = tmp_path / f"items {run}"
        source.mkdir()
        for name, view in items.views.items():
            np.save(source / f"{name}.npy", np.tile(view[:200], (n_chunks, 1)))
        tracemalloc.start()
        encode_parts(model, source, tmp_path / f"codes {run}", chunk_size=200)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]
