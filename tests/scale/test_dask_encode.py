"""Workers of a cluster write the codes of one process."""

import cloudpickle
import numpy as np
import pytest
from worker_chunks import Broken

import acqh
from acqh.data import list_chunks
from acqh.errors import ClusterError, CorruptBundleError, InvalidInputError
from acqh.scale import CodeParts, encode_parts, fit
from acqh.scale.parts import write_part

pytest.importorskip("distributed")


def content(parts):
    """Return all bytes of the parts, by the name of the file."""
    files = [path for path in parts.path.rglob("*") if path.is_file()]
    return {path.relative_to(parts.path): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def expected(items_file, model, tmp_path_factory):
    """Give the parts that one process writes."""
    return encode_parts(model, items_file, tmp_path_factory.mktemp("here") / "codes", chunk_size=40)


@pytest.mark.parametrize("by_labels", [False, True])
def test_parts_are_those_of_one_process_to_the_byte(client, items_file, model, tmp_path, by_labels):
    settings = {"by_labels": by_labels, "chunk_size": 40}
    local = encode_parts(model, items_file, tmp_path / "here", **settings)
    remote = encode_parts(model, items_file, tmp_path / "there", client=client, **settings)
    assert content(remote) == content(local)


def test_a_task_run_twice_changes_nothing(client, items_file, model, tmp_path, expected):
    for _ in range(2):
        parts = encode_parts(model, items_file, tmp_path / "codes", chunk_size=40, client=client)
        assert content(parts) == content(expected)


def test_two_clients_may_write_one_folder(client, items_file, model, tmp_path, expected):
    """As when a task runs on two workers at once."""
    from concurrent.futures import ThreadPoolExecutor

    def encode(_):
        return encode_parts(model, items_file, tmp_path / "codes", chunk_size=40, client=client)

    with ThreadPoolExecutor(2) as pool:
        for parts in pool.map(encode, range(2)):
            parts.verify()
    assert content(parts) == content(expected)


def test_workers_finish_the_job_of_one_process(client, items_file, model, tmp_path, expected):
    chunks = list_chunks(items_file, chunk_size=40)
    broken = [*chunks[:3], Broken(chunks[3], CorruptBundleError("it is damaged")), *chunks[4:]]
    with pytest.raises(CorruptBundleError, match="broken chunk"):
        encode_parts(model, broken, tmp_path / "codes", client=client)
    with pytest.raises(InvalidInputError, match="not finished"):
        CodeParts(tmp_path / "codes")
    parts = encode_parts(model, chunks, tmp_path / "codes")
    assert [len(part.ids) for part in parts] == [len(part.ids) for part in expected]


def test_a_killed_worker_changes_nothing(
    client, items_file, model, tmp_path, expected, kill_reader
):
    chunks, killed = kill_reader(list_chunks(items_file, chunk_size=40), 2)
    with killed:
        parts = encode_parts(model, chunks, tmp_path / "codes", client=client)
    for part, other in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part.codes, other.codes)
        np.testing.assert_array_equal(part.ids, other.ids)


def test_a_folder_that_workers_do_not_see_is_named(tmp_path):
    with pytest.raises(ClusterError, match="folder"):
        write_part(tmp_path / "elsewhere", acqh.HammingIndex(8), (0, 0), "")


def test_only_small_things_travel(client, tmp_path, monkeypatch):
    items = acqh.make_multiview(4000, {"image": 400, "text": 300}, random_state=0)
    acqh.data.save_npz(items, tmp_path / "items.npz", compress=False)
    n_bytes = (tmp_path / "items.npz").stat().st_size
    sent = []

    def submit(function, *arguments, **options):
        sent.append(len(cloudpickle.dumps(arguments)))
        return original(function, *arguments, **options)

    original = client.submit
    monkeypatch.setattr(client, "submit", submit)
    model = fit(acqh.ACQH(8, random_state=0), tmp_path / "items.npz", chunk_size=200, client=client)
    encode_parts(model, tmp_path / "items.npz", tmp_path / "codes", chunk_size=200, client=client)
    assert sum(sent) < 400_000 < n_bytes / 25
