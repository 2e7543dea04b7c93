"""Answers in parts are those of one search, whatever the parts and whatever stops it."""

import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import acqh
from acqh.data import MultiViewData, list_pieces
from acqh.errors import CorruptBundleError, InvalidInputError, ViewError
from acqh.scale import SearchParts, ShardedIndex, search_chunk, search_parts

_SEARCH = """
model, index, data, out = sys.argv[2:]
search_parts(load_method(model), index, data, out, view="text", k=4, chunk_size=40)
"""


@pytest.fixture(scope="module")
def index(model, items):
    return acqh.CodeIndex(model.codebooks_).add(model.encode(items), items.ids)


@pytest.fixture(scope="module")
def shard_paths(model, items, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    paths = []
    for number, shard in enumerate(items.chunks(120)):
        paths.append(folder / f"{number}.acqh")
        acqh.CodeIndex(model.codebooks_).add(model.encode(shard), shard.ids).save(paths[-1])
    return paths


def expected(model, index, items, view, k):
    return index.search(model.project(items.views[view], view=view), k=k)


def assert_same(parts, found, items):
    whole = parts.to_arrays()
    np.testing.assert_array_equal(whole.query_ids, items.ids)
    np.testing.assert_array_equal(whole.ids, found.ids)
    np.testing.assert_array_equal(whole.scores, found.scores)
    np.testing.assert_array_equal(whole.counts, found.counts)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n_queries=st.integers(1, 60),
    chunk_size=st.integers(1, 70),
    k=st.integers(1, 300),
    view=st.sampled_from(["image", "text"]),
)
def test_answers_are_those_of_one_search(
    model, index, items, tmp_path_factory, n_queries, chunk_size, k, view
):
    queries = items.subset(slice(0, n_queries))
    out = tmp_path_factory.mktemp("out") / "answers"
    parts = search_parts(model, index, queries, out, view=view, k=k, chunk_size=chunk_size)
    assert parts.n_parts == -(-n_queries // chunk_size)
    assert_same(parts, expected(model, index, queries, view, k), queries)


def test_one_index_or_several_by_path_or_opened_give_the_same(
    model, index, items, shard_paths, items_file, tmp_path
):
    index.save(tmp_path / "whole.acqh")
    found = expected(model, index, items, "image", 7)
    for number, (given_index, source) in enumerate(
        [
            (tmp_path / "whole.acqh", items_file),
            (shard_paths, list_pieces(items_file, chunk_size=100)),
            (ShardedIndex(shard_paths), list(items.chunks(100))),
            ([acqh.CodeIndex.load(path) for path in shard_paths], items),
        ]
    ):
        out = tmp_path / str(number)
        parts = search_parts(model, given_index, source, out, view="image", k=7, chunk_size=100)
        assert_same(parts, found, items)
        search_parts(model, given_index, source, out, view="image", k=7, chunk_size=100)


def test_ids_may_be_texts_and_fewer_than_asked_for(model, items, tmp_path):
    few = items.subset(slice(0, 3))
    names = ["é", "", "b" * 40]
    small = acqh.CodeIndex(model.codebooks_).add(model.encode(few), names)
    queries = MultiViewData(few.views, ids=["x", "y", "ü"])
    parts = search_parts(model, small, queries, tmp_path / "a", view="text", k=5, chunk_size=2)
    assert_same(parts, expected(model, small, queries, "text", 5), queries)
    assert parts.to_arrays().ids[0, 3:].tolist() == [None, None]
    assert parts.to_arrays().counts.tolist() == [3, 3, 3]


def test_a_killed_search_goes_on_where_it_stopped(
    model, index, items, items_file, tmp_path, run_killed
):
    model.save(tmp_path / "model")
    index.save(tmp_path / "index")
    out = tmp_path / "answers"
    run_killed(_SEARCH, 7, tmp_path / "model", tmp_path / "index", items_file, out)
    with pytest.raises(InvalidInputError, match="has not finished"):
        SearchParts(out)
    told = []
    parts = search_parts(
        model,
        tmp_path / "index",
        items_file,
        out,
        view="text",
        k=4,
        chunk_size=40,
        progress=lambda *each: told.append(each),
    )
    assert told[0] == (80, 230, "80 queries answered")
    assert [done for done, _, _ in told] == [80, 120, 160, 200, 230]
    assert_same(parts, expected(model, index, items, "text", 4), items)


def test_a_damaged_part_is_named(model, index, items, tmp_path):
    out = tmp_path / "answers"
    parts = search_parts(model, index, items, out, view="text", chunk_size=100)
    member = next((out / "part-00000001").glob("*.safetensors"))
    content = bytearray(member.read_bytes())
    content[-1] ^= 1
    member.write_bytes(content)
    for read in (
        parts.verify,
        parts.to_arrays,
        lambda: SearchParts(out, verify=True),
        lambda: search_parts(model, index, items, out, view="text", chunk_size=100),
    ):
        with pytest.raises(CorruptBundleError, match="part-00000001"):
            read()
    assert "part-00000001" in acqh.verify(out).problems[0]
    shutil.rmtree(out / "part-00000001")
    search_parts(model, index, items, out, view="text", chunk_size=100).verify()
    assert acqh.load(out).k == 10
    assert repr(parts) == "<SearchParts: 230 queries in 3 parts, 10 items each>"


def test_some_rows_are_read_alone(model, index, items, tmp_path):
    parts = search_parts(model, index, items, tmp_path / "a", view="text", chunk_size=100)
    damaged = next((tmp_path / "a" / "part-00000000").glob("*.safetensors"))
    damaged.write_bytes(bytes(damaged.stat().st_size))
    (some,) = parts.rows(110, 150)
    assert some.query_ids.tolist() == list(range(110, 150))


def test_anything_else_in_the_same_folder_is_refused(model, index, items, shard_paths, tmp_path):
    out = tmp_path / "answers"
    usual = {"view": "text", "k": 5, "chunk_size": 100}
    search_parts(model, index, items, out, **usual)
    fewer = acqh.CodeIndex.load(shard_paths[0])
    renamed = MultiViewData(items.views, ids=np.arange(230)[::-1])
    for match, used, source, options in [
        ("answers of another index", fewer, items, {}),
        ("begun with view=text, not image", index, items, {"view": "image"}),
        ("begun with k=5, not 6", index, items, {"k": 6}),
        ("begun with chunk_size=100, not 99", index, items, {"chunk_size": 99}),
        ("other items", index, renamed, {}),
    ]:
        with pytest.raises(InvalidInputError, match=match):
            search_parts(model, used, source, out, **{**usual, **options})


def test_what_cannot_be_searched_is_refused(model, index, items, tmp_path):
    out = tmp_path / "answers"
    other = acqh.ACQH(8, n_codebooks=2, random_state=1).fit(items)
    with pytest.raises(InvalidInputError, match="other codebooks than the index"):
        search_parts(other, index, items, out, view="text")
    acqh.HammingIndex(8).add([[1]]).save(tmp_path / "bits")
    with pytest.raises(InvalidInputError, match="index of binary codes, not an index of codes"):
        search_parts(model, tmp_path / "bits", items, out, view="text")
    with pytest.raises(FileNotFoundError):
        search_parts(model, tmp_path / "nothing", items, out, view="text")
    with pytest.raises(InvalidInputError, match="k must be"):
        search_parts(model, index, items, out, view="text", k=0)
    with pytest.raises(ViewError, match="no view 'audio'; theirs are image, text"):
        search_chunk(model, index, items, view="audio", k=1)
    present = np.arange(230) != 7
    partly = MultiViewData(items.views, present={"text": present})
    with pytest.raises(ViewError, match="query 7 has no view 'text'"):
        search_chunk(model, index, partly, view="text", k=1)
