"""A table of hits equals that of one search, for all chunks, with and without workers."""

import csv

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import acqh
from acqh.data import MultiViewData, list_chunks
from acqh.errors import InvalidInputError, ViewError
from acqh.scale import build_shards, encode_parts, open_shards, search_table


@pytest.fixture(scope="module")
def coarse(model):
    """Give a model whose codebooks and vectors are whole numbers, so that many scores are equal."""
    from copy import copy

    rounded = copy(model)
    rounded.codebooks_ = np.round(model.codebooks_)
    rounded.projections_ = {name: np.round(P, 1) for name, P in model.projections_.items()}
    return rounded


@pytest.fixture(scope="module")
def index(coarse, items):
    return acqh.CodeIndex(coarse.codebooks_).add(coarse.encode(items.views), items.ids)


@pytest.fixture(scope="module")
def shards(items_file, coarse, tmp_path_factory):
    """Give a folder of three shards."""
    folder = tmp_path_factory.mktemp("shards")
    parts = encode_parts(coarse, items_file, folder / "codes", chunk_size=100)
    build_shards(coarse.codebooks_, parts, folder / "index", n_shards=3)
    return folder / "index"


def read_table(path):
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["query", "rank", "id", "score"]
    return [(query, int(rank), result, np.float32(score)) for query, rank, result, score in rows]


def expected(model, index, items, view, k, chunk_size=100):
    # In the same chunks: the last bits of a matrix product depend on its number of rows.
    chunks = [chunk.views[view] for chunk in items.chunks(chunk_size)]
    vectors = np.concatenate([model.project(chunk, view=view) for chunk in chunks])
    result = index.search(vectors, k=k)
    return [
        (str(query), rank + 1, str(identifier), score)
        for query, ids, scores, count in zip(
            items.ids, result.ids, result.scores, result.counts, strict=True
        )
        for rank, (identifier, score) in enumerate(zip(ids[:count], scores, strict=False))
    ]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n_queries=st.integers(1, 60),
    chunk_size=st.integers(1, 70),
    k=st.integers(1, 300),
    view=st.sampled_from(["image", "text"]),
)
def test_hits_are_those_of_one_search(
    coarse, index, items, tmp_path_factory, n_queries, chunk_size, k, view
):
    queries = items.subset(slice(0, n_queries))
    out = tmp_path_factory.mktemp("out") / "hits.csv"
    given_chunks = {"view": view, "k": k, "chunk_size": chunk_size}
    assert search_table(coarse, index, queries, out, **given_chunks) == n_queries
    assert read_table(out) == expected(coarse, index, queries, view, k, chunk_size)


def test_one_index_or_several_by_path_or_opened_give_the_same(
    coarse, index, items, shards, items_file, tmp_path
):
    index.save(tmp_path / "whole.acqh")
    paths = sorted(shards.glob("part-*"))
    table = expected(coarse, index, items, "image", 7)
    for number, (given_index, source) in enumerate(
        [
            (tmp_path / "whole.acqh", items_file),
            (shards, list_chunks(items_file, chunk_size=100)),
            (open_shards(paths), list(items.chunks(100))),
            (paths, items),
        ]
    ):
        out = tmp_path / f"{number}.csv"
        search_table(coarse, given_index, source, out, view="image", k=7, chunk_size=100)
        assert read_table(out) == table


@pytest.mark.parametrize("k", [30, 300])
def test_workers_give_the_hits_of_one_process_with_ties_in_order(
    client, items, items_file, coarse, index, shards, tmp_path, k
):
    table = expected(coarse, index, items, "text", k, chunk_size=40)
    scores = np.array([row[3] for row in table])
    assert np.any(scores[1:] == scores[:-1])
    events = []
    search_table(
        coarse, shards, items_file, tmp_path / "hits.csv", view="text", k=k, chunk_size=40,
        client=client, progress=lambda *event: events.append(event),
    )  # fmt: skip
    assert read_table(tmp_path / "hits.csv") == table
    assert events[-1] == (230, 230, "230 queries answered")


def test_an_index_in_memory_does_not_travel(client, items_file, coarse, index, tmp_path):
    with pytest.raises(InvalidInputError, match="path"):
        search_table(coarse, index, items_file, tmp_path / "a.csv", view="text", client=client)
    assert list(tmp_path.iterdir()) == []


def test_queries_without_the_view_are_named(client, items, coarse, shards, tmp_path):
    np.savez(tmp_path / "queries.npz", image=items.views["image"])
    with pytest.raises(ViewError, match="no view 'text'"):
        search_table(
            coarse, shards, tmp_path / "queries.npz", tmp_path / "out.csv", view="text",
            client=client,
        )  # fmt: skip


def test_ids_may_be_texts_and_fewer_than_k(coarse, items, tmp_path):
    pa = pytest.importorskip("pyarrow.parquet")
    few = items.subset(slice(0, 3))
    small = acqh.CodeIndex(coarse.codebooks_).add(coarse.encode(few.views), ["é", "", "b" * 40])
    queries = MultiViewData(few.views, ids=["x", "y", "ü"])
    table = expected(coarse, small, queries, "text", 5)
    assert len(table) == 9
    search_table(coarse, small, queries, tmp_path / "a.csv", view="text", k=5, chunk_size=2)
    assert read_table(tmp_path / "a.csv") == table
    search_table(coarse, small, queries, tmp_path / "a.parquet", view="text", k=5, chunk_size=2)
    stored = pa.read_table(tmp_path / "a.parquet")
    assert list(zip(*(column.to_pylist() for column in stored.columns), strict=True)) == [
        (query, rank, identifier, float(score)) for query, rank, identifier, score in table
    ]


def test_invalid_searches_are_rejected_and_leave_no_file(coarse, index, items, tmp_path):
    other = acqh.ACQH(8, n_codebooks=2, random_state=1).fit(items)
    acqh.HammingIndex(8).add([[1]]).save(tmp_path / "bits")
    partly = MultiViewData(items.views, present={"text": np.arange(230) != 7})
    out = tmp_path / "hits.csv"
    for given_model, given_index, queries, options, error, message in [
        (other, index, items, {}, InvalidInputError, "other codebooks than the index"),
        (coarse, tmp_path / "bits", items, {}, InvalidInputError, "index of binary codes, not"),
        (coarse, tmp_path / "nothing", items, {}, FileNotFoundError, "nothing"),
        (coarse, index, items, {"k": 0}, InvalidInputError, "k must be"),
        (coarse, index, items, {"view": "audio"}, ViewError, "knows the views image, text"),
        (coarse, index, partly, {}, ViewError, "query 7 has no view 'text'"),
        (coarse, index, [], {}, InvalidInputError, "there are no queries"),
        (None, index, items, {"view": None}, ViewError, "name one with `view`"),
    ]:
        with pytest.raises(error, match=message):
            search_table(given_model, given_index, queries, out, **{"view": "text", **options})
    with pytest.raises(InvalidInputError, match="parquet"):
        search_table(coarse, index, items, tmp_path / "hits", view="text")
    assert [path.name for path in tmp_path.iterdir()] == ["bits"]
    out.touch()
    with pytest.raises(FileExistsError):
        search_table(coarse, index, items, out, view="text")
