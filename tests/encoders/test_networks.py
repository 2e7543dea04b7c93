"""Encoders that run a network: batches change nothing, other weights are rejected."""

import json
import runpy
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from acqh._core.runtime import limit_threads
from acqh._core.store import pack, unpack
from acqh.encoders import EfficientNetLite0, MiniLM, make_encoder
from acqh.encoders.efficientnet import read_weights
from acqh.encoders.minilm import numbers_of, vocabulary
from acqh.errors import EncoderFallbackWarning, ImageError, InvalidInputError
from acqh.methods.registry import HOMES


def pictures(n=5):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(n)]


def restored(encoder):
    description, arrays = pack(encoder, HOMES)
    return unpack(json.loads(json.dumps(description)), arrays, HOMES)


def test_efficientnet_rejects_a_size_its_strides_do_not_divide():
    with pytest.raises(InvalidInputError, match="multiple of 32"):
        EfficientNetLite0(size=100).fit([])


def test_the_weights_of_efficientnet_are_part_of_the_package_and_small():
    for name, size in (("efficientnet.npz", 7_000_000), ("imagenet.npz", 5_000_000)):
        assert len((files("acqh.encoders") / name).read_bytes()) <= size
    weights = EfficientNetLite0().folded_weights()
    assert weights["_conv_head.weight"].shape == (1280, 320, 1, 1)
    assert sum(array.size for array in weights.values()) > 3_000_000


@pytest.mark.parametrize("name", ["efficientnet", "imagenet"])
def test_the_graphs_are_those_that_the_tool_writes(name):
    tool = runpy.run_path(Path(__file__).parents[2] / "tools" / "write_image_network.py")
    graph = (files("acqh.encoders") / f"{name}.onnx").read_bytes()
    assert tool["write_network"](read_weights(name)) == graph


def test_efficientnet_gives_features_and_class_probabilities_whatever_the_batches():
    one = EfficientNetLite0(size=64, batch_size=2).fit([])
    features = one.transform(iter(pictures()))
    assert features.shape == (5, 2280)
    np.testing.assert_allclose(features[:, 1280:].sum(axis=1), 1, atol=1e-5)
    assert features.dtype == np.float32
    with limit_threads(1):
        again = restored(EfficientNetLite0(size=64, batch_size=5)).transform(pictures())
    np.testing.assert_array_equal(features, again)
    assert np.ptp(features, axis=0).max() > 0
    assert one.transform([]).shape == (0, 2280)
    without = EfficientNetLite0(size=64, classes=False).transform(pictures())
    np.testing.assert_array_equal(without, features[:, :1280])


def test_an_encoder_stored_before_there_were_class_probabilities_gets_them_when_fitted_again():
    description, arrays = pack(EfficientNetLite0(size=64, classes=False).fit([]), HOMES)
    del description["params"]["classes"]
    old = unpack(json.loads(json.dumps(description)), arrays, HOMES)
    assert old.transform(pictures(2)).shape == (2, 1280)
    assert old.fit([]).transform(pictures(2)).shape == (2, 2280)


def test_efficientnet_names_a_bad_picture():
    with pytest.raises(ImageError, match="image 2"):
        EfficientNetLite0(size=64).transform([*pictures(2), b"no image"])


def test_other_weights_than_those_fitted_with_are_rejected():
    description, _ = pack(EfficientNetLite0(), HOMES)
    description["state"]["fingerprint_"] = 64 * "0"
    other = unpack(description, {}, HOMES)
    with pytest.raises(InvalidInputError, match="weights"):
        other.transform(pictures(1))


TEXTS = [
    "A man riding a wave on top of a surfboard.",
    "Straße, café & naïve cœur: 東京タワー!? $5.00 <b>`x`</b>",
    "unaffable antidisestablishmentarianism " + "x" * 120,
    "tab\tnew\nline\u200b zero\x00width \ufffd [SEP] ##ing",
    "\U0001f600 emoji e\u0301 \u00a0space don't",
    "",
]


def test_tokens_are_those_of_the_tokenizers_package(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary()), encoding="utf-8")
    reference = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), lowercase=True)
    for text in TEXTS:
        if "[SEP]" not in text:
            assert numbers_of(text, 512) == reference.encode(text).ids
    # Marks of the model that are typed are words, not marks.
    assert numbers_of("[SEP]", 512).count(102) == 1
    assert len(numbers_of("dog " * 99, 20)) == 20


def test_minilm_knows_that_an_automobile_is_a_car():
    encoder = MiniLM().fit([])
    features = encoder.transform(["automobile", "a red car", "a bunch of flowers", ""])
    assert features.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), [1, 1, 1, 0], rtol=1e-5)
    assert features[0] @ features[1] > features[0] @ features[2] + 0.2


def test_minilm_gives_a_text_the_same_numbers_in_any_company():
    together = MiniLM().transform(TEXTS)
    alone = np.vstack([restored(MiniLM(batch_size=1)).transform([text]) for text in TEXTS[:2]])
    np.testing.assert_array_equal(together[:2], alone)
    encoder, texts = restored(MiniLM()), [*TEXTS[:2], "", "a far longer text " * 9]
    padded = encoder.transform_english(texts)
    one_by_one = np.vstack([encoder.transform_english([text]) for text in texts])
    np.testing.assert_array_equal(padded, one_by_one)
    assert not padded[2].any()
    with pytest.raises(InvalidInputError, match="NoneType"):
        MiniLM().transform([None])


def test_auto_is_the_best_that_is_installed_and_says_so_where_it_is_not(monkeypatch):
    assert isinstance(make_encoder("auto", view="image"), EfficientNetLite0)
    assert isinstance(make_encoder("auto", view="text"), MiniLM)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for view, second, extra in (("image", "hog", "images"), ("text", "tfidf", "images")):
        with pytest.warns(EncoderFallbackWarning, match=rf"{second}.*acqh\[{extra}\]"):
            default = make_encoder("auto", view=view)
        assert repr(default) == repr(make_encoder(second, view=view))


def test_encoders_that_do_not_exist_are_named_with_those_that_do():
    with pytest.raises(InvalidInputError, match="auto, efficientnet, hog"):
        make_encoder("tfidf", view="image")
