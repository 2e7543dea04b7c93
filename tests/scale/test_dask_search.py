"""Workers of a cluster find what one search finds."""

import numpy as np
import pytest
from worker_pieces import address

import acqh
from acqh.data import list_pieces
from acqh.errors import InvalidInputError, ViewError
from acqh.scale import DaskViews, build_shards, encode_parts, search_parts
from acqh.scale.cluster import list_workers
from acqh.scale.workers import call, compute, near

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def coarse(items, model):
    """Give a model whose codebooks and vectors are whole numbers, so that many scores are equal."""
    from copy import copy

    rounded = copy(model)
    rounded.codebooks_ = np.round(model.codebooks_)
    rounded.projections_ = {name: np.round(each, 1) for name, each in model.projections_.items()}
    return rounded


@pytest.fixture(scope="module")
def shards(items_file, coarse, tmp_path_factory):
    """Give a folder of three shards."""
    folder = tmp_path_factory.mktemp("shards")
    parts = encode_parts(coarse, items_file, folder / "codes", chunk_size=100)
    build_shards(coarse.codebooks_, parts, folder / "index", n_shards=3)
    return folder / "index"


@pytest.fixture(scope="module")
def expected(items_file, coarse, shards, tmp_path_factory):
    """Give what one process finds."""
    out = tmp_path_factory.mktemp("here") / "answers"
    return search_parts(coarse, shards, items_file, out, view="text", k=30, chunk_size=40)


def assert_same(parts, expected):
    for mine, theirs in zip(parts.to_arrays(), expected.to_arrays(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_answers_are_those_of_one_process_with_ties_in_order(
    client, items_file, coarse, shards, expected, tmp_path, n_shards
):
    index = shards
    if n_shards == 1:
        index = tmp_path / "whole"
        opened = acqh.load(shards)
        codes = encode_parts(coarse, items_file, tmp_path / "codes").to_arrays()
        acqh.CodeIndex(opened.codebooks).add(*codes).save(index)
    scores = expected.to_arrays().scores
    assert np.any(scores[:, 1:] == scores[:, :-1])
    settings = {"view": "text", "k": 30, "chunk_size": 40, "client": client}
    for _ in range(2):
        parts = search_parts(coarse, index, items_file, tmp_path / "answers", **settings)
        assert_same(parts, expected)


def test_a_killed_worker_changes_nothing(
    client, items_file, coarse, shards, expected, tmp_path, kill_reader
):
    pieces, killed = kill_reader(list_pieces(items_file, chunk_size=40), 4)
    paths = [shards / f"shard-0000{number}" for number in range(3)]
    with killed:
        parts = search_parts(
            coarse, paths, pieces, tmp_path / "answers", view="text", k=30, client=client
        )
    assert_same(parts, expected)


def test_queries_may_be_dask_arrays(client, items, coarse, shards, expected, tmp_path):
    queries = DaskViews({"text": da.from_array(items.views["text"], chunks=(90, 10))})
    parts = search_parts(
        coarse, shards, queries, tmp_path / "answers", view="text", k=30, client=client
    )
    assert_same(parts, expected)


def test_more_items_are_asked_for_than_there_are(client, items_file, coarse, shards, tmp_path):
    settings = {"view": "image", "k": 300, "chunk_size": 120}
    here = search_parts(coarse, shards, items_file, tmp_path / "here", **settings)
    there = search_parts(coarse, shards, items_file, tmp_path / "there", client=client, **settings)
    assert_same(there, here)


def test_an_index_in_memory_does_not_travel(client, items_file, coarse, shards, tmp_path):
    with pytest.raises(InvalidInputError, match="save it, and give the path"):
        search_parts(
            coarse, acqh.load(shards), items_file, tmp_path / "out", view="text", client=client
        )


def test_queries_without_the_view_are_named(client, items, coarse, shards, tmp_path):
    np.savez(tmp_path / "queries.npz", image=items.views["image"])
    with pytest.raises(ViewError, match=r"rows 0 to 229 of .*no view 'text'"):
        search_parts(
            coarse, shards, tmp_path / "queries.npz", tmp_path / "out", view="text", client=client
        )


def test_a_task_is_done_where_its_shard_is(client):
    workers = list_workers(client)
    for worker in [*workers, *workers]:
        with near(worker):
            task = call(address)()
        assert compute(client, [task], ["a task"], result=task) == worker
