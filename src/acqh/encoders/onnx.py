"""Networks run by ONNX Runtime: a graph written by hand, a session of one thread, many images.

A graph of convolutions takes five kinds of protobuf message, so it is written here rather than by
the package ``onnx``, which would bring 40 MB for it. Field numbers are those of ``onnx.proto``,
which never change.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.imports import require
from acqh._core.runtime import default_threads

_IR_VERSION, _OPSET, _FLOAT = 8, 13, 1
_INT_ATTRIBUTE, _INTS_ATTRIBUTE = 2, 7
T = TypeVar("T")
R = TypeVar("R")


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


def session(model: bytes | str) -> Any:
    """Return an ONNX Runtime session on the processor that uses one thread for each call."""
    runtime = require("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def on_all_cores(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results in order, as many at a time as there are cores to use.

    Examples
    --------
    >>> on_all_cores(len, ["a", "bc"])
    [1, 2]
    """
    items = list(items)
    n_threads = min(default_threads(), len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


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
