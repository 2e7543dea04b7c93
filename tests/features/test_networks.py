"""Encoders that run a network: batches change nothing, other weights are refused."""

import json

import numpy as np
import pytest
from PIL import Image

from acqh.errors import InvalidInputError, PictureError
from acqh.features import (
    ClipImages,
    ClipTexts,
    EfficientNetLite0,
    feature_map_from_state,
    feature_map_state,
    make_encoder,
)

pytest.importorskip("torch")


def pictures(n=5):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(n)]


def restored(encoder):
    description, arrays = feature_map_state(encoder)
    return feature_map_from_state(json.loads(json.dumps(description)), arrays)


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    """Save a tiny CLIP with random weights, and a tokenizer of bytes, as transformers does."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("clip")
    words = {word: i for i, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", "a", "dog", "cat"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
    )
    small = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = transformers.CLIPConfig(
        text_config={
            **small,
            "vocab_size": 7,
            "max_position_embeddings": 8,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "pad_token_id": 0,
        },
        vision_config={**small, "image_size": 32, "patch_size": 16},
        projection_dim=12,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return folder


def test_efficientnet_gives_1280_numbers_whatever_the_batches():
    pytest.importorskip("efficientnet_lite_pytorch")
    one = EfficientNetLite0(size=64, batch_size=2).fit([])
    found = one.transform(iter(pictures()))
    assert found.shape == (5, 1280)
    assert found.dtype == np.float32
    again = restored(EfficientNetLite0(size=64, batch_size=5)).transform(pictures())
    np.testing.assert_allclose(found, again, rtol=1e-3, atol=1e-4)
    assert np.ptp(found, axis=0).max() > 0
    assert one.transform([]).shape == (0, 1280)


def test_efficientnet_names_a_bad_picture():
    pytest.importorskip("efficientnet_lite_pytorch")
    with pytest.raises(PictureError, match="picture 2"):
        EfficientNetLite0(size=64).transform([*pictures(2), b"no picture"])


def test_other_weights_than_those_fitted_with_are_refused():
    pytest.importorskip("efficientnet_lite_pytorch")
    description, arrays = feature_map_state(EfficientNetLite0())
    other = feature_map_from_state(description, {"fingerprint": arrays["fingerprint"] ^ 1})
    with pytest.raises(InvalidInputError, match="not those it was fitted with"):
        other.transform(pictures(1))


def test_clip_describes_pictures_and_texts_alike(clip_folder):
    images = make_encoder(f"clip:{clip_folder}", view="image").fit([])
    texts = make_encoder(f"clip:{clip_folder}", view="text").fit([])
    seen = images.transform(pictures())
    read = texts.transform(["a dog", "a cat", "a dog a dog a dog a dog a dog a dog"])
    assert seen.shape == (5, 12)
    assert read.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1, rtol=1e-5)
    assert not np.allclose(read[0], read[1])
    np.testing.assert_allclose(restored(texts).transform(["a cat"])[0], read[1], rtol=1e-4)


def test_clip_needs_a_folder_that_is_there(tmp_path):
    with pytest.raises(InvalidInputError, match="no folder"):
        ClipImages(str(tmp_path / "nothing")).fit([])
    with pytest.raises(InvalidInputError, match="no weights"):
        ClipTexts(str(tmp_path)).fit([])


def test_a_stored_clip_that_is_gone_fetches_nothing(monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    asked = []

    def fetch(name, **options):
        asked.append(options)
        raise OSError("not in the cache")

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    description = {"class": "ClipTexts", "params": {"model": "someone/model"}}
    stored = feature_map_from_state(description, {"fingerprint": np.zeros(32, dtype=np.uint8)})
    with pytest.raises(InvalidInputError, match="neither a folder"):
        stored.transform(["a dog"])
    assert asked == [{"local_files_only": True}]


def test_encoders_that_do_not_exist_are_named_with_those_that_do():
    with pytest.raises(InvalidInputError, match="hog, efficientnet"):
        make_encoder("tfidf", view="image")
