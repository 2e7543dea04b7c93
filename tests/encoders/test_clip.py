"""CLIP models in two ONNX files, in the layouts of transformers.js and of immich."""

import json
import pickle
import shutil
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image
from tiny_clip import (
    COLOURS,
    SIDE,
    save,
    write_image_network,
    write_openclip_model,
    write_text_network,
    write_transformers_model,
)
from typer.testing import CliRunner

from acqh._core.store import pack, unpack
from acqh.cli import app
from acqh.collection import Collection, Item
from acqh.encoders import ClipImages, ClipTexts, make_encoder
from acqh.encoders.models import external_files, find_model
from acqh.errors import EncoderError, ImageError, InvalidInputError
from acqh.methods.registry import HOMES

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")


@pytest.fixture(params=[write_transformers_model, write_openclip_model])
def any_folder(request, tmp_path):
    return request.param(tmp_path / "model")


@pytest.fixture
def folder(tmp_path):
    return write_transformers_model(tmp_path / "model")


def painted():
    return [Image.new("RGB", (20, 12), colour) for colour in ("red", "lime", "blue")]


def stored(encoder):
    description, arrays = pack(encoder, HOMES)
    return lambda: unpack(json.loads(json.dumps(description)), dict(arrays), HOMES)


def test_images_and_texts_are_in_one_space(any_folder):
    images, texts = (make_encoder(str(any_folder), view=view) for view in ("image", "text"))
    assert isinstance(images, ClipImages)
    assert isinstance(texts, ClipTexts)
    rows = images.fit([]).transform(painted())
    words = texts.fit([]).transform(["red", "a green thing", "blue " * 12])
    assert rows.shape == words.shape == (3, 3)
    np.testing.assert_allclose(np.linalg.norm(words, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal((words @ rows.T).argmax(axis=1), [0, 1, 2])
    assert images.n_features_out == texts.n_features_out == 3
    assert texts.transform([]).shape == (0, 3)


def test_a_stored_encoder_rejects_other_files(any_folder):
    encoder = make_encoder(str(any_folder), view="text").fit([])
    restore = stored(encoder)
    np.testing.assert_array_equal(restore().transform(["red"]), encoder.transform(["red"]))
    next(any_folder.rglob("tokenizer_config.json")).write_text("{}")
    with pytest.raises(InvalidInputError, match="weights"):
        restore().transform(["red"])


def test_encoders_can_be_pickled(folder):
    encoder = make_encoder(str(folder), view="image").fit([])
    rows = encoder.transform(painted())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(painted()), rows)  # noqa: S301


def test_a_folder_is_remembered_by_its_absolute_path(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder.parent)
    restore = stored(make_encoder("./model", view="text").fit([]))
    monkeypatch.chdir(tmp_path.parent)
    assert restore().transform(["red"]).shape == (1, 3)


def build(path, model, texts=COLOURS):
    items = [Item(image=i, text=t) for i, t in zip(painted() * 4, texts * 4, strict=True)]
    return Collection.build(items, path, image_encoder=model, text_encoder=model)


def test_a_collection_is_built_with_a_model(any_folder, tmp_path):
    path = tmp_path / "c.acqh"
    with build(path, str(any_folder)) as built:
        hits = built.search(text="green", k=4, mode="semantic").hits
        assert [hit.text for hit in hits] == ["green"] * 4
    with Collection.open(path) as opened:
        assert opened.search(image=painted()[2], k=1).hits[0].text == "blue"
        assert str(any_folder) in opened.info().encoders["text"]


@pytest.mark.parametrize("n_captioned", [0, 3])
def test_photos_without_captions_are_found_by_words(folder, tmp_path, n_captioned):
    texts = (COLOURS * 4)[:n_captioned] + ("",) * (12 - n_captioned)
    model = str(folder)
    items = [
        Item(image=image, text=text, id=f"{colour} {number}")
        for number, (image, text, colour) in enumerate(
            zip(painted() * 4, texts, COLOURS * 4, strict=True)
        )
    ]
    path = tmp_path / "c.acqh"
    Collection.build(items, path, image_encoder=model, text_encoder=model).close()
    with Collection.open(path) as opened:
        opened.add([Item(image=painted()[1], id="green added")])
        for colour, n_photos in zip(COLOURS, (4, 5, 4), strict=True):
            hits = opened.search(text=colour, k=n_photos, mode="semantic").hits
            assert {hit.id.split()[0] for hit in hits} == {colour}


def test_a_collection_names_the_model_that_is_gone(folder, tmp_path):
    path = tmp_path / "c.acqh"
    build(path, str(folder)).close()
    shutil.rmtree(folder)
    with Collection.open(path) as opened, pytest.raises(EncoderError, match=str(folder)):
        opened.search(text="green", mode="semantic")


def test_the_command_line_builds_with_one_model_for_images_and_texts(folder, tmp_path):
    lines = ["image,text"]
    for number, (image, word) in enumerate(zip(painted() * 3, COLOURS * 3, strict=True)):
        image.save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{word}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    command = ["build", str(tmp_path / "table.csv"), "--encoder", str(folder), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (done.output, done.exception)
    with Collection.open(tmp_path / "table.acqh") as collection:
        kinds = {view: type(encoder) for view, encoder in collection.opened.facts.encoders.items()}
    assert kinds == {"image": ClipImages, "text": ClipTexts}


def test_a_broken_text_network_is_found_before_images_are_encoded(folder, tmp_path):
    (folder / "tokenizer.json").unlink()
    progress = []
    with pytest.raises(InvalidInputError, match="tokenizer"):
        Collection.build(
            [Item(image=image) for image in painted()],
            tmp_path / "c.acqh",
            image_encoder=str(folder),
            text_encoder=str(folder),
            progress=lambda *step: progress.append(step),
        )
    assert not progress


@pytest.mark.parametrize(
    "name",
    [
        "onnx/vision_model.onnx",
        "onnx/text_model.onnx",
        "preprocessor_config.json",
        "tokenizer.json",
    ],
)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    for view in ("image", "text"):
        with pytest.raises(InvalidInputError, match=name):
            make_encoder(str(folder), view=view).fit([])


@pytest.mark.parametrize("name", ["./nothing", "/nothing/here", "a/b/nothing"])
def test_a_missing_folder_is_named(name):
    with pytest.raises(InvalidInputError, match=f"no folder {name}"):
        make_encoder(name, view="image").fit([])


@pytest.mark.parametrize("content", [b"", b"x", b"\x3a\xff\xff\xff\xff\x0f", b"\xff" * 20])
def test_a_file_that_is_no_network_is_named(folder, content):
    (folder / "onnx" / "text_model.onnx").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"text_model\.onnx"):
        make_encoder(str(folder), view="text").transform(["red"])


def test_damaged_headers_raise_no_other_error(folder):
    path = folder / "onnx" / "text_model.onnx"
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(content[: rng.integers(1, len(content))])
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(InvalidInputError):
            find_model(str(folder))


def test_vectors_of_different_widths_are_rejected(folder):
    write_image_network(folder / "onnx" / "vision_model.onnx", width=2)
    with pytest.raises(InvalidInputError, match="2 dimensions"):
        make_encoder(str(folder), view="image").fit([])


def test_full_precision_is_preferred_and_variants_can_be_chosen(folder):
    for name in ("vision_model", "text_model"):
        shutil.copy(folder / "onnx" / f"{name}.onnx", folder / "onnx" / f"{name}_quantized.onnx")
    assert find_model(str(folder)).layout.image == "onnx/vision_model.onnx"
    chosen = find_model(f"{folder}:quantized")
    assert chosen.layout.text == "onnx/text_model_quantized.onnx"
    assert find_model(chosen.source) == chosen
    (folder / "onnx" / "text_model.onnx").unlink()
    assert find_model(str(folder)).layout.image == "onnx/vision_model_quantized.onnx"
    with pytest.raises(InvalidInputError, match="vision_model_int8"):
        find_model(f"{folder}:int8")


def test_a_bad_image_is_named(folder):
    with pytest.raises(ImageError, match="image 1"):
        make_encoder(str(folder), view="image").transform([painted()[0], b"no image"])


@pytest.mark.parametrize(
    "changes",
    [
        {"image_mean": [0.5, 0.5]},
        {"image_mean": 0.5},
        {"image_mean": "abc"},
        {"image_std": [0, 0, 0]},
        {"image_std": [[1, 1, 1]]},
        {"size": -5},
        {"size": 0},
        {"size": 8.5},
        {"size": float("inf")},
        {"size": True},
        {"size": 1_000_000},
        {"size": {"shortest_edge": -5}},
        {"size": {}},
        {"size": None},
        {"size": 4},
        {"crop_size": {"height": 8}},
        {"resample": 99},
        {"rescale_factor": "x"},
    ],
)
def test_settings_that_make_no_sense_are_named(folder, changes):
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InvalidInputError, match="preprocessor_config"):
        make_encoder(str(folder), view="image").transform(painted())


@pytest.mark.parametrize(
    "content",
    [b"[1]", b"5", b"[", b"[" * 100_000, b'{"size": ' + b"9" * 5_000 + b"}", b"\xff"],
    ids=["list", "number", "cut", "deep", "digits", "not UTF-8"],
)
@pytest.mark.parametrize("name", ["preprocessor_config.json", "tokenizer.json", "config.json"])
def test_files_that_hold_no_settings_are_named(folder, name, content):
    view = "image" if name.startswith("pre") else "text"
    (folder / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=name.partition(".")[0]):
        make_encoder(str(folder), view=view).transform(painted() if view == "image" else ["a"])


@pytest.mark.parametrize("changes", [{"resize_mode": "longest"}, {"interpolation": "none"}])
def test_openclip_settings_that_are_not_supported_are_named(tmp_path, changes):
    folder = write_openclip_model(tmp_path / "model")
    path = folder / "visual" / "preprocess_cfg.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InvalidInputError, match="preprocess_cfg"):
        make_encoder(str(folder), view="image").transform(painted())


def test_an_attention_mask_is_given_to_networks_that_take_one(folder):
    write_text_network(folder / "onnx" / "text_model.onnx", length=4, mask=True)
    encoder = make_encoder(str(folder), view="text")
    np.testing.assert_array_equal(encoder.transform(["blue"]).argmax(axis=1), [2])


def test_features_do_not_depend_on_the_batch(folder):
    encoder = make_encoder(str(folder), view="text")
    together = encoder.transform(["red", "green blue red", "blue"])
    alone = [encoder.transform([text]) for text in ("red", "green blue red", "blue")]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def network_of(folder, nodes, inputs, output=(1, 3)):
    """Replace the image network."""
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    infos = [make.make_tensor_value_info(name, float32, [1, 3, SIDE, SIDE]) for name in inputs]
    out = make.make_tensor_value_info("image_embeds", float32, output)
    row = onnx.numpy_helper.from_array(np.ones(output, np.float32), "row")
    save(make.make_graph(nodes, "g", infos, [out], [row]), folder / "onnx" / "vision_model.onnx")


@pytest.mark.parametrize("inputs", [[], ["pixel_values", "other"]])
def test_an_image_network_needs_one_input(folder, inputs):
    network_of(folder, [onnx.helper.make_node("Identity", ["row"], ["image_embeds"])], inputs)
    with pytest.raises(InvalidInputError, match="input"):
        make_encoder(str(folder), view="image").transform(painted())


@pytest.mark.parametrize(("shape", "message"), [((2, 3), "shape"), ((3,), "shape")])
def test_a_network_gives_one_row_per_item(folder, shape, message):
    node = onnx.helper.make_node("Identity", ["row"], ["image_embeds"])
    network_of(folder, [node], ["pixel_values"], shape)
    with pytest.raises(InvalidInputError, match=message):
        make_encoder(str(folder), view="image").transform(painted())


def test_a_network_of_numbers_that_are_not_finite_is_an_error(folder):
    nodes = [
        onnx.helper.make_node("Sub", ["row", "row"], ["zero"]),
        onnx.helper.make_node("Div", ["zero", "zero"], ["image_embeds"]),
    ]
    network_of(folder, nodes, ["pixel_values"])
    with pytest.raises(InvalidInputError, match="finite"):
        make_encoder(str(folder), view="image").transform(painted())


def test_a_text_network_of_endless_length_is_an_error(folder):
    write_text_network(folder / "onnx" / "text_model.onnx", length=2**40)
    with pytest.raises(InvalidInputError, match="tokens"):
        make_encoder(str(folder), view="text").transform(["red"])


def test_the_width_is_known_without_running_the_network(folder, monkeypatch):
    encoders = [make_encoder(str(folder), view=view) for view in ("image", "text")]
    for encoder in encoders:
        monkeypatch.setattr(type(encoder), "_forward", None)
    assert [encoder.n_features_out for encoder in encoders] == [3, 3]


def test_weights_next_to_a_network_are_part_of_its_fingerprint(folder):
    write_image_network(
        folder / "onnx" / "vision_model.onnx", weights_file="vision_model.onnx_data"
    )
    encoder = make_encoder(str(folder), view="image").fit([])
    np.testing.assert_allclose(encoder.transform(painted()), np.eye(3), atol=1e-6)
    restore = stored(encoder)
    (folder / "onnx" / "unrelated.bin").write_bytes(b"other")
    restore().transform(painted())
    data = folder / "onnx" / "vision_model.onnx_data"
    data.write_bytes(data.read_bytes()[::-1])
    with pytest.raises(InvalidInputError, match="weights"):
        restore().transform(painted())
    data.unlink()
    with pytest.raises(InvalidInputError, match="onnx_data"):
        make_encoder(str(folder), view="image").fit([])


@pytest.mark.parametrize("place", ["../secret", "/etc/passwd", "a/../../b", "C:\\x", "..\\x", ""])
def test_weights_outside_the_folder_are_rejected(folder, place):
    write_image_network(folder / "onnx" / "vision_model.onnx", weights_file=place)
    with pytest.raises(InvalidInputError, match="outside"):
        find_model(str(folder))


def test_weights_of_nested_graphs_are_found(tmp_path):
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    tensor = onnx.numpy_helper.from_array(np.ones(3, np.float32), "hidden")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere")
    out = make.make_tensor_value_info("y", float32, [3])
    inner = make.make_graph([make.make_node("Constant", [], ["y"], value=tensor)], "i", [], [out])
    condition = onnx.numpy_helper.from_array(np.array(True), "c")
    node = make.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    save(make.make_graph([node], "g", [], [out], [condition]), tmp_path / "x.onnx")
    assert external_files(tmp_path / "x.onnx") == ["elsewhere"]
