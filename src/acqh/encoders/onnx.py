"""Images and texts in one space, by two networks in ONNX files that a user names."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats, unit_rows
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.named import fold_text
from acqh.encoders.network import Network, session
from acqh.errors import InvalidInputError

_IMAGES = ("image.onnx", "visual.onnx", "vision_model.onnx")
_TEXTS = ("text.onnx", "textual.onnx", "text_model.onnx")
_TOKENS, _PIXELS = "tokenizer.json", "preprocessor_config.json"
# What CLIP was trained with; a file beside the networks may say otherwise.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_SIDE, _LONGEST = 224, 77


class _Onnx(Network):
    """A folder with two networks; see its subclasses."""

    _names: ClassVar[tuple[str, ...]]
    _beside: ClassVar[str]
    _outputs: ClassVar[tuple[str, ...]]
    _example: Any  # an item, of which one row is made to see how long rows are

    def __init__(self, folder: str, *, batch_size: int = 32) -> None:
        self.folder = folder
        self.batch_size = batch_size

    @property
    def n_features_out(self) -> int:
        """Number of features, which the network says."""
        return int(self.transform([self._example]).shape[1])

    def _model_path(self) -> Path:
        folder = Path(self.folder)
        for place in (folder, folder / "onnx"):
            for name in self._names:
                if (place / name).is_file():
                    return place / name
        raise InvalidInputError(f"{folder} holds none of {', '.join(self._names)}")

    def _weights_fingerprint(self) -> str:
        beside = Path(self.folder) / self._beside
        return self._hash_files([self._model_path(), *([beside] if beside.is_file() else [])])

    def _load(self) -> Any:
        path = self._model_path()
        try:
            return session(str(path))
        except Exception as error:  # ONNX Runtime has errors of many kinds
            raise InvalidInputError(f"{path} is no network to be run: {error}") from error

    def _run(self, inputs: dict[str, Any]) -> Floats:
        """Return rows of length one: the output that is known by its name, or else the first."""
        outputs = [each.name for each in self._network.get_outputs()]
        name = next((each for each in self._outputs if each in outputs), outputs[0])
        try:
            found = np.asarray(self._network.run([name], inputs)[0], dtype=np.float32)
        except Exception as error:
            raise InvalidInputError(f"{self._model_path()} cannot be run: {error}") from error
        if found.ndim != 2:
            raise InvalidInputError(
                f"{self._model_path()} gives {name} of the shape {found.shape}; one row of numbers "
                "per item is needed: export it with its projection"
            )
        return np.asarray(unit_rows(found))


class OnnxImages(_Onnx):
    """Describe images by the image network of a folder, rows of length one; see `OnnxTexts`.

    Parameters
    ----------
    folder : str
        With ``image.onnx`` (or ``visual.onnx``, ``vision_model.onnx``, also in a folder ``onnx``)
        and, if they are not those of CLIP, size, mean and deviation of the pixels in
        ``preprocessor_config.json``.
    batch_size : int, default 32
    max_pixels : int, default 64,000,000
        Larger images are refused before they are decoded.

    Examples
    --------
    >>> from acqh.encoders.onnx import OnnxImages
    >>> OnnxImages("models/clip").get_params()["batch_size"]
    32
    """

    _names = _IMAGES
    _beside = _PIXELS
    _packages: ClassVar = ("onnxruntime", "PIL.Image")
    _outputs = ("image_embeds", "image_embedding", "embedding", "pooler_output")

    def __init__(self, folder: str, *, batch_size: int = 32, max_pixels: int = MAX_PIXELS) -> None:
        super().__init__(folder, batch_size=batch_size)
        self.max_pixels = max_pixels

    @property
    def _example(self) -> Any:
        return require("PIL.Image").new("RGB", (8, 8))

    @cached_property
    def _pixels(self) -> tuple[int, Floats, Floats]:
        path = Path(self.folder) / _PIXELS
        try:
            said = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            side = said.get("crop_size", said.get("size", _SIDE))
            if isinstance(side, dict):
                side = side.get("height", side.get("shortest_edge"))
            mean = np.array(said.get("image_mean", _MEAN), np.float32)
            return int(side), mean, np.array(said.get("image_std", _STD), np.float32)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"{path} does not say size, mean and deviation: {error}"
            ) from error

    def _forward(self, batch: list[ImageLike], start: int) -> Any:
        side, mean, std = self._pixels
        images = [read_image(each, start + row, self.max_pixels) for row, each in enumerate(batch)]
        fit, bicubic = require("PIL.ImageOps").fit, require("PIL.Image").Resampling.BICUBIC
        rows = [np.asarray(fit(each, (side, side), bicubic), np.float32) / 255 for each in images]
        inputs = ((np.stack(rows) - mean) / std).transpose(0, 3, 1, 2)
        (given,) = self._network.get_inputs()
        return self._run({given.name: np.ascontiguousarray(inputs)})


class OnnxTexts(_Onnx):
    """Describe texts by the text network of a folder, in one space with `OnnxImages`.

    Any pair of networks that were trained together will do: CLIP, SigLIP, MobileCLIP. What is too
    long is cut off. Needs the extra ``onnx``.

    Parameters
    ----------
    folder : str
        With ``text.onnx`` (or ``textual.onnx``, ``text_model.onnx``, also in a folder ``onnx``) and
        ``tokenizer.json``, as the package tokenizers saves it.
    batch_size : int, default 32

    Examples
    --------
    >>> from acqh.encoders.onnx import OnnxTexts
    >>> OnnxTexts("models/clip").get_params()["batch_size"]
    32
    """

    _names = _TEXTS
    _beside = _TOKENS
    _packages: ClassVar = ("onnxruntime", "tokenizers")
    _outputs = ("text_embeds", "text_embedding", "embedding", "pooler_output")
    _example = "a"

    @cached_property
    def _tokens(self) -> Any:
        path = Path(self.folder) / _TOKENS
        try:
            tokens = require("tokenizers").Tokenizer.from_file(str(path))
        except Exception as error:  # that package raises Exception itself
            raise InvalidInputError(f"{path} is no tokenizer: {error}") from error
        return tokens

    def _forward(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        for text in batch:
            fold_text(text)
        given = {each.name: each for each in self._network.get_inputs()}
        # Where the network takes one length alone, texts are filled up to it.
        said = next(iter(given.values())).shape[-1]
        length = said if isinstance(said, int) else None
        self._tokens.enable_truncation(length or _LONGEST)
        padding = self._tokens.padding or {}
        self._tokens.enable_padding(
            length=length,
            pad_id=padding.get("pad_id", 0),
            pad_token=padding.get("pad_token", "[PAD]"),
        )
        found = self._tokens.encode_batch(batch)
        ids = np.array([each.ids for each in found], np.int64)
        mask = np.array([each.attention_mask for each in found], np.int64)
        inputs = {
            name: (mask if "mask" in name else np.zeros_like(ids) if "type" in name else ids)
            for name in given
        }
        for name, each in given.items():
            if each.type == "tensor(int32)":
                inputs[name] = inputs[name].astype(np.int32)
        return self._run(inputs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_tokens"}
