"""An index in shards gives the hits of one index."""

import numpy as np
import pytest

import acqh
from acqh._load import verify
from acqh.data import MultiViewData
from acqh.errors import CorruptBundleError, DuplicateIdError, InvalidInputError
from acqh.scale import CodeParts, build_index, build_shards, encode_parts, open_shards


@pytest.fixture(scope="module")
def parts(items, model, tmp_path_factory):
    return encode_parts(model, items, tmp_path_factory.mktemp("parts") / "codes", chunk_size=50)


@pytest.mark.parametrize("bounds", [(0, 230), (0, 0), (49, 50), (50, 100), (30, 171), (229, 230)])
def test_rows_of_parts_are_those_of_the_whole(parts, bounds):
    full = np.concatenate([part.ids for part in parts])
    result = [part.ids for part in parts.rows(*bounds)]
    np.testing.assert_array_equal(np.concatenate([[], *result]), full[slice(*bounds)])


def test_missing_rows_are_rejected(parts):
    with pytest.raises(InvalidInputError, match="no rows"):
        next(parts.rows(0, 231))


@pytest.mark.parametrize("n_shards", [1, 3, 7])
@pytest.mark.parametrize("where", ["here", "on workers"])
def test_shards_give_the_hits_of_one_index(request, items, model, parts, tmp_path, n_shards, where):
    client = None if where == "here" else request.getfixturevalue("client")
    build_shards(model.codebooks_, parts, tmp_path / "index", n_shards=n_shards, client=client)
    shards = acqh.load(tmp_path / "index")
    opened = [acqh.load(path) for path in sorted((tmp_path / "index").glob("part-*"))]
    assert [len(shard) for shard in opened] == np.diff(
        [230 * number // n_shards for number in range(n_shards + 1)]
    ).tolist()
    # Rounded queries: many scores are equal, so the order of ties shows.
    queries = np.round(model.project(items.views["text"][:40], view="text"))
    result = shards.search(queries, 30)
    expected = build_index(model.codebooks_, parts).search(queries, 30)
    np.testing.assert_array_equal(result.ids, expected.ids)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_fewer_shards_than_before_leave_none_of_those_behind(model, parts, tmp_path):
    for n_shards in (3, 2):
        build_shards(model.codebooks_, parts, tmp_path / "index", n_shards=n_shards)
    assert len(list((tmp_path / "index").glob("part-*"))) == 2


def test_shards_are_counted_as_they_are_made(model, parts, tmp_path):
    calls = []
    build_shards(
        model.codebooks_,
        parts,
        tmp_path / "index",
        n_shards=2,
        progress=lambda *call: calls.append(call),
    )
    assert calls == [(115, 230, "115 items indexed"), (230, 230, "230 items indexed")]


@pytest.mark.parametrize("where", ["here", "on workers"])
def test_an_id_in_two_parts_is_rejected(request, items, model, tmp_path, where):
    client = None if where == "here" else request.getfixturevalue("client")
    again = [MultiViewData(items.views, ids=items.ids + shift) for shift in (0, 229)]
    parts = encode_parts(model, again, tmp_path / "codes")
    with pytest.raises(DuplicateIdError, match="229"):
        build_shards(model.codebooks_, parts, tmp_path / "index", n_shards=2, client=client)
    with pytest.raises(InvalidInputError, match="not finished"):
        open_shards(tmp_path / "index")


def test_more_shards_than_items_are_rejected(model, parts, tmp_path):
    with pytest.raises(InvalidInputError, match="fewer"):
        build_shards(model.codebooks_, parts, tmp_path / "index", n_shards=231)


def test_shards_made_again_take_the_place_of_those_before(model, parts, tmp_path):
    for n_shards in (3, 2, 2):
        build_shards(model.codebooks_, parts, tmp_path / "index", n_shards=n_shards)
    assert len(open_shards(tmp_path / "index")) == 230


def test_a_missing_or_foreign_shard_is_noticed(model, parts, tmp_path):
    build_shards(model.codebooks_, parts, tmp_path / "index", n_shards=2)
    assert verify(tmp_path / "index").ok
    acqh.CodeIndex(model.codebooks_).save(tmp_path / "index" / "part-00000001")
    with pytest.raises(CorruptBundleError, match="not that part"):
        open_shards(tmp_path / "index")
    (tmp_path / "index" / "part-00000001").rename(tmp_path / "elsewhere")
    with pytest.raises(CorruptBundleError, match="part-00000001"):
        acqh.load(tmp_path / "index")


def test_workers_name_a_part_that_is_missing(client, items, model, tmp_path):
    encode_parts(model, items, tmp_path / "codes", chunk_size=50)
    (tmp_path / "codes" / "part-00000002").rename(tmp_path / "elsewhere")
    with pytest.raises(CorruptBundleError, match="part-00000002"):
        build_shards(
            model.codebooks_,
            CodeParts(tmp_path / "codes"),
            tmp_path / "index",
            n_shards=2,
            client=client,
        )


def test_a_folder_of_parts_is_searched_as_it_is(items, model, parts):
    queries = model.project(items.views["text"][:20], view="text")
    result = open_shards(parts.path).search(queries, 10)
    expected = build_index(model.codebooks_, parts).search(queries, 10)
    np.testing.assert_array_equal(result.ids, expected.ids)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_an_id_in_two_parts_of_a_folder_is_rejected_when_it_is_opened(items, model, tmp_path):
    encode_parts(model, [items, items], tmp_path / "codes")
    with pytest.raises(DuplicateIdError):
        open_shards(tmp_path / "codes")


def test_parts_of_binary_codes_are_kept(items, tmp_path):
    method = acqh.methods.get("cvh")(12).fit(items)
    parts = encode_parts(method, items, tmp_path / "codes", chunk_size=100)
    np.testing.assert_array_equal(parts.to_arrays().codes, method.encode(items.views, mode="fused"))
    assert acqh.verify(tmp_path / "codes").ok
    with pytest.raises(InvalidInputError, match="binary"):
        open_shards(tmp_path / "codes")
