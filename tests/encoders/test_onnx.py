"""Two networks in ONNX files and a tokenizer, as people have them."""

import json

import numpy as np
import pytest
from PIL import Image

from acqh._core.store import pack, unpack
from acqh.collection import Collection, Item
from acqh.encoders import make_encoder
from acqh.encoders.efficientnet import Graph, _bytes, _number, _varint
from acqh.errors import ImageError, InvalidInputError
from acqh.methods.registry import HOMES

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("onnxruntime")
COLOURS = ("red", "green", "blue")


@pytest.fixture
def folder(tmp_path):
    """Networks that know three colours: the mean of the pixels, and the words for them."""
    images = Graph("pixel_values", (3, 8, 8))
    mean = images.node("Flatten", images.node("GlobalAveragePool", "pixel_values"))
    place = tmp_path / "model"
    (place / "onnx").mkdir(parents=True)
    (place / "onnx" / "vision_model.onnx").write_bytes(images.finish(mean, (3,)))
    texts = Graph("input_ids", (4,))
    texts._input = texts._input.replace(b"\x08\x01", b"\x08\x07", 1)  # int64
    numbers = texts.node("Cast", "input_ids", to=1)
    # Token 1 + c is colour c: what is near its number counts, as 1 / (1 + distance squared).
    found = []
    for colour in range(3):
        away = texts.node("Sub", numbers, texts.constant(np.array(1.0 + colour)))
        near = texts.node("Mul", away, away)
        near = texts.node("Add", near, texts.constant(np.array(0.01)))
        near = texts.node("Reciprocal", near)
        found.append(texts.node("ReduceMax", near, axes=[1], keepdims=1))
    (place / "onnx" / "text_model.onnx").write_bytes(
        texts.finish(texts.node("Concat", *found, axis=1), (3,))
    )
    words = {word: number for number, word in enumerate(["[PAD]", *COLOURS])} | {"[UNK]": 9}
    tokens = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokens.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokens.save(str(place / "tokenizer.json"))
    said = {"crop_size": {"height": 8, "width": 8}, "image_mean": [0] * 3, "image_std": [1] * 3}
    (place / "preprocessor_config.json").write_text(json.dumps(said))
    return place


def painted():
    return [Image.new("RGB", (20, 12), colour) for colour in ("red", "lime", "blue")]


def test_images_and_texts_of_a_folder_are_in_one_space(folder):
    images = make_encoder(f"onnx:{folder}", view="image")
    texts = make_encoder(f"onnx:{folder}", view="text")
    rows = images.fit([]).transform(painted())
    words = texts.fit([]).transform(["red", "a green thing", "blue blue blue blue blue blue"])
    assert rows.shape == words.shape == (3, 3)
    np.testing.assert_allclose(np.linalg.norm(words, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal((words @ rows.T).argmax(axis=1), [0, 1, 2])
    assert images.n_features_out == texts.n_features_out == 3


def test_an_encoder_of_a_folder_is_stored_by_its_fingerprint(folder):
    encoder = make_encoder(f"onnx:{folder}", view="text").fit([])
    expected = encoder.transform(["red"])
    description, arrays = pack(encoder, HOMES)
    again = unpack(json.loads(json.dumps(description)), arrays, HOMES)
    np.testing.assert_array_equal(again.transform(["red"]), expected)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="weights"):
        unpack(description, arrays, HOMES).transform(["red"])


def test_a_collection_is_built_with_a_folder_of_networks(folder, tmp_path):
    items = [
        Item(image=image, text=word) for image, word in zip(painted() * 4, COLOURS * 4, strict=True)
    ]
    how = f"onnx:{folder}"
    path = tmp_path / "c.acqh"
    with Collection.build(items, path, image_encoder=how, text_encoder=how) as built:
        assert [hit.text for hit in built.search(text="green", k=4, mode="semantic").hits] == [
            "green"
        ] * 4
    with Collection.open(path) as opened:
        assert opened.search(image=painted()[2], k=1).hits[0].text == "blue"


@pytest.mark.parametrize(
    ("spoil", "view", "message"),
    [
        (
            lambda f: (f / "onnx" / "vision_model.onnx").unlink(),
            "image",
            "holds none of image.onnx",
        ),
        (lambda f: (f / "onnx" / "text_model.onnx").write_bytes(b"x"), "text", "no network"),
        (lambda f: (f / "tokenizer.json").unlink(), "text", "is no tokenizer"),
        (
            lambda f: (f / "preprocessor_config.json").write_text("["),
            "image",
            "preprocessor_config",
        ),
        (
            lambda f: (f / "preprocessor_config.json").write_text('{"size": 16}'),
            "image",
            "cannot be run",
        ),
    ],
)
def test_what_a_folder_lacks_is_named(folder, spoil, view, message):
    spoil(folder)
    with pytest.raises(InvalidInputError, match=message):
        make_encoder(f"onnx:{folder}", view=view).transform(painted() if view == "image" else ["a"])


def test_a_bad_image_is_named(folder):
    with pytest.raises(ImageError, match="image 1"):
        make_encoder(f"onnx:{folder}", view="image").transform([painted()[0], b"no image"])


@pytest.mark.parametrize(
    "said",
    [
        '{"image_mean": [0.5, 0.5]}',
        '{"image_mean": 0.5}',
        '{"image_mean": [1e999, 0, 0]}',
        '{"image_mean": "abc"}',
        '{"image_std": [0, 0, 0]}',
        '{"image_std": [[1, 1, 1]]}',
        '{"size": -5}',
        '{"size": 0}',
        '{"size": 1e999}',
        '{"size": 1000000}',
        '{"size": 8.5}',
        '{"size": true}',
        '{"size": {"shortest_edge": -5}}',
        '{"size": {}}',
        '{"size": null}',
        "[1]",
        "5",
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"size": ' + "9" * 5_000 + "}", id="digits"),
        pytest.param("\udcff", id="not UTF-8"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_named(folder, said):
    path = folder / "preprocessor_config.json"
    path.write_bytes(said.encode(errors="surrogateescape"))
    with pytest.raises(InvalidInputError, match="preprocessor_config"):
        make_encoder(f"onnx:{folder}", view="image").transform(painted())


def image_network(folder, make):
    """Replace the image network by one that `make` adds to a graph; it returns the output."""
    graph = Graph("pixel_values", (3, 8, 8))
    (folder / "onnx" / "vision_model.onnx").write_bytes(graph.finish(*make(graph)))


def test_a_network_that_ignores_its_batch_is_an_error(folder):
    def make(graph):
        mean = graph.node("Flatten", graph.node("GlobalAveragePool", "pixel_values"))
        return graph.node("ReduceMean", mean, axes=[0], keepdims=1), (3,)

    image_network(folder, make)
    with pytest.raises(InvalidInputError, match="3 items"):
        make_encoder(f"onnx:{folder}", view="image").transform(painted())


@pytest.mark.parametrize("n_inputs", [0, 2])
def test_an_image_network_needs_one_input(folder, n_inputs):
    graph = Graph("pixel_values", (3, 8, 8))
    inputs = graph._input
    row = graph.constant(np.ones((1, 3)))
    whole = graph.finish(graph.node("Identity", row), (3,))
    # Field 11 of a graph: its inputs.
    field = b"\x5a" + bytes([len(inputs)]) + inputs
    assert field in whole
    other = field.replace(b"pixel_values", b"pixel_other_") if n_inputs else b""
    content = whole.replace(field, field + other if n_inputs else b"")
    at = whole.index(b"\x3a") + 1
    content = with_length(content, at, len(content) - len(whole))
    (folder / "onnx" / "vision_model.onnx").write_bytes(content)
    with pytest.raises(InvalidInputError, match="input"):
        make_encoder(f"onnx:{folder}", view="image").transform(painted())


def with_length(content, at, change):
    """Return a message whose length, a varint at a place, is changed."""
    end = at
    while content[end] & 0x80:
        end += 1
    length = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(content[at : end + 1])) + change
    return content[:at] + _varint(length) + content[end + 1 :]


def test_weights_beside_a_network_are_part_of_its_fingerprint(folder):
    """A network whose weights are in another file, as large exports have them."""
    graph = Graph("pixel_values", (3, 8, 8))
    mean = graph.node("Flatten", graph.node("GlobalAveragePool", "pixel_values"))
    location = _bytes(1, b"location") + _bytes(2, b"vision_model.onnx_data")
    dims = _number(1, 3) + _number(2, 1)
    graph._weights += _bytes(5, dims + _bytes(8, b"scale") + _bytes(13, location) + _number(14, 1))
    model = graph.finish(graph.node("Mul", mean, "scale"), (3,))
    (folder / "onnx" / "vision_model.onnx").write_bytes(model)
    weights = folder / "onnx" / "vision_model.onnx_data"
    weights.write_bytes(np.array([1, 1, 1], "<f4").tobytes())
    encoder = make_encoder(f"onnx:{folder}", view="image").fit([])
    rows = encoder.transform(painted())
    np.testing.assert_allclose(rows, np.eye(3), atol=1e-6)
    (folder / "onnx" / "unrelated.bin").write_bytes(b"other")
    description, arrays = pack(encoder, HOMES)
    np.testing.assert_array_equal(unpack(description, arrays, HOMES).transform(painted()), rows)
    weights.write_bytes(np.array([1, -1, 5], "<f4").tobytes())
    with pytest.raises(InvalidInputError, match="weights"):
        unpack(description, arrays, HOMES).transform(painted())


def test_the_width_is_known_without_running_the_network(folder, monkeypatch):
    images = make_encoder(f"onnx:{folder}", view="image")
    texts = make_encoder(f"onnx:{folder}", view="text")
    monkeypatch.setattr(type(images), "_forward", None)
    monkeypatch.setattr(type(texts), "_forward", None)
    assert images.n_features_out == texts.n_features_out == 3


def test_a_text_network_of_endless_length_is_an_error(folder):
    graph = Graph("input_ids", (2**40,))
    graph._input = graph._input.replace(b"\x08\x01", b"\x08\x07", 1)  # int64
    numbers = graph.node("Cast", "input_ids", to=1)
    mean = graph.node("ReduceMean", numbers, axes=[1], keepdims=1)
    (folder / "onnx" / "text_model.onnx").write_bytes(graph.finish(mean, (1,)))
    with pytest.raises(InvalidInputError, match="tokens"):
        make_encoder(f"onnx:{folder}", view="text").transform(["red"])
