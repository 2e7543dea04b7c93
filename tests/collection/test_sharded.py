"""Several collections as one answer as one collection of all items does."""

import gc
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from acqh.cli.demo import emoji_items
from acqh.collection import Collection, Item, ShardedCollection, open_collections
from acqh.collection.disk.model import Encoders
from acqh.encoders import word_vectorizer
from acqh.errors import CollectionError, DuplicateIdError, MissingItemError

# Where the items are cut into shards; one has a single item.
CUTS = (0, 80, 81, 150, 239)


@pytest.fixture(scope="module")
def emoji():
    return list(islice(emoji_items(), 0, None, 8))


@pytest.fixture(scope="module")
def paths(emoji, tmp_path_factory):
    """Build a whole collection and, with its encoders and model, shards of its items."""
    folder = tmp_path_factory.mktemp("shards")
    # Fewer codes than items, so that many scores are equal.
    whole = Collection.build(
        emoji,
        folder / "whole.acqh",
        n_components=8,
        n_codebooks=1,
        image_encoder="hog",
        text_encoder="tfidf",
    )
    shards = [folder / f"shard-{number}.acqh" for number in range(len(CUTS) - 1)]
    for path, (start, stop) in zip(shards, pairwise(CUTS), strict=True):
        Collection.build(emoji[start:stop], path, like=whole).close()
    whole.close()
    return folder / "whole.acqh", shards


@pytest.fixture(scope="module")
def whole(paths):
    with Collection.open(paths[0]) as opened:
        yield opened


@pytest.fixture(scope="module")
def sharded(paths):
    with ShardedCollection.open(paths[1]) as opened:
        yield opened


@pytest.mark.parametrize("k", [1, 10, 1000])
@pytest.mark.parametrize(
    "where", [None, "label=Food & Drink", {"label": "flag", "family": "flags"}, "label=none such"]
)
@pytest.mark.parametrize("query", ["text", "image", "item", "all", "unknown"])
def test_answers_are_those_of_one_collection(whole, sharded, emoji, query, where, k):
    given = {
        "text": {"text": "a red flower"},
        "image": {"image": emoji[120].image},
        "item": {"item": emoji[80].id},
        "all": {
            "text": "food",
            "image": emoji[3].image,
            "item": emoji[200].id,
            "weights": {"text": 0.5},
        },
        "unknown": {"text": "xyzzy"},
    }[query]
    expected = whole.search(**given, where=where, k=k, mode="meaning")
    found = sharded.search(**given, where=where, k=k, mode="meaning")
    assert found.hits == expected.hits
    assert found.n_items == expected.n_items
    assert found.n_candidates == expected.n_candidates


def test_equal_scores_are_ordered_by_shard_and_then_by_insertion(sharded):
    hits = sharded.search(text="flower", k=239, mode="meaning").hits
    order = {identifier: place for place, identifier in enumerate(sharded)}
    ties = [(one, other) for one, other in pairwise(hits) if one.score == other.score]
    assert len(ties) > 20
    assert all(order[one.id] < order[other.id] for one, other in ties)


def test_explanations_add_up_to_the_scores(sharded):
    answer = sharded.search(text="flower", k=20, explain=True, mode="meaning")
    scores = [hit.score for hit in answer.hits]
    assert answer.explanation.parts.sum(axis=1) == pytest.approx(scores, abs=1e-6)


def test_items_and_facts_are_those_of_one_collection(whole, sharded, emoji):
    assert len(sharded) == len(whole) == CUTS[-1]
    assert list(sharded) == list(whole)
    assert sharded.views == whole.views
    assert sharded.labels() == whole.labels()
    assert list(sharded.labels()) == sorted(whole.labels())
    for place in (0, 80, 238):
        identifier = emoji[place].id
        assert identifier in sharded
        assert sharded.item(identifier) == whole.item(identifier)
        assert sharded.thumbnail(identifier) == whole.thumbnail(identifier)
    assert "none such" not in sharded
    for ask in (sharded.item, sharded.thumbnail, lambda each: sharded.search(item=each)):
        with pytest.raises(MissingItemError, match="no item has the id 'none such'"):
            ask("none such")
    ours, theirs = sharded.stats(), whole.stats()
    assert ours.generation == "+".join(shard.generation for shard in sharded.shards)
    assert ours.size_on_disk == sum(shard.stats().size_on_disk for shard in sharded.shards)
    for name in ("n_items", "n_labelled", "n_labels", "n_thumbnails", "coded_by", "encoders",
                 "n_trained", "trained_on", "n_skipped", "n_components", "code_bytes"):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name


def test_words_are_found_in_all_shards(sharded):
    hits = sharded.search(text="breakfast", mode="words", k=20).hits
    assert len(hits) > 1
    assert all("breakfast" in hit.text for hit in hits)


def test_changes_of_a_shard_are_seen_by_the_next_search(make_items, tmp_path):
    things = make_items(30)
    north = Collection.build(
        things[:20],
        tmp_path / "north.acqh",
        n_components=4,
        image_encoder="hog",
        text_encoder="tfidf",
    )
    south = Collection.build(things[20:], tmp_path / "south.acqh", like=tmp_path / "north.acqh")
    with ShardedCollection([north, south]) as both:
        best = both.search(text="rose", k=1).hits[0]
        home = south if best.id in south else north
        home.remove(best.id)
        assert len(both) == 29
        assert best.id not in [hit.id for hit in both.search(text="rose", k=30).hits]
        with Collection.open(tmp_path / "south.acqh") as elsewhere:
            elsewhere.add(Item(text="rose tulip petal", labels=["flower"], id="new"))
        assert "new" in [hit.id for hit in both.search(text="rose tulip petal", k=30).hits]
    with pytest.raises(CollectionError, match="closed"):
        both.search(text="rose")


def test_shards_that_cannot_be_one_are_refused(paths, make_items, tmp_path):
    whole, shards = paths
    with pytest.raises(DuplicateIdError, match=r"shard-0.acqh and .*whole.acqh both have an item"):
        ShardedCollection.open([shards[0], whole])
    with pytest.raises(FileNotFoundError, match="none"):
        ShardedCollection.open([shards[0], tmp_path / "none.acqh"])
    with pytest.raises(CollectionError, match="give at least one"):
        ShardedCollection.open([])
    Collection.build(
        make_items(30), tmp_path / "other.acqh", image_encoder="hog", text_encoder="tfidf"
    ).close()
    with pytest.raises(CollectionError, match=r"other\.acqh has another model than .*like="):
        ShardedCollection.open([shards[0], tmp_path / "other.acqh"])
    gc.collect()  # readers that were stopped in the middle end without a complaint


def test_other_encoders_with_the_same_model_are_refused(paths):
    first, second = (Collection.open(path) for path in paths[1][:2])
    with first, second:
        encoders = dict(second._facts.encoders.by_view, text=word_vectorizer().fit(["other words"]))
        second._facts = replace(second._facts, encoders=Encoders(encoders))
        with pytest.raises(CollectionError, match="other encoders"):
            ShardedCollection([first, second])


def test_one_path_opens_a_collection_and_several_open_as_one(paths):
    with open_collections([paths[0]]) as one, open_collections(paths[1]) as several:
        assert isinstance(one, Collection)
        assert isinstance(several, ShardedCollection)


def test_items_without_ids_are_called_differently_in_each_shard(tmp_path):
    items = [Item(text=f"a {word}", labels=[word]) for word in ("rose", "car", "boat")]
    north = Collection.build(
        items, tmp_path / "north.acqh", n_components=2, image_encoder="hog", text_encoder="tfidf"
    )
    south = Collection.build(items[:2], tmp_path / "south.acqh", like=north)
    south.add([Item(text="a red rose"), Item(text="a boat", id="south-4"), Item(text="a car")])
    with ShardedCollection([north, south]) as both:
        ids = list(both)
        assert [each.startswith("south-") for each in ids] == [False] * 3 + [True] * 5
        assert len(set(ids)) == 8


def test_a_collection_built_like_another_needs_no_labels_and_learns_nothing(paths, tmp_path):
    items = [Item(text="a bunch of flowers", id="1"), Item(text="xyzzy", id="2")]
    with Collection.build(items, tmp_path / "more.acqh", like=paths[0]) as more:
        assert list(more) == ["1"]
        assert more.skipped[0][0] == "item '2'"
        assert more.stats().coded_by == {"text": 1}
        assert not more.verify().problems
    with pytest.raises(CollectionError, match="nothing that the model knows"):
        Collection.build(items, tmp_path / "strict.acqh", like=paths[0], strict=True)
    with pytest.raises(CollectionError, match="no items to build from: item '2'"):
        Collection.build(items[1:], tmp_path / "empty.acqh", like=paths[0])
    with pytest.raises(CollectionError, match="`n_codebooks` has nothing to say"):
        Collection.build(items, tmp_path / "more2.acqh", like=paths[0], n_codebooks=2)
    assert [each.name for each in tmp_path.iterdir()] == ["more.acqh"]
