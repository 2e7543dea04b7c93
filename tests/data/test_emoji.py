"""The embedded emoji set matches its documentation, and its features those of the encoders."""

import json
import struct
from collections import defaultdict
from importlib.resources import files

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

import acqh
from acqh._core.linalg import solve_spd
from acqh.data import MultiViewData
from acqh.data.datasets import _read_pack, load_emoji
from acqh.encoders import tfidf_vectorizer

DATA = load_emoji()
PACK = files("acqh.data.datasets") / "emoji"
WORDS = tuple(_read_pack()[0]["words"])


def test_shapes_and_names() -> None:
    assert DATA.name == "emoji"
    assert DATA.views["image"].shape == (1906, 544)
    assert DATA.views["image"].dtype == np.float32
    assert isinstance(DATA.views["text"], sp.csr_array)
    assert DATA.views["text"].shape == (1906, len(WORDS))
    assert len(DATA.label_names) == 9
    assert len(set(DATA.items["subgroup"])) == 98
    assert len(set(DATA.items["name"])) == len(set(DATA.ids.tolist())) == 1906


def test_it_is_a_named_data_set_without_files() -> None:
    info = next(info for info in acqh.list_datasets() if info.name == "emoji")
    data = acqh.load_dataset(info.name)
    assert info.is_available
    assert (info.n_items, info.n_labels) == (len(data), len(data.label_names))
    assert f"{len(WORDS):,} words" in info.views["text"]


def test_every_item_has_one_group_and_some_text() -> None:
    assert (DATA.labels.sum(axis=1) == 1).all()
    assert (DATA.labels.sum(axis=0) >= 85).all()
    assert (DATA.views["text"].sum(axis=1) > 0).all()


def test_ids_spell_the_character() -> None:
    row = DATA.items["name"].tolist().index("red heart")
    assert DATA.ids[row] == "2764-FE0F"
    assert DATA.items["emoji"][row] == "\u2764\ufe0f"
    assert DATA.items["text"][row] == "red heart, emotion, heart, love, red"


def test_every_image_is_a_webp_file_of_its_stated_length() -> None:
    for picture in DATA.items["image"]:
        magic, length, kind = struct.unpack("<4sI4s", picture[:12])
        assert (magic, kind) == (b"RIFF", b"WEBP")
        assert length + 8 == len(picture)


def members(name: str) -> set[str]:
    names = DATA.items["name"].tolist()
    family = DATA.items["family"][names.index(name)]
    return {n for n, f in zip(names, DATA.items["family"], strict=True) if f == family}


def test_variants_of_one_thing_share_a_family() -> None:
    assert members("woman running: facing right") == {
        f"{who} running{way}"
        for who in ("man", "woman", "person")
        for way in ("", ": facing right")
    }
    assert members("mermaid") == {"mermaid", "merman", "merperson"}
    assert members("red apple") == {"red apple", "green apple"}
    assert len(members("keycap: 3")) == 13
    assert len(members("one-thirty")) == 24
    assert len(members("blue heart")) == 12
    assert len(members("family")) == 30
    assert members("broken heart") == {"broken heart"}


def test_a_family_lies_in_one_group() -> None:
    groups = defaultdict(set)
    for family, row in zip(DATA.items["family"], DATA.labels, strict=True):
        groups[family].add(int(row.argmax()))
    assert all(len(group) == 1 for group in groups.values())


def test_word_counts_equal_those_of_the_text_encoder() -> None:
    encoder = tfidf_vectorizer(use_idf=False, norm=None)
    counts = encoder.fit_transform(DATA.items["text"])
    assert tuple(encoder.get_feature_names_out()) == WORDS
    difference = counts - DATA.views["text"]
    assert abs(difference).max() == 0


@pytest.mark.slow
def test_image_features_equal_those_of_the_image_encoder() -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("skimage")
    from acqh.encoders import HogColor

    features = HogColor().transform(DATA.items["image"])
    # One step of the stored bytes, for decoders and libraries that round differently.
    assert np.abs(features - DATA.views["image"]).max() < 1.5 / 255


def test_the_pack_is_small_and_names_its_source() -> None:
    sizes = {path.name: len(path.read_bytes()) for path in PACK.iterdir()}
    assert set(sizes) == {"NOTICE", "arrays.npz", "items.json"}
    assert sum(sizes.values()) < 3_500_000
    sources = json.loads((PACK / "items.json").read_text(encoding="utf-8"))["sources"]
    notice = (PACK / "NOTICE").read_text(encoding="utf-8")
    for package, source in sources.items():
        assert f"{package} {source['version']}" in notice


def ridge_map(train: MultiViewData, query: MultiViewData, X: np.ndarray, Q: np.ndarray) -> float:
    """MAP of queries against the true labels of the training items, ridge regression to labels."""
    mean, scale = X.mean(axis=0), X.std(axis=0) + 1e-9
    X, Q = (X - mean) / scale, (Q - mean) / scale
    weights = solve_spd(X.T @ X + 100 * np.eye(X.shape[1]), X.T @ train.labels.astype(float))
    scores = Q @ weights + train.labels.mean(axis=0)
    sizes = train.labels.sum(axis=0)
    precisions = []
    for row, group in zip(scores, query.labels.argmax(axis=1), strict=True):
        before = sizes[row > row[group]].sum()
        ranks = np.arange(1, sizes[group] + 1)
        precisions.append(np.mean(ranks / (before + ranks)))
    return float(np.mean(precisions))


def test_groups_can_be_predicted_from_images_and_from_texts() -> None:
    train, query = DATA.split(test_size=0.2, groups="family", random_state=0)
    assert not set(train.items["family"]) & set(query.items["family"])
    assert ridge_map(train, query, train.views["image"], query.views["image"]) > 0.68
    weigh = TfidfTransformer().fit(train.views["text"])
    used = np.flatnonzero(train.views["text"].count_nonzero(axis=0) >= 3)
    texts = (weigh.transform(part.views["text"])[:, used].toarray() for part in (train, query))
    assert ridge_map(train, query, *texts) > 0.80
