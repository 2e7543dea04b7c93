"""The built-in image-text model: small, checked, better than chance, open to pairs of one's own."""

import csv
from importlib.resources import files
from io import BytesIO

import numpy as np
import pytest

import acqh
from acqh.encoders import BuiltinModel, EfficientNetLite0, MiniLM, builtin_model
from acqh.encoders.builtin import BuiltinMap, PairMoments
from acqh.errors import InvalidInputError
from acqh.quantize import decode, search_codes


def recall(model, images, texts, k=10):
    scores = model.project(texts, view="text") @ model.item_vectors(images).T
    return np.mean((scores > np.diag(scores)[:, np.newaxis]).sum(axis=1) < k)


def own_world(n, seed=0):
    """Pairs of a kind the built-in model knows nothing of: texts are a random map of images."""
    rng = np.random.default_rng(7)
    hidden = np.random.default_rng(seed).normal(size=(n, 20))
    images = np.exp(0.3 * hidden @ rng.normal(size=(20, 1280)))
    return images.astype(np.float32), (hidden @ rng.normal(size=(20, 384))).astype(np.float32)


def test_the_package_carries_no_more_than_six_megabytes():
    assert len((files("acqh.encoders.builtin") / "builtin.npz").read_bytes()) <= 6_000_000
    model = builtin_model()
    assert model.pair_moments.n > 30_000
    for size in (8, 16):
        assert model.codebooks(size).shape == (size, 256, model.n_components)


def test_moments_of_parts_add_up():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 4)) + 3, rng.normal(size=(50, 3)) - 1
    parts = PairMoments.of(X[:20], Y[:20]).plus(PairMoments.of(X[20:], Y[20:]))
    weights, intercept = parts.regression(1e-9)
    design = np.column_stack([X, np.ones(50)])
    expected = np.linalg.lstsq(design, Y, rcond=None)[0]
    np.testing.assert_allclose(np.vstack([weights, intercept]), expected, atol=1e-6)


def test_moved_moments_keep_their_slopes_and_go_through_the_new_means():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) + 3
    sums = PairMoments.of(X, X @ rng.normal(size=(4, 3)) + rng.normal(size=(80, 3)))
    image, text = rng.normal(size=4), rng.normal(size=3)
    moved = sums.moved(image, text)
    weights, intercept = moved.regression(0.1)
    np.testing.assert_allclose(weights, sums.regression(0.1)[0], atol=1e-10)
    np.testing.assert_allclose(image @ weights + intercept, text, atol=1e-10)
    back = moved.moved(sums.image, sums.text)
    np.testing.assert_allclose(back.images, sums.images, atol=1e-10)


def test_what_all_own_texts_have_in_common_is_learnt_from_them_alone():
    images, texts = own_world(60)
    model = builtin_model()
    style = 5 * np.abs(texts).mean() * np.sign(np.random.default_rng(1).normal(size=384))
    refined = model.refine(images, (texts + style).astype(np.float32))
    weights, intercept = refined.pair_moments.regression(refined.ridge)
    X = model.map_features(images, view="image").astype(np.float64)
    Y = model.map_features((texts + style).astype(np.float32), view="text").astype(np.float64)
    before, after = model.pair_moments.regression(model.ridge), (weights, intercept)
    off = [
        np.linalg.norm((Y - X @ solution[0] - solution[1]).mean(axis=0))
        for solution in (before, after)
    ]
    assert off[1] < 0.05 * off[0]


def test_words_find_drawings_that_nobody_captioned():
    items = acqh.load_dataset("emoji").items
    rows = np.random.default_rng(0).choice(len(items["name"]), 120, replace=False)
    images = EfficientNetLite0().transform([items["image"][row] for row in rows])
    texts = MiniLM().transform([items["text"][row] for row in rows])
    model = builtin_model()
    assert recall(model, images, texts) > 0.25  # chance is 0.08
    stored = model.item_vectors(images)
    for size, close in ((8, 0.6), (16, 0.7)):
        codebooks = model.codebooks(size)
        rebuilt = decode(search_codes(stored, codebooks), codebooks)
        cosines = np.sum(rebuilt * stored, axis=1) / np.linalg.norm(rebuilt, axis=1)
        assert np.mean(cosines / np.linalg.norm(stored, axis=1)) > close


def test_pairs_of_ones_own_refine_it_and_never_do_worse_than_alone():
    model = builtin_model()
    images, texts = own_world(300)
    new = own_world(200, seed=1)
    refined = model.refine(images, texts)
    alone = BuiltinModel(
        model.arrays,
        PairMoments.of(
            model.map_features(images, view="image"), model.map_features(texts, view="text")
        ),
        model.ridge,
    )
    assert refined.n_added == 300
    assert recall(refined, *new) >= recall(alone, *new) - 0.02
    assert recall(refined, *new) > recall(model, *new) + 0.2


def test_a_handful_of_pairs_changes_nothing():
    assert builtin_model().refine(*own_world(3)) is builtin_model()


def features_of(name):
    """Features of a network that is certain of the classes of one name."""
    stored = np.load(BytesIO((files("acqh.encoders.builtin") / "classes.npz").read_bytes()))
    tag = stored["tag_names"].tolist().index(name)
    classes = np.zeros(1000, dtype=np.float32)
    classes[stored["tag_classes"][stored["tags"] == tag]] = 1
    return np.hstack([old_features_of(name), classes / classes.sum()])


def old_features_of(name):
    """Features that the old classifier gives one name: as far in its direction as they can be."""
    tags, stored = (
        np.load(BytesIO((files("acqh.encoders.builtin") / file).read_bytes()))
        for file in ("classes.npz", "classes_4.npz")
    )
    tag = tags["tag_names"].tolist().index(name)
    weights = stored["weights"][:, tags["tag_classes"][tags["tags"] == tag]].astype(float)
    return np.where(weights.mean(axis=1) > 0, 2.0, 0.0).astype(np.float32)


@pytest.mark.parametrize("features_of", [features_of, old_features_of])
def test_images_that_the_classifier_is_certain_of_get_tags(features_of):
    images = np.stack([features_of("violin"), features_of("border collie")])
    violin, collie = builtin_model().suggest_tags(images)
    assert [name for name, _ in violin] == ["violin"]
    assert {name for name, _ in collie} == {"border collie", "dog"}
    assert all(0.8 <= confidence <= 1 for _, confidence in violin + collie)


def test_images_that_the_classifier_is_not_certain_of_get_no_tags():
    model = builtin_model()
    mixed = np.mean([features_of(name) for name in ("violin", "teapot", "volcano")], axis=0)
    assert model.suggest_tags(np.stack([np.zeros(2280), mixed])) == [[], []]


def test_tags_are_limited_in_number_and_confidence():
    model, images = builtin_model(), features_of("border collie")[np.newaxis]
    assert len(model.suggest_tags(images, max_tags=1)[0]) == 1
    names = [len(model.suggest_tags(images, max_tags=9, min_confidence=c)[0]) for c in (0, 0.8)]
    assert names == [9, 2]
    assert model.suggest_tags(np.empty((0, 2280))) == []


def test_photos_of_animals_get_the_tags_that_people_gave_them(data_dir):
    animals, folder = {"dog", "cat", "horse", "bird"}, data_dir.parent / "coco"
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[8_000:9_000]
    labels = [animals & set(row["labels"].split("|")) for row in rows]
    # Some with an animal, and as many without.
    chosen = [*np.flatnonzero(labels)[:80], *np.flatnonzero(~np.array(labels, dtype=bool))[:80]]
    features = EfficientNetLite0().transform([folder / rows[row]["image"] for row in chosen])
    tags = builtin_model().suggest_tags(features)
    pairs = [(name, row) for names, row in zip(tags, chosen, strict=True) for name, _ in names]
    is_right = [name in labels[row] for name, row in pairs if name in animals]
    assert len(is_right) >= 10
    assert np.mean(is_right) >= 0.85


def test_maps_of_the_version_before_stay_as_they_were():
    rng = np.random.default_rng(0)
    images = rng.random((2, 1280), dtype=np.float32)
    texts = rng.normal(size=(2, 384)).astype(np.float32)
    maps = {view: BuiltinMap(view) for view in ("image", "text")}
    for restored in maps.values():
        assert not restored.is_outdated
        restored.version_ = 3
        assert restored.is_outdated
    # As those versions wrote them.
    mapped = maps["image"].transform(images)
    assert mapped.shape == (2, 512)
    expected = [[0.093526, 0.000296, 0.003898], [0.089268, 0.008320, 0.005901]]
    np.testing.assert_allclose(mapped[:, [0, 100, 511]], expected, atol=2e-6)
    expected = [[0.19268, 0.28267, 1.27784], [0.17550, 0.68193, -0.60209]]
    rows = maps["text"].transform(texts)[:, [0, 100, 300]]
    np.testing.assert_allclose(rows, expected, atol=2e-5)
    maps["image"].version_ = 4
    mapped = maps["image"].transform(images)
    assert mapped.shape == (2, 768)
    expected = [[0.093526, 0.003898, 0.006443, -0.000202], [0.089268, 0.005901, 0.003895, 0.000416]]
    np.testing.assert_allclose(mapped[:, [0, 511, 512, 767]], expected, atol=2e-6)
    maps["image"].version_ = 5
    assert maps["image"].is_outdated
    np.testing.assert_array_equal(
        maps["image"].transform(images), BuiltinMap("image").transform(images)
    )


def test_maps_of_an_unknown_version_are_rejected():
    with pytest.raises(InvalidInputError, match="version 2"):
        BuiltinMap("image").version_ = 2


def test_class_evidence_lets_names_of_classes_find_their_images():
    model, names = builtin_model(), ["violin", "teapot", "lighthouse", "volcano", "banjo"]
    images = np.stack([features_of(name) for name in names])
    texts = MiniLM().transform([f"a photo of a {name}" for name in names])
    assert recall(model, images, texts, k=1) == 1


def test_no_rows_give_no_vectors():
    model = builtin_model()
    assert model.item_vectors(np.empty((0, 2280))).shape == (0, model.n_components)
    assert model.project(np.empty((0, 384)), view="text").shape == (0, model.n_components)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: model.item_vectors(np.ones((2, 3))), "2280 columns, as EfficientNetLite0"),
        (lambda model: model.project(np.ones((2, 3)), view="text"), "384 columns, as MiniLM"),
        (lambda model: model.project(np.ones((2, 3)), view="sound"), "'image' or 'text'"),
        (lambda model: model.codebooks(4), r"\[8, 16\] bytes per item, not 4"),
        (lambda model: model.refine(np.ones((12, 1280)), np.ones((11, 384))), "give pairs"),
    ],
)
def test_what_does_not_fit_is_rejected(use, message):
    with pytest.raises(InvalidInputError, match=message):
        use(builtin_model())


def test_a_few_pairs_of_the_general_kind_do_not_make_it_forget():
    model = builtin_model()
    rng = np.random.default_rng(0)
    axes = model.arrays["image_axes"]
    roots = rng.normal(size=(60, axes.shape[1]))
    roots = roots * np.sqrt(np.diag(model.pair_moments.images))[: axes.shape[1]]
    images = np.square(np.maximum(model.arrays["image_mean"] + roots @ axes.T, 0))
    weights, intercept = model.pair_moments.regression(model.ridge)
    meant = model.map_features(images, view="image") @ weights + intercept
    noise = 2.0 * rng.normal(size=meant.shape) * np.sqrt(np.maximum(model.text_variance, 0))
    texts = (meant + noise) @ np.linalg.pinv(model.arrays["text_axes"].astype(np.float64))
    refined = model.refine(images, texts + model.arrays["text_mean"])
    assert refined.pair_moments.n >= 10_000
