"""Images and texts in one space, by two networks in ONNX files that a user names."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh._core.files import parse_json
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.named import fold_text
from acqh.encoders.network import Network, session
from acqh.errors import InvalidInputError

_IMAGES = ("image.onnx", "visual.onnx", "vision_model.onnx")
_TEXTS = ("text.onnx", "textual.onnx", "text_model.onnx")
_TOKENS, _PIXELS = "tokenizer.json", "preprocessor_config.json"
# What CLIP was trained with; a file next to the networks may override it.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_SIDE, _LONGEST = 224, 77
# Networks take images of up to some 1,000 pixels per side, and texts of some 1,000 tokens.
_MAX_SIDE, _MAX_TOKENS = 4_096, 8_192


class _Onnx(Network):
    """A folder with two networks; see its subclasses."""

    _names: ClassVar[tuple[str, ...]]
    _beside: ClassVar[str]
    _outputs: ClassVar[tuple[str, ...]]
    _example: Any  # an item to encode where the network does not state its width

    def __init__(self, folder: str, *, batch_size: int = 32) -> None:
        self.folder = folder
        self.batch_size = batch_size

    @cached_property
    def n_features_out(self) -> int:
        """Number of features: the width of the network's output."""
        self._load_once()
        output = self._output()
        width = output.shape[-1] if output.shape else None
        return width if isinstance(width, int) else self.transform([self._example]).shape[1]

    def _model_path(self) -> Path:
        folder = Path(self.folder)
        for place in (folder, folder / "onnx"):
            for name in self._names:
                if (place / name).is_file():
                    return place / name
        raise InvalidInputError(f"{folder} holds none of {', '.join(self._names)}")

    def _weights_fingerprint(self) -> str:
        model, beside = self._model_path(), Path(self.folder) / self._beside
        files, content = [model, beside], model.read_bytes()
        if b"location" in content:  # of weights that are in other files of the folder
            others = sorted(set(model.parent.rglob("*")).difference(files))
            files += [file for file in others if os.fsencode(file.name) in content]
        return self._hash_files(file for file in files if file.is_file())

    def _load(self) -> Any:
        path = self._model_path()
        try:
            return session(str(path))
        except Exception as error:  # ONNX Runtime has errors of many kinds
            raise InvalidInputError(f"{path} is no network to be run: {error}") from error

    def _output(self) -> Any:
        """Return the output with a usual name, or else the first."""
        outputs = {output.name: output for output in self._network.get_outputs()}
        name = next((output for output in self._outputs if output in outputs), next(iter(outputs)))
        return outputs[name]

    def _run(self, inputs: dict[str, Any], n_items: int) -> Floats:
        """Return rows of length one."""
        name = self._output().name
        try:
            features = np.asarray(self._network.run([name], inputs)[0], dtype=np.float32)
        except Exception as error:
            raise InvalidInputError(f"{self._model_path()} cannot be run: {error}") from error
        if features.ndim != 2 or len(features) != n_items or not features.size:
            raise InvalidInputError(
                f"{self._model_path()} returns {name} of shape {features.shape}, "
                f"not one row for each of {n_items} items; export it with its projection and a "
                "dynamic batch size"
            )
        return np.asarray(unit_rows(features))

    def __getstate__(self) -> dict[str, Any]:
        lazy = ("_network", "_tokens", "_pixels", "n_features_out")
        return {name: value for name, value in vars(self).items() if name not in lazy}


class OnnxImages(_Onnx):
    """Encode images with the image network of a folder, rows of length one; see `OnnxTexts`.

    Parameters
    ----------
    folder : str
        With ``image.onnx`` (or ``visual.onnx``, ``vision_model.onnx``, also in a folder ``onnx``)
        and, if they are not those of CLIP, size, mean and deviation of the pixels in
        ``preprocessor_config.json``.
    batch_size : int, default 32
    max_pixels : int, default 64,000,000
        Larger images are rejected before they are decoded.

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
        """Side of the square that images are resized to; mean and deviation of its colours."""
        path = Path(self.folder) / _PIXELS
        try:
            settings = parse_json(path.read_bytes()) if path.is_file() else {}
            side = settings.get("crop_size", settings.get("size", _SIDE))
            if isinstance(side, dict):
                side = side.get("height", side.get("shortest_edge"))
            mean = np.array(settings.get("image_mean", _MEAN), np.float32)
            std = np.array(settings.get("image_std", _STD), np.float32)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise InvalidInputError(f"{path} cannot be read: {error}") from error
        if type(side) is not int or not 1 <= side <= _MAX_SIDE:
            raise InvalidInputError(
                f"{path} gives the size {side!r:.40}; give a whole number from 1 to {_MAX_SIDE:,}"
            )
        if not mean.shape == std.shape == (3,) or not np.isfinite([*mean, *std]).all():
            raise InvalidInputError(
                f"{path} gives image_mean {mean} and image_std {std}; give three numbers each"
            )
        if not std.all():
            raise InvalidInputError(f"{path} gives image_std {std}; zero cannot be divided by")
        return side, mean, std

    def _forward(self, batch: list[ImageLike], start: int) -> Any:
        side, mean, std = self._pixels
        images = [
            read_image(image, start + row, self.max_pixels) for row, image in enumerate(batch)
        ]
        fit, bicubic = require("PIL.ImageOps").fit, require("PIL.Image").Resampling.BICUBIC
        rows = [np.asarray(fit(image, (side, side), bicubic), np.float32) / 255 for image in images]
        inputs = ((np.stack(rows) - mean) / std).transpose(0, 3, 1, 2)
        names = [image.name for image in self._network.get_inputs()]
        if len(names) != 1:
            raise InvalidInputError(
                f"{self._model_path()} has {len(names)} inputs ({', '.join(names)}); an image "
                "network takes one: the pixels"
            )
        return self._run({names[0]: np.ascontiguousarray(inputs)}, len(batch))


class OnnxTexts(_Onnx):
    """Encode texts with the text network of a folder, in one space with `OnnxImages`.

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
        model_inputs = {tensor.name: tensor for tensor in self._network.get_inputs()}
        ids, mask = self._token_ids(batch, [tensor.shape for tensor in model_inputs.values()])
        inputs = {
            name: (mask if "mask" in name else np.zeros_like(ids) if "type" in name else ids)
            for name in model_inputs
        }
        for name, tensor in model_inputs.items():
            if tensor.type == "tensor(int32)":
                inputs[name] = inputs[name].astype(np.int32)
        return self._run(inputs, len(batch))

    def _token_ids(self, batch: list[str], shapes: list[list[Any]]) -> tuple[Array, Array]:
        """Return the numbers of tokens and which of them are there, (n_items, n_tokens) each."""
        # Where the network takes one length alone, texts are filled up to it.
        length = shapes[0][-1] if shapes and shapes[0] else None
        length = length if isinstance(length, int) and length > 0 else None
        if length is not None and length > _MAX_TOKENS:
            raise InvalidInputError(
                f"{self._model_path()} takes texts of {length:,} tokens; {_MAX_TOKENS:,} are "
                "supported"
            )
        padding = self._tokens.padding or {}
        try:
            self._tokens.enable_truncation(length or _LONGEST)
            self._tokens.enable_padding(
                length=length,
                pad_id=padding.get("pad_id", 0),
                pad_token=padding.get("pad_token", "[PAD]"),
            )
            encodings = self._tokens.encode_batch(batch)
        except Exception as error:  # that package raises Exception itself
            path = Path(self.folder) / _TOKENS
            raise InvalidInputError(f"{path} cannot be used: {error}") from error
        ids = np.array([encoding.ids for encoding in encodings], np.int64)
        return ids, np.array([encoding.attention_mask for encoding in encodings], np.int64)
