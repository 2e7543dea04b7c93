"""Images and texts are prepared as the libraries that define the models prepare them."""

import json

import numpy as np
import pytest
from PIL import Image

from acqh.encoders.clip import Pixels, Tokens

MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]
SIZES = [(40, 60), (61, 40), (33, 57), (24, 24), (300, 31), (23, 200), (10, 12)]


def noise(size):
    rng = np.random.default_rng(size[0])
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def compare(settings, name, folder, reference):
    (folder / name).write_text(json.dumps(settings))
    pixels = Pixels.read(folder / name)
    for size in SIZES:
        image = noise(size)
        np.testing.assert_allclose(pixels.of(image)[0], reference(image), atol=2e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resample": 2},
        {"size": 24, "crop_size": 24},
        {"size": {"shortest_edge": 26}, "crop_size": {"height": 23, "width": 24}},
        {"do_normalize": False, "resample": 2},  # MobileCLIP
        {"do_rescale": False},
        {"rescale_factor": 1 / 127.5},
    ],
)
def test_pixels_are_those_of_clip_in_transformers(tmp_path, changes):
    clip = pytest.importorskip("transformers.models.clip.image_processing_pil_clip")
    settings = {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}}
    settings |= {"do_center_crop": True, "image_mean": MEAN, "image_std": STD} | changes
    processor = clip.CLIPImageProcessorPil(**settings)
    settings = json.loads(processor.to_json_string())
    reference = lambda image: processor(images=[image])["pixel_values"][0]  # noqa: E731
    compare(settings, "preprocessor_config.json", tmp_path, reference)


@pytest.mark.parametrize("changes", [{}, {"resample": 2}, {"size": {"height": 16, "width": 24}}])
def test_pixels_are_those_of_siglip_in_transformers(tmp_path, changes):
    siglip = pytest.importorskip("transformers.models.siglip.image_processing_pil_siglip")
    settings = {"size": {"height": 24, "width": 24}, "image_mean": [0.5] * 3} | changes
    processor = siglip.SiglipImageProcessorPil(**settings, image_std=[0.5] * 3)
    settings = json.loads(processor.to_json_string())
    reference = lambda image: processor(images=[image])["pixel_values"][0]  # noqa: E731
    compare(settings, "preprocessor_config.json", tmp_path, reference)


@pytest.mark.parametrize("mode", ["shortest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_pixels_are_those_of_openclip(tmp_path, mode, interpolation):
    transform = pytest.importorskip("open_clip.transform")
    settings = {"size": [24, 24], "mode": "RGB", "mean": MEAN, "std": STD, "fill_color": 0}
    settings |= {"interpolation": interpolation, "resize_mode": mode}
    prepare = transform.image_transform_v2(transform.PreprocessCfg(**settings), is_train=False)
    reference = lambda image: prepare(image).numpy()  # noqa: E731
    compare(settings, "preprocess_cfg.json", tmp_path, reference)


def test_openclip_crops_half_a_pixel_to_the_even_side(tmp_path):
    """As Python rounds: a margin of 1.5 pixels is 2; transformers takes 1."""
    settings = {"size": 2, "mean": [0] * 3, "std": [1 / 255] * 3, "interpolation": "nearest"}
    (tmp_path / "preprocess_cfg.json").write_text(json.dumps(settings))
    strip = Image.fromarray(
        np.repeat(np.arange(5, dtype=np.uint8)[None, :, None], 3, 2).repeat(2, 0)
    )
    row = Pixels.read(tmp_path / "preprocess_cfg.json").of(strip)[0, 0, 0]
    np.testing.assert_allclose(row, [2, 3], atol=1e-5)


def test_a_long_strip_takes_little_memory(tmp_path):
    settings = {"size": 64, "mean": [0] * 3, "std": [1] * 3}
    (tmp_path / "preprocess_cfg.json").write_text(json.dumps(settings))
    strip = Image.new("RGB", (1_000_000, 1), "red")  # 12 GB if it were resized whole
    pixels = Pixels.read(tmp_path / "preprocess_cfg.json").of(strip)
    np.testing.assert_allclose(pixels[0].mean(axis=(1, 2)), [1, 0, 0], atol=1e-6)


TEXTS = ["A dog, a CAT!", "the dog_house", "a dog a dog a dog a dog a dog a dog", "", "  cat  "]


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer of words with marks around a text, as transformers saves it."""
    tokenizers = pytest.importorskip("tokenizers")
    names = ["<pad>", "<unk>", "<s>", "</s>", "a", "dog", "cat", "the", "house", "doghouse", "A"]
    words = {word: number for number, word in enumerate(names)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    inner.save(str(tmp_path / "tokenizer.json"))

    def configure(**settings):
        settings = {"pad_token": "</s>"} | settings
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return tmp_path / "tokenizer.json"

    return configure


def reference(path, texts, length, *, padding, pad="</s>"):
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), pad_token=pad)
    return [fast(text, padding=padding, truncation=True, max_length=length) for text in texts]


def assert_same(tokens, texts, expected):
    for text, encoding in zip(texts, expected, strict=True):
        ids, mask = tokens.of(text)
        assert ids[0].tolist() == encoding["input_ids"]
        assert mask[0].tolist() == encoding["attention_mask"]


def test_tokens_of_clip_are_cut_off_and_not_padded(tokenizer):
    path = tokenizer()
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 7}}
    expected = reference(path, TEXTS, 7, padding=False)
    assert_same(Tokens(path, config, None), TEXTS, expected)


@pytest.mark.parametrize(("config", "length"), [({"model_type": "clip"}, 77), ({}, 77)])
def test_tokens_of_other_models_are_padded(tokenizer, config, length):
    path = tokenizer(pad_token={"content": "<pad>"})
    expected = reference(path, TEXTS, length, padding="max_length", pad="<pad>")
    assert_same(Tokens(path, config, None), TEXTS, expected)


def test_tokens_fill_the_length_that_the_network_takes(tokenizer):
    path = tokenizer()
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 7}}
    assert_same(Tokens(path, config, 5), TEXTS, reference(path, TEXTS, 5, padding="max_length"))


def test_the_length_may_be_that_of_the_tokenizer_or_of_openclip(tokenizer):
    path = tokenizer(model_max_length=9)
    assert Tokens(path, {}, None).of("a")[0].shape == (1, 9)
    assert Tokens(path, {"text_cfg": {"context_length": 6}}, None).of("a")[0].shape == (1, 6)


@pytest.mark.parametrize("settings", [{}, {"model_max_length": 10**30}, {"model_max_length": 512}])
def test_texts_of_siglip_2_are_lower_case_and_padded_to_64_tokens(tokenizer, settings):
    path = tokenizer(tokenizer_class="GemmaTokenizer", **settings)
    lower = [text.lower() for text in TEXTS]
    expected = reference(path, lower, 64, padding="max_length")
    assert_same(Tokens(path, {"model_type": "siglip"}, None), TEXTS, expected)


@pytest.mark.parametrize(
    ("settings", "config", "words"),
    [
        ({"tokenizer_class": "SiglipTokenizer"}, {"model_type": "siglip"}, "doghouse"),
        ({}, {"text_cfg": {"tokenizer_kwargs": {"clean": "canonicalize"}}}, "dog house"),
    ],
    ids=["transformers", "OpenCLIP"],
)
def test_texts_of_siglip_have_no_punctuation(tokenizer, settings, config, words):
    """Both libraries drop it; OpenCLIP makes spaces of underscores first."""
    path = tokenizer(**settings)
    tokens = Tokens(path, config | {"text_config": {"max_position_embeddings": 9}}, None)
    cleaned = ["a dog a cat", f"the {words}", " ".join(["a dog"] * 6), "", "cat"]
    assert_same(tokens, TEXTS, reference(path, cleaned, 9, padding="max_length"))
