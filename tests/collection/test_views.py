"""Items with and without labels, with one or several views, and custom encoders."""

import numpy as np
import pytest
from PIL import Image
from sklearn.base import BaseEstimator

import acqh
from acqh.collection import Collection, Item
from acqh.encoders import named, register_encoder
from acqh.errors import CollectionError, CorruptBundleError, InvalidInputError


def test_most_items_may_lack_labels(tmp_path, make_items):
    items = [*make_items(30), *make_items(90, labelled=False, seed=1, prefix="plain")]
    with Collection.build(
        items, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        stats = collection.info()
        assert (stats.n_items, stats.n_labelled, stats.n_trained) == (120, 30, 120)
        assert stats.encoded_from == {"labels+image+text": 30, "image+text": 90}
        # Plain items are distinguished by prediction: those with the number 1 of 3 are flowers.
        hits = collection.search(text="rose tulip", k=30).hits
        plain = [int(hit.id[5:]) for hit in hits if hit.id.startswith("plain")]
        assert len(plain) > 5
        assert {number % 3 for number in plain} == {1}


def test_items_may_have_one_view_only(tmp_path, make_items):
    items = [
        Item(item.image if number % 2 else None, "" if number % 2 else item.text, item.labels)
        for number, item in enumerate(make_items(60))
    ]
    with Collection.build(
        items, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert collection.info().encoded_from == {"labels+image": 30, "labels+text": 30}
        hits = collection.search(text="dog cat", k=20).hits
        assert {hit.labels for hit in hits} == {("animal",)}
        assert {hit.has_thumbnail for hit in hits} == {True, False}


def test_a_collection_of_texts_rejects_image_queries(tmp_path, make_items):
    items = make_items(30, pictures=False)
    with Collection.build(
        items, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert collection.views == ("text",)
        with pytest.raises(CollectionError, match="nothing about 'image'"):
            collection.search(image=make_items(1)[0].image)
        # A picture that comes with a text later is kept, though not searched by.
        collection.add(make_items(1, prefix="x"))
        assert collection.thumbnail("x0")


def test_labels_unknown_to_the_model_are_kept_and_can_be_searched(collection, make_items):
    item = make_items(1)[0]
    collection.add(Item(item.image, item.text, ["poodle"], id="x"))
    assert collection.labels()["poodle"] == 1
    assert [hit.id for hit in collection.search(text="dog", where="label=poodle").hits] == ["x"]
    assert collection.search(text="dog", where={"label": ["poodle", "animal"]}).hits == ()


@pytest.mark.parametrize("scale", [1e-320, 1e-45, 1e-6, 1e6, 1e307])
def test_only_ratios_of_weights_count(collection, scale):
    query = {"text": "dog fur", "item": "item1", "k": 5, "mode": "semantic"}
    weights = {"text": 4.0, "item": 1.0}
    expected = collection.search(**query, weights=weights)
    scaled = {name: weight * scale for name, weight in weights.items()}
    answer = collection.search(**query, weights=scaled)
    assert [hit.id for hit in answer.hits] == [hit.id for hit in expected.hits]
    np.testing.assert_allclose(
        [hit.score for hit in answer.hits], [hit.score for hit in expected.hits], rtol=1e-3
    )
    alone = collection.search(text="dog fur", mode="semantic", k=5)
    weighted = collection.search(text="dog fur", weights={"text": scale}, mode="semantic", k=5)
    np.testing.assert_allclose(
        [hit.score for hit in weighted.hits], [hit.score for hit in alone.hits], rtol=1e-6
    )


def test_weights_change_the_ranking(collection, make_items):
    rose = "rose tulip petal"
    dog = make_items(1)[0].image

    def labels(text, image):
        weights = {"text": text, "image": image}
        hits = collection.search(text=rose, image=dog, weights=weights, k=10).hits
        return {hit.labels[0] for hit in hits}

    assert labels(1, 0) == {"flower"}
    assert labels(0, 1) == {"animal"}
    only = collection.search(text=rose, k=10).hits
    both = collection.search(text=rose, image=dog, weights={"text": 3, "image": 0}, k=10).hits
    assert [hit.id for hit in both] == [hit.id for hit in only]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({}, "nothing to search for"),
        ({"item": []}, "nothing to search for"),
        ({"image": [], "unlike": ()}, "nothing to search for"),
        ({"text": "dog", "weights": {"image": 1}}, "not searched by"),
        ({"text": "dog", "weights": {"text": -1}}, "0 or more"),
        ({"text": "dog", "weights": {"text": float("nan")}}, "0 or more"),
        ({"text": "dog", "k": 0}, "k must"),
        ({"text": 7}, "must be a str"),
        ({"text": "dog", "vector": {"text": [0.5, 0.5]}}, "given twice"),
        ({"item": "nobody"}, "no item"),
        ({"item": "\udcff"}, "cannot be looked up"),  # of a file name that is not Unicode
        ({"item": [["nobody"]]}, "cannot be looked up"),
        ({"text": "dog", "where": {"label": "\udcff"}}, "cannot be looked up"),
        ({"text": "dog", "where": "dog"}, "not a condition"),
        ({"text": "dog", "where": 7}, "must be a mapping"),
        ({"text": "dog", "where": {"year": None}}, "texts and numbers"),
        ({"text": "dog", "where": {"year": {"$gt": 2000}}}, "texts and numbers"),
        ({"text": "dog", "where": {"year": b"2010"}}, "texts and numbers"),
        ({"text": "dog", "where": {"year": []}}, "no value for 'year'"),
        ({"text": "dog", "where": {"label": ()}}, "no value for 'label'"),
    ],
)
def test_queries_that_cannot_be_answered_are_rejected(collection, query, reason):
    with pytest.raises((CollectionError, InvalidInputError), match=reason):
        collection.search(**query)


def test_data_that_brings_features_is_searched_by_features(tmp_path):
    data = acqh.make_multiview(300, n_labels=4, random_state=0)
    first, later = data.subset(range(250)), data.subset(range(250, 300))
    with Collection.build(
        first, tmp_path / "c.acqh", n_components=8, image_encoder="hog", text_encoder="tfidf"
    ) as collection:
        assert collection.add(later.without_labels()).ids == tuple(map(str, range(250, 300)))
        query = data.views["text"][7]
        answer = collection.search(vector={"text": query}, k=20)
        expected = data.label_names[int(data.labels[7].argmax())]
        numbers = [int(hit.id) for hit in answer.hits]
        result = [data.label_names[int(data.labels[number].argmax())] for number in numbers]
        assert result.count(expected) > 14
        with pytest.raises(CollectionError, match="one row"):
            collection.search(image=data.views["image"][:5])
        with pytest.raises(CollectionError, match="built from features"):
            collection.add(Item(text="rose"))


def test_a_file_of_vectors_is_built_from_and_added_as_the_command_does(tmp_path):
    data = acqh.make_multiview(60, n_labels=3, random_state=0)
    first, later = tmp_path / "first.npz", tmp_path / "later.npz"
    for path, rows in ((first, slice(50)), (later, slice(50, 60))):
        np.savez(path, **{view: X[rows] for view, X in data.views.items()},
                 ids=np.arange(60)[rows])  # fmt: skip
    with Collection.build(first, tmp_path / "c.acqh", n_components=4) as collection:
        assert collection.add(later).ids == tuple(map(str, range(50, 60)))
        assert len(collection) == 60


class MeanColour(BaseEstimator):
    """Encode a picture as its mean colour above a fitted floor."""

    def fit(self, pictures, y=None):  # noqa: ARG002
        self.floor_ = np.min([self._mean(picture) for picture in pictures], axis=0)
        return self

    def transform(self, pictures):
        return np.array(
            [self._mean(picture) - self.floor_ + 1 for picture in pictures], dtype=np.float32
        )

    def get_state(self):
        return {"floor": self.floor_}

    def set_state(self, arrays):
        self.floor_ = arrays["floor"]
        return self

    @staticmethod
    def _mean(picture):
        return np.asarray(picture, dtype=float).mean(axis=(0, 1))


def test_texts_of_items_with_features_are_found_by_keywords(tmp_path):
    rng = np.random.default_rng(0)
    views = {"image": rng.normal(size=(60, 8)), "text": rng.normal(size=(60, 8))}
    texts = [f"{'rose' if row % 2 else 'car'} number{row}" for row in range(60)]
    data = acqh.MultiViewData(views, items={"text": texts})
    with Collection.build(data, tmp_path / "c.acqh") as collection:
        hits = collection.search(text="rose", k=5).hits
        assert all(hit.text.startswith("rose") for hit in hits)
        with pytest.raises(CollectionError, match="text"):
            collection.search(text="rose", mode="semantic")


def test_a_custom_encoder_is_fitted_stored_and_loaded(tmp_path, make_items, monkeypatch):
    monkeypatch.delitem(named.STORED, "MeanColour", raising=False)
    with pytest.raises(InvalidInputError, match="MeanColour"):
        # Raised at once, not after all pictures have been encoded.
        Collection.build(iter([None]), tmp_path / "c.acqh", image_encoder=MeanColour())
    register_encoder(MeanColour)
    Collection.build(make_items(), tmp_path / "c.acqh", image_encoder=MeanColour()).close()
    with Collection.open(tmp_path / "c.acqh") as collection:
        hits = collection.search(image=make_items(3, seed=4)[2].image, k=10).hits
        assert {hit.labels for hit in hits} == {("vehicle",)}
    del named.STORED["MeanColour"]
    with pytest.raises(CorruptBundleError, match="register_encoder"):
        Collection.open(tmp_path / "c.acqh")
    with pytest.raises(InvalidInputError, match="get_state"):
        register_encoder(BaseEstimator)


def test_a_build_overwrites_a_collection_only_on_request_and_nothing_else(tmp_path, make_items):
    path = tmp_path / "c.acqh"
    Collection.build(make_items(30), path, image_encoder="hog", text_encoder="tfidf").close()
    with Collection.open(path) as old:
        with pytest.raises(FileExistsError, match="already"):
            Collection.build(make_items(), path, image_encoder="hog", text_encoder="tfidf")
        with pytest.raises(CollectionError):
            Collection.build([], path, overwrite=True, image_encoder="hog", text_encoder="tfidf")
        with Collection.build(
            make_items(45), path, overwrite=True, image_encoder="hog", text_encoder="tfidf"
        ) as new:
            assert len(new) == 45
            assert new.generation != old.generation
        # Who has the old one open goes on with it.
        assert len(old.search(text="cat", k=100).hits) == 30
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.acqh"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="not a collection"):
        Collection.build(
            make_items(),
            tmp_path / "notes",
            overwrite=True,
            image_encoder="hog",
            text_encoder="tfidf",
        )
    with pytest.raises(FileNotFoundError, match="create it first"):
        Collection.build(
            make_items(), tmp_path / "none" / "c.acqh", image_encoder="hog", text_encoder="tfidf"
        )


def test_an_encoded_query_gives_the_hits_of_the_raw_query(tmp_path):
    words = ["rose", "tulip", "car", "bus", "boat", "lily"]
    items = [Item(Image.new("RGB", (16, 16), (40 * n, 9, 9)), word, id=word)
             for n, word in enumerate(words)]  # fmt: skip
    with Collection.build(
        items, tmp_path / "c.acqh", image_encoder="hog", text_encoder="tfidf", n_components=4
    ) as built:
        encoders = built.opened.facts.encoders
        for query in ({"text": "tulip"}, {"image": items[3].image}):
            expected = built.search(**query, mode="semantic").hits
            ((view, raw),) = query.items()
            rows = encoders[view].transform([raw])
            for row in (rows, rows.toarray()[0] if hasattr(rows, "toarray") else rows[0].tolist()):
                result = built.search(vector={view: row}).hits
                assert [(hit.id, hit.score) for hit in result] == [
                    (hit.id, hit.score) for hit in expected
                ]
        with pytest.raises(CollectionError, match="numbers"):
            built.search(vector={"text": "tulip"})
