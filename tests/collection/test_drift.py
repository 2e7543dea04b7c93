"""Drift of added items, and retraining from stored features."""

import threading

import numpy as np
import pytest
from PIL import Image

from acqh.collection import Collection, Item
from acqh.data import MultiViewData
from acqh.errors import CollectionError


def pictures(n, seed):
    rng = np.random.default_rng(seed)
    for number in range(n):
        image = Image.fromarray(rng.integers(0, 255, (4, 4, 3)).astype(np.uint8)).resize((64, 64))
        yield Item(image=image, id=f"{seed}-{number}")


@pytest.fixture
def built(tmp_path):
    settings = {"image_encoder": "hog", "text_encoder": "tfidf", "n_codebooks": 2}
    with Collection.build(list(pictures(70, 0)), tmp_path / "c.acqh", **settings) as collection:
        yield collection


def features(n, seed, *, foreign=False):
    """Rows around 40 centres, or around none."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(40, 16))
    rows = rng.normal(size=(n, 16))
    rows = rows if foreign else centres[rng.integers(40, size=n)] + 0.2 * rows
    return MultiViewData({"image": rows}, ids=[f"{seed}-{number}" for number in range(n)])


def test_items_like_the_first_are_no_drift_and_others_are(tmp_path):
    with Collection.build(
        features(600, 0), tmp_path / "c.acqh", n_codebooks=2, n_components=16
    ) as collection:
        assert collection.info().drift["ratio"] is None
        collection.add(features(100, 1))
        assert collection.drift.n_added == 100
        assert 0.7 < collection.drift.ratio < 1.3
        collection.add(features(400, 2, foreign=True))
        assert collection.drift.retraining_recommended
        with Collection.open(tmp_path / "c.acqh") as again:
            assert again.drift == collection.drift
            assert again.info().drift["retraining_recommended"]


def test_few_items_give_no_drift_estimate(tmp_path):
    with Collection.build(features(40, 0), tmp_path / "c.acqh", n_codebooks=2) as few:
        few.add(features(40, 1))
        assert few.drift.n_added == 40
        assert few.drift.ratio is None
        assert not few.drift.retraining_recommended


def test_retraining_keeps_items_and_fits_added_ones(built):
    built.add(list(pictures(40, 2)))
    rose = Item(text="a red rose", labels=["flower"], id="rose", fields={"year": 2010})
    built.add([rose, Item(text="another red rose", id="other")])
    built.remove("0-3")
    before = {item.id: item for item, _ in next(built.batches(999))}
    thumbnail = built.thumbnail("2-0")
    new = built.retrain()
    assert built.search(item="0-0", k=1).hits, "what was open still answers"
    old = built.generation
    with new:
        after = {item.id: item for item, _ in next(new.batches(999))}
        assert list(after) == list(before)
        assert [(item.text, item.labels, item.fields) for item in after.values()] == [
            (item.text, item.labels, item.fields) for item in before.values()
        ]
        assert new.thumbnail("2-0") == thumbnail
        assert new.drift.n_added == 0
        assert new.generation != old
        assert new.info().n_trained == len(after)
        assert new.verify().ok
        built.remove("2-0")
        assert "2-0" not in new, "what was open follows, to change something"
        assert built.generation == new.generation


def test_retraining_reads_the_tracked_files(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for item in pictures(6, 0):
        item.image.save(folder / f"{item.id}.png")
    with Collection.build(folder, tmp_path / "c.acqh", image_encoder="hog") as collection:
        (folder / "0-1.png").unlink()
        new = collection.retrain()
    with new:
        assert len(new) == 6
        report = new.sync(folder)
        assert (report.deleted, report.n_unchanged) == (("0-1.png",), 5)


def test_retraining_keeps_the_annotations_of_removed_items(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for item in pictures(6, 0):
        item.image.save(folder / f"{item.id}.png")
    gone = folder / "0-1.png"
    content = gone.read_bytes()
    with Collection.build(folder, tmp_path / "c.acqh", image_encoder="hog") as collection:
        collection.annotate(Item(id=gone.name, labels=["mine"]))
        gone.unlink()
        collection.sync(folder)
        new = collection.retrain()
    gone.write_bytes(content)
    with new:
        new.sync(folder)
        assert new.item(gone.name).labels == ("mine",)


def test_retraining_loses_no_concurrent_change(built):
    began, go_on = threading.Event(), threading.Event()

    def wait(*_):
        began.set()
        go_on.wait(20)

    created = []
    learner = threading.Thread(target=lambda: created.append(built.retrain(progress=wait)))
    learner.start()
    assert began.wait(20)
    with Collection.open(built.path, timeout=0.1) as other:
        assert other.search(item="0-0", k=1).hits
        with pytest.raises(CollectionError, match="chang"):
            other.remove("0-0")
    go_on.set()
    learner.join()
    with created[0] as new:
        assert "0-0" in new


def test_a_collection_of_features_cannot_learn_again_by_itself(tmp_path):
    data = MultiViewData({"image": np.random.default_rng(0).normal(size=(40, 6))})
    with Collection.build(data, tmp_path / "c.acqh", n_codebooks=2) as collection:
        with pytest.raises(CollectionError, match="features"):
            collection.retrain()
        assert len(collection) == 40
