"""EfficientNet-Lite0 without torch: its weights read as numbers, its graph run by ONNX Runtime.

Two sets of weights: fine-tuned on captions for features, and the original ones for classes.

The graph takes five kinds of protobuf message, so it is written here rather than by the package
``onnx``, which would bring 40 MB for it. Field numbers are those of ``onnx.proto``, which never
change.
"""

from collections.abc import Iterable
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Array, Floats, check_positive_int
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.network import Network, on_all_cores, session
from acqh.errors import InvalidInputError

_FILE, _CLASSES_FILE = "efficientnet.npz", "imagenet.npz"
_WIDTH, _N_CLASSES = 1280, 1000
# Groups of blocks: how many, and the stride of the first.
BLOCKS = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))


class EfficientNetLite0(Network):
    """Encode images by the last layer of EfficientNet-Lite0, trained on ImageNet and captions.

    The class probabilities of the original network, trained on ImageNet alone, follow. The weights
    of both are part of this package. "The built-in image-text model" in the documentation lists
    their training data. Needs the extra ``images``. Every image takes one thread, and as
    many images are encoded at a time as there are cores.

    Parameters
    ----------
    size : int, default 224
        Images are resized to a square of this many pixels per side; a multiple of 32.
    batch_size : int, default 32
        Images that are held in memory at a time.
    max_pixels : int, default 64,000,000
        Larger images are rejected before they are decoded.
    classes : bool, default True
        Whether class probabilities are appended; without them an image takes half the time.

    Examples
    --------
    >>> from acqh.encoders import EfficientNetLite0
    >>> EfficientNetLite0().n_features_out, EfficientNetLite0(classes=False).n_features_out
    (2280, 1280)
    """

    _packages: ClassVar = ("onnxruntime", "PIL.Image")
    _is_older = False

    def __init__(
        self,
        size: int = 224,
        *,
        batch_size: int = 32,
        max_pixels: int = MAX_PIXELS,
        classes: bool = True,
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.max_pixels = max_pixels
        self.classes = classes

    @property
    def n_features_out(self) -> int:
        """Number of features an image gets."""
        return _WIDTH + _N_CLASSES if self.classes else _WIDTH

    def _weights_fingerprint(self) -> str:
        if check_positive_int(self.size, "size", minimum=32) % 32:
            raise InvalidInputError(f"size must be a multiple of 32, got {self.size}")
        names = (_FILE, _CLASSES_FILE) if self.classes else (_FILE,)
        return self._hash_files(Path(str(files("acqh.encoders") / name)) for name in names)

    def fit(self, raw: Iterable[Any], y: Any = None) -> Self:
        """Note which weights are used; nothing is learnt.

        Parameters
        ----------
        raw : ignored
        y : ignored

        Returns
        -------
        self
        """
        if self._is_older:
            self.classes, self._is_older = True, False
            vars(self).pop("_network", None)
        return super().fit(raw, y)

    def _restored(self) -> None:
        super()._restored()
        # Before version 5 of the built-in model there were no class probabilities. There are, once
        # the encoder is fitted again.
        without = EfficientNetLite0(self.size, classes=False)
        if self.classes and self.fingerprint_ == without.fingerprint_:
            self.classes, self._is_older = False, True

    def folded_weights(self) -> dict[str, Floats]:
        """Return kernels and biases of all convolutions, batch normalisation folded in.

        Returns
        -------
        dict of str to ndarray
            For every convolution, by its name, ``.weight`` and ``.bias``.
        """
        return _folded(_FILE)

    def _load(self) -> Any:
        networks = [session(_network(self.folded_weights()))]
        return [*networks, session(_network(_folded(_CLASSES_FILE)))] if self.classes else networks

    def _forward(self, batch: list[ImageLike], start: int) -> Any:
        def encode(numbered: tuple[int, ImageLike]) -> Floats:
            row, raw = numbered
            image = read_image(raw, start + row, self.max_pixels)
            return self._encode(image)

        return np.concatenate(on_all_cores(encode, enumerate(batch)))

    def _encode(self, image: Any) -> Floats:
        bicubic = require("PIL.Image").Resampling.BICUBIC
        pixels = np.asarray(image.resize((self.size, self.size), bicubic), dtype=np.float32)
        # The range these weights were trained with.
        inputs = ((pixels - 127) / 128).transpose(2, 0, 1)[np.newaxis]
        feed = {"pixels": np.ascontiguousarray(inputs)}
        return np.hstack([network.run(None, feed)[0] for network in self._network])


def _folded(name: str) -> dict[str, Floats]:
    """Return the weights of a file; some are bytes, with a scale for every channel of outputs."""
    packed = BytesIO((files("acqh.encoders") / name).read_bytes())
    with np.load(packed, allow_pickle=False) as stored:
        weights: dict[str, Array] = {name: stored[name].astype(np.float32) for name in stored.files}
    for scaled in [name for name in weights if name.endswith(".scale")]:
        kernel = weights[scaled.replace(".scale", ".weight")]
        kernel *= weights.pop(scaled).reshape(-1, *[1] * (kernel.ndim - 1))
    return weights


def _network(weights: dict[str, Array]) -> bytes:
    """Return the graph from pixels, (n, 3, side, side), to the means of the last layer.

    With a classifier among the weights: to class probabilities.
    """
    graph = Graph("pixels", (3, -1, -1))
    limits = graph.constant(np.array(0.0)), graph.constant(np.array(6.0))

    def layer(x: str, conv: str, *, stride: int = 1, active: bool = True) -> str:
        kernel, bias = weights[f"{conv}.weight"], weights[f"{conv}.bias"]
        side, groups = kernel.shape[2], kernel.shape[0] if kernel.shape[1] == 1 else 1
        # A stride of two over an even side needs one row less of zeros before than after.
        before, after = (side - 1) // 2 - (stride - 1), side - 1 - (side - 1) // 2
        x = graph.node(
            "Conv",
            x,
            graph.constant(kernel),
            graph.constant(bias),
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
        return graph.finish(means, (_WIDTH,))
    kernel, bias = (graph.constant(weights[f"classifier.{part}"]) for part in ("weight", "bias"))
    logits = graph.node("Gemm", means, kernel, bias, transB=1)
    return graph.finish(graph.node("Softmax", logits), (_N_CLASSES,))


# The graph: what ONNX calls things.
_IR_VERSION, _OPSET, _FLOAT = 8, 13, 1
_INT_ATTRIBUTE, _INTS_ATTRIBUTE = 2, 7


class Graph:
    """A network under construction; number call adds one node and returns the name of its result.

    Examples
    --------
    >>> graph = Graph("pixels", (3, 8, 8))
    >>> name = graph.node("Relu", "pixels")
    >>> len(graph.finish(name, (3, 8, 8))) > 0
    True
    """

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._input = _value_info(name, shape)
        self._nodes = b""
        self._weights = b""
        self._count = 0

    def constant(self, array: Floats) -> str:
        """Add weights."""
        self._count += 1
        name = f"w{self._count}"
        little = np.asarray(array, dtype="<f4")
        dims = b"".join(_number(1, size) for size in little.shape)
        body = dims + _number(2, _FLOAT) + _bytes(8, name.encode()) + _bytes(9, little.tobytes())
        self._weights += _bytes(5, body)
        return name

    def node(self, operator: str, *inputs: str, **attributes: int | list[int]) -> str:
        """Add an operation on earlier results, by the names they have."""
        self._count += 1
        name = f"x{self._count}"
        body = b"".join(_bytes(1, source.encode()) for source in inputs) + _bytes(2, name.encode())
        body += _bytes(4, operator.encode())
        for key, value in attributes.items():
            if isinstance(value, int):
                inner = _number(3, value) + _number(20, _INT_ATTRIBUTE)
            else:
                inner = b"".join(_number(8, source) for source in value) + _number(
                    20, _INTS_ATTRIBUTE
                )
            body += _bytes(5, _bytes(1, key.encode()) + inner)
        self._nodes += _bytes(1, body)
        return name

    def finish(self, output: str, shape: tuple[int, ...]) -> bytes:
        """Return the bytes of the model, which has one result."""
        graph = self._nodes + _bytes(2, b"acqh") + self._weights
        graph += _bytes(11, self._input) + _bytes(12, _value_info(output, shape))
        return _number(1, _IR_VERSION) + _bytes(7, graph) + _bytes(8, _number(2, _OPSET))


def _value_info(name: str, shape: tuple[int, ...]) -> bytes:
    # Axes of any length have a name in place of a size; the first, of items, is one.
    sizes = b"".join(
        _bytes(1, _number(1, size) if size > 0 else _bytes(2, b"n%d" % axis))
        for axis, size in enumerate((-1, *shape))
    )
    tensor = _bytes(1, _number(1, _FLOAT) + _bytes(2, sizes))
    return _bytes(1, name.encode()) + _bytes(2, tensor)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
