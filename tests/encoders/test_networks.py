"""Encoders that run a network: batches change nothing, other weights are refused."""

import json
import sys
from importlib.resources import files

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from acqh._core.runtime import limit_threads
from acqh._core.store import pack, unpack
from acqh.cli import app
from acqh.collection import Collection
from acqh.encoders import ClipImages, ClipTexts, EfficientNetLite0, MiniLM, make_encoder
from acqh.encoders.minilm import numbers_of, vocabulary
from acqh.errors import EncoderFallbackWarning, ImageError, InvalidInputError
from acqh.methods.registry import HOMES


def pictures(n=5):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(n)]


def restored(encoder):
    description, arrays = pack(encoder, HOMES)
    return unpack(json.loads(json.dumps(description)), arrays, HOMES)


def save_tokenizer(transformers, folder):
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: i for i, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", "a", "dog", "cat"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
    ).save_pretrained(folder)


@pytest.fixture(scope="module", params=["CLIP", "Siglip"])
def clip_folder(request, tmp_path_factory):
    """Save a tiny model with random weights, and a tokenizer of words, as transformers does."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp(request.param)
    small = {
        "hidden_size": 12,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    text = {"vocab_size": 7, "max_position_embeddings": 8}
    marks = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    config = getattr(transformers, f"{request.param}Config")(
        text_config={**small, **text, **marks},
        vision_config={**small, "image_size": 32, "patch_size": 16},
        **({"projection_dim": 12} if request.param == "CLIP" else {}),
    )
    torch.manual_seed(0)
    getattr(transformers, f"{request.param}Model")(config).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    processor = getattr(transformers, f"{request.param}ImageProcessor")
    sizes = {"size": {"shortest_edge": 32}, "crop_size": size}
    processor(**(sizes if request.param == "CLIP" else {"size": size})).save_pretrained(folder)
    save_tokenizer(transformers, folder)
    return folder


def test_efficientnet_refuses_a_size_its_strides_do_not_divide():
    with pytest.raises(InvalidInputError, match="multiple of 32"):
        EfficientNetLite0(size=100).fit([])


def test_the_weights_of_efficientnet_are_part_of_the_package_and_small():
    assert len((files("acqh.encoders") / "efficientnet.npz").read_bytes()) <= 7_000_000
    weights = EfficientNetLite0().folded_weights()
    assert weights["_conv_head.weight"].shape == (1280, 320, 1, 1)
    assert sum(each.size for each in weights.values()) > 3_000_000


def test_efficientnet_gives_1280_numbers_whatever_the_batches():
    one = EfficientNetLite0(size=64, batch_size=2).fit([])
    found = one.transform(iter(pictures()))
    assert found.shape == (5, 1280)
    assert found.dtype == np.float32
    with limit_threads(1):
        again = restored(EfficientNetLite0(size=64, batch_size=5)).transform(pictures())
    np.testing.assert_array_equal(found, again)
    assert np.ptp(found, axis=0).max() > 0
    assert one.transform([]).shape == (0, 1280)


def test_efficientnet_names_a_bad_picture():
    with pytest.raises(ImageError, match="image 2"):
        EfficientNetLite0(size=64).transform([*pictures(2), b"no image"])


def test_other_weights_than_those_fitted_with_are_refused():
    description, _ = pack(EfficientNetLite0(), HOMES)
    description["state"]["fingerprint_"] = 64 * "0"
    other = unpack(description, {}, HOMES)
    with pytest.raises(InvalidInputError, match="weights"):
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


def test_a_collection_is_built_with_one_encoder_for_images_and_texts(clip_folder, tmp_path):
    lines = ["image,text,labels"]
    for number, picture in enumerate(pictures(8)):
        picture.save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,a {('dog', 'cat')[number % 2]},{('x', 'y')[number % 2]}")
    (tmp_path / "manifest.csv").write_text("\n".join(lines))
    out = tmp_path / "built.acqh"
    command = ["build", str(tmp_path / "manifest.csv"), "--out", str(out), "--json"]
    done = CliRunner().invoke(app, [*command, "--encoder", f"clip:{clip_folder}"])
    assert done.exit_code == 0, (done.output, done.exception)
    with Collection.open(out) as collection:
        by_view = collection.opened.facts.encoders
        assert {view: type(each) for view, each in by_view.items()} == {
            "image": ClipImages,
            "text": ClipTexts,
        }
        assert collection.search(text="a dog", k=3).hits


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
    stored = unpack({**description, "state": {"fingerprint_": 64 * "0"}}, {}, HOMES)
    with pytest.raises(InvalidInputError, match="not a folder"):
        stored.transform(["a dog"])
    assert asked == [{"local_files_only": True}]


def test_a_model_of_another_kind_is_no_clip(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(InvalidInputError, match="bert"):
        ClipTexts(str(tmp_path)).transform(["a dog"])


TEXTS = [
    "A man riding a wave on top of a surfboard.",
    "Straße, café & naïve cœur: 東京タワー!? $5.00 <b>`x`</b>",
    "unaffable antidisestablishmentarianism " + "x" * 120,
    "tab\tnew\nline\u200b zero\x00width \ufffd [SEP] ##ing",
    "\U0001f600 emoji e\u0301 \u00a0space don't",
    "",
]


def test_pieces_of_words_are_those_of_the_tokenizers_package(tmp_path):
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
    found = encoder.transform(["automobile", "a red car", "a bunch of flowers", ""])
    assert found.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 1, 0], rtol=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2] + 0.2


def test_minilm_gives_a_text_the_same_numbers_in_any_company():
    together = MiniLM().transform(TEXTS)
    alone = np.vstack([restored(MiniLM(batch_size=1)).transform([text]) for text in TEXTS[:2]])
    np.testing.assert_array_equal(together[:2], alone)
    with pytest.raises(InvalidInputError, match="a text is a NoneType"):
        MiniLM().transform([None])


def test_auto_is_the_best_that_is_installed_and_says_so_where_it_is_not(monkeypatch):
    assert isinstance(make_encoder("auto", view="image"), EfficientNetLite0)
    assert isinstance(make_encoder("auto", view="text"), MiniLM)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for view, second, extra in (("image", "hog", "images"), ("text", "tfidf", "images")):
        with pytest.warns(EncoderFallbackWarning, match=rf"{second}.*acqh\[{extra}\]"):
            found = make_encoder("auto", view=view)
        assert repr(found) == repr(make_encoder(second, view=view))


def test_clip_and_siglip_can_be_asked_for_by_name():
    assert make_encoder("siglip", view="image").model.startswith("google/siglip")
    assert make_encoder("clip", view="text").model.startswith("openai/clip")
    assert make_encoder("siglip:models/mine", view="text").model == "models/mine"


def test_encoders_that_do_not_exist_are_named_with_those_that_do():
    with pytest.raises(InvalidInputError, match="auto, efficientnet, hog"):
        make_encoder("tfidf", view="image")
