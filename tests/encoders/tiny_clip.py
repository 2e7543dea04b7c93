"""Tiny CLIP models, which know three colours, in the two layouts that people have."""

import json
from pathlib import Path

import numpy as np
import pytest

COLOURS = ("red", "green", "blue")
SIDE = 8


def write_image_network(
    path: Path, *, batch="n", width=3, output="image_embeds", weights_file=None
):
    """Write a network whose output is the mean colour; `weights_file`: has its weights."""
    onnx = pytest.importorskip("onnx")
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        make.make_node("GlobalAveragePool", ["pixel_values"], ["pooled"]),
        make.make_node("Flatten", ["pooled"], ["mean"]),
    ]
    weights = np.eye(3, width, dtype=np.float32)
    matrix = onnx.numpy_helper.from_array(weights, "matrix")
    if weights_file is not None:
        matrix.ClearField("raw_data")
        matrix.data_location = onnx.TensorProto.EXTERNAL
        matrix.external_data.add(key="location", value=weights_file)
        if weights_file.endswith("_data"):
            path.with_name(weights_file).write_bytes(weights.tobytes())
    nodes.append(make.make_node("MatMul", ["mean", "matrix"], [output]))
    graph = make.make_graph(
        nodes,
        "image",
        [make.make_tensor_value_info("pixel_values", float32, [batch, 3, SIDE, SIDE])],
        [make.make_tensor_value_info(output, float32, [batch, width])],
        [matrix],
    )
    save(graph, path)


def write_text_network(
    path: Path, *, batch="n", length="t", name="input_ids", output="text_embeds", mask=False,
    dtype=None,
):  # fmt: skip
    """Write a network that knows tokens 1, 2 and 3: the nearest to each counts most."""
    onnx = pytest.importorskip("onnx")
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    constants = {
        "axis": np.array([2]),
        "colours": np.arange(1, 4, dtype=np.float32),
        "little": np.array(0.01, np.float32),
    }
    nodes = [
        make.make_node("Cast", [name], ["numbers"], to=float32),
        make.make_node("Unsqueeze", ["numbers", "axis"], ["column"]),
        make.make_node("Sub", ["column", "colours"], ["away"]),
        make.make_node("Mul", ["away", "away"], ["square"]),
        make.make_node("Add", ["square", "little"], ["distance"]),
        make.make_node("Reciprocal", ["distance"], ["near"]),
    ]
    dtype = dtype or onnx.TensorProto.INT64
    inputs = [make.make_tensor_value_info(name, dtype, [batch, length])]
    near = "near"
    if mask:
        inputs.append(make.make_tensor_value_info("attention_mask", dtype, [batch, length]))
        nodes += [
            make.make_node("Cast", ["attention_mask"], ["mask"], to=float32),
            make.make_node("Unsqueeze", ["mask", "axis"], ["masks"]),
            make.make_node("Mul", ["near", "masks"], ["seen"]),
        ]
        near = "seen"
    nodes.append(make.make_node("ReduceMax", [near], [output], axes=[1], keepdims=0))
    graph = make.make_graph(
        nodes,
        "text",
        inputs,
        [make.make_tensor_value_info(output, float32, [batch, 3])],
        [onnx.numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    save(graph, path)


def save(graph, path: Path):
    onnx = pytest.importorskip("onnx")
    model = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


def write_tokenizer(folder: Path):
    """Write a tokenizer of words, without marks around a text."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(["[PAD]", *COLOURS])} | {"[UNK]": 9}
    tokens = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokens.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokens.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "[PAD]"}))


def write_transformers_model(folder: Path):
    write_image_network(folder / "onnx" / "vision_model.onnx")
    write_text_network(folder / "onnx" / "text_model.onnx")
    write_tokenizer(folder)
    size = {"height": SIDE, "width": SIDE}
    settings = {"size": {"shortest_edge": SIDE}, "crop_size": size, "do_center_crop": True}
    settings |= {"image_mean": [0] * 3, "image_std": [1] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    config = {"model_type": "clip", "text_config": {"max_position_embeddings": 8}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_openclip_model(folder: Path):
    onnx = pytest.importorskip("onnx")
    write_image_network(folder / "visual" / "model.onnx", batch=1, output="embedding")
    kind = {"name": "text", "output": "embedding", "dtype": onnx.TensorProto.INT32}
    write_text_network(folder / "textual" / "model.onnx", batch=1, length=8, **kind)
    write_tokenizer(folder / "textual")
    settings = {"size": [SIDE, SIDE], "mode": "RGB", "mean": [0] * 3, "std": [1] * 3}
    settings |= {"interpolation": "bicubic", "resize_mode": "shortest", "fill_color": 0}
    (folder / "visual" / "preprocess_cfg.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"text_cfg": {"context_length": 8}}))
    return folder
