"""EfficientNet-Lite0 without torch: two graphs and their weights, run by ONNX Runtime.

One set of weights is fine-tuned on captions for features, the other is the original one for
classes. ``tools/write_image_network.py`` writes the graphs.
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

_NAME, _CLASSES_NAME = "efficientnet", "imagenet"
_WIDTH, _N_CLASSES = 1280, 1000


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
        folder = Path(str(files("acqh.encoders")))
        return self._hash_files(folder / f"{name}.npz" for name in self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return (_NAME, _CLASSES_NAME) if self.classes else (_NAME,)

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
        return read_weights(_NAME)

    def _load(self) -> Any:
        graphs = ((files("acqh.encoders") / f"{name}.onnx").read_bytes() for name in self._names)
        weights = map(read_weights, self._names)
        return [session(*network) for network in zip(graphs, weights, strict=True)]

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


def read_weights(name: str) -> dict[str, Floats]:
    """Return the weights of a file; some are bytes, with a scale for every channel of outputs."""
    packed = BytesIO((files("acqh.encoders") / f"{name}.npz").read_bytes())
    with np.load(packed, allow_pickle=False) as stored:
        weights: dict[str, Array] = {name: stored[name].astype(np.float32) for name in stored.files}
    for scaled in [name for name in weights if name.endswith(".scale")]:
        kernel = weights[scaled.replace(".scale", ".weight")]
        kernel *= weights.pop(scaled).reshape(-1, *[1] * (kernel.ndim - 1))
    return weights
