"""Write the graphs of EfficientNet-Lite0, without weights, to src/acqh/encoders.

    python tools/write_image_network.py

A graph takes five kinds of protobuf message, so it is written here rather than by the package
``onnx``. Field numbers are those of ``onnx.proto``, which never change.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from acqh.encoders.efficientnet import read_weights  # noqa: E402

FOLDER = ROOT / "src" / "acqh" / "encoders"
# Groups of blocks: how many, and the stride of the first.
BLOCKS = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
IR_VERSION, OPSET, FLOAT, EXTERNAL = 8, 13, 1, 1
INT_ATTRIBUTE, INTS_ATTRIBUTE = 2, 7


def main() -> None:
    for name in ("efficientnet", "imagenet"):
        (FOLDER / f"{name}.onnx").write_bytes(write_network(read_weights(name)))


def write_network(weights: Mapping[str, np.ndarray]) -> bytes:
    """Return the graph from pixels, (n, 3, side, side), to the means of the last layer.

    With a classifier among the weights: to class probabilities.
    """
    graph = Graph("pixels", (3, -1, -1))
    limits = graph.number("lowest", 0.0), graph.number("highest", 6.0)

    def weight(name: str) -> str:
        return graph.external(name, weights[name].shape)

    def layer(x: str, conv: str, *, stride: int = 1, active: bool = True) -> str:
        kernel = weights[f"{conv}.weight"]
        side, groups = kernel.shape[2], kernel.shape[0] if kernel.shape[1] == 1 else 1
        # A stride of two over an even side needs one row less of zeros before than after.
        before, after = (side - 1) // 2 - (stride - 1), side - 1 - (side - 1) // 2
        x = graph.node(
            "Conv",
            x,
            weight(f"{conv}.weight"),
            weight(f"{conv}.bias"),
            kernel_shape=[side, side],
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=groups,
        )
        return graph.node("Clip", x, *limits) if active else x

    x = layer("pixels", "_conv_stem", stride=2)
    number = 0
    for repeats, first_stride in BLOCKS:
        for repeat in range(repeats):
            block, stride = f"_blocks.{number}.", first_stride if repeat == 0 else 1
            hidden = x
            if number:
                hidden = layer(hidden, f"{block}_expand_conv")
            hidden = layer(hidden, f"{block}_depthwise_conv", stride=stride)
            hidden = layer(hidden, f"{block}_project_conv", active=False)
            x = graph.node("Add", hidden, x) if repeat else hidden
            number += 1
    x = layer(x, "_conv_head")
    means = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    if "classifier.weight" not in weights:
        return graph.finish(means, weights["_conv_head.bias"].shape)
    kernel, bias = weight("classifier.weight"), weight("classifier.bias")
    logits = graph.node("Gemm", means, kernel, bias, transB=1)
    return graph.finish(graph.node("Softmax", logits), weights["classifier.bias"].shape)


class Graph:
    """A network under construction; each call adds one part and returns the name of its result."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._input = value_info(name, shape)
        self._nodes = b""
        self._weights = b""
        self._count = 0

    def number(self, name: str, value: float) -> str:
        """Add a scalar."""
        content = np.array(value, dtype="<f4").tobytes()
        self._weights += bytes_of(5, self._tensor(name) + bytes_of(9, content))
        return name

    def external(self, name: str, shape: tuple[int, ...]) -> str:
        """Add weights that are given when the network is loaded."""
        sizes = b"".join(number_of(1, size) for size in shape)
        place = bytes_of(1, b"location") + bytes_of(2, b"weights")
        tensor = sizes + self._tensor(name) + bytes_of(13, place) + number_of(14, EXTERNAL)
        self._weights += bytes_of(5, tensor)
        return name

    @staticmethod
    def _tensor(name: str) -> bytes:
        return number_of(2, FLOAT) + bytes_of(8, name.encode())

    def node(self, operator: str, *inputs: str, **attributes: int | list[int]) -> str:
        """Add an operation on earlier results, by the names they have."""
        self._count += 1
        name = f"x{self._count}"
        body = b"".join(bytes_of(1, source.encode()) for source in inputs)
        body += bytes_of(2, name.encode()) + bytes_of(4, operator.encode())
        for key, value in attributes.items():
            if isinstance(value, int):
                inner = number_of(3, value) + number_of(20, INT_ATTRIBUTE)
            else:
                inner = b"".join(number_of(8, source) for source in value)
                inner += number_of(20, INTS_ATTRIBUTE)
            body += bytes_of(5, bytes_of(1, key.encode()) + inner)
        self._nodes += bytes_of(1, body)
        return name

    def finish(self, output: str, shape: tuple[int, ...]) -> bytes:
        """Return the bytes of the model, which has one result."""
        graph = self._nodes + bytes_of(2, b"acqh") + self._weights
        graph += bytes_of(11, self._input) + bytes_of(12, value_info(output, shape))
        return number_of(1, IR_VERSION) + bytes_of(7, graph) + bytes_of(8, number_of(2, OPSET))


def value_info(name: str, shape: tuple[int, ...]) -> bytes:
    # Axes of any length have a name in place of a size; the first, of items, is one.
    sizes = b"".join(
        bytes_of(1, number_of(1, size) if size > 0 else bytes_of(2, b"n%d" % axis))
        for axis, size in enumerate((-1, *shape))
    )
    tensor = bytes_of(1, number_of(1, FLOAT) + bytes_of(2, sizes))
    return bytes_of(1, name.encode()) + bytes_of(2, tensor)


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_of(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def bytes_of(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


if __name__ == "__main__":
    main()
