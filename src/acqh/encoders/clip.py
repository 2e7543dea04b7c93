"""Images and texts in one space, by CLIP and its relatives: two ONNX files, run by ONNX Runtime.

Images and texts are prepared by the settings next to the networks, in one of two layouts: that of
transformers (``preprocessor_config.json``) or of OpenCLIP (``preprocess_cfg.json``).
"""

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh._core.files import parse_json
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.models import IMAGE_OUTPUTS, TEXT_OUTPUTS, ModelFiles, external_files, find_model
from acqh.encoders.network import Network, on_all_cores, session
from acqh.errors import InvalidInputError

# Networks take images of up to some 1,000 pixels per side, and texts of some 1,000 tokens.
_MAX_SIDE, _MAX_TOKENS = 4_096, 8_192
# Of the sides of an image that is resized whole and then cropped.
_MAX_RATIO = 16
_CLIP_TOKENS, _SIGLIP_TOKENS = 77, 64
# Pillow's numbers of filters, which transformers stores, by OpenCLIP's names.
_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file of settings; a file that does not exist has none."""
    try:
        settings = parse_json(path.read_bytes()) if path.is_file() else {}
    except ValueError as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise InvalidInputError(f"{path} must have a JSON object, not {settings!r:.40}")
    return settings


@dataclass(frozen=True, eq=False)
class Pixels:
    """Settings that turn images into arrays of pixels.

    `width` and `height`: of the array. `shortest_side`: images are resized to this side, then
    cropped in the middle; None squashes them. `scale`, `mean`, `std`: of the values.
    """

    width: int
    height: int
    shortest_side: int | None
    resample: int
    scale: float
    mean: Floats
    std: Floats
    round_half: Callable[[float], int] = int  # what becomes of half a pixel at the margin

    @classmethod
    def read(cls, path: Path) -> "Pixels":
        """Read the settings of one of the two layouts."""
        settings = read_settings(path)
        read = _openclip_pixels if path.name == "preprocess_cfg.json" else _transformers_pixels
        try:
            pixels = read(settings)
            size, shortest = (pixels.width, pixels.height), pixels.shortest_side
            sides = size if shortest is None else (*size, shortest)
            if not all(type(side) is int and 1 <= side <= _MAX_SIDE for side in sides):
                raise ValueError(f"sizes are integers from 1 to {_MAX_SIDE:,}, not {sides}")
            if max(size) > sides[-1] and shortest is not None:
                raise ValueError(f"images of {shortest} pixels cannot be cropped to {size}")
            if pixels.resample not in _FILTERS.values():
                raise ValueError(f"there is no filter {pixels.resample!r}")
            values = np.array([*pixels.mean, *pixels.std, pixels.scale])
            if not pixels.mean.shape == pixels.std.shape == (3,) or not np.isfinite(values).all():
                raise ValueError("mean and std must be three numbers each")
            if not pixels.std.all():
                raise ValueError("std must not be zero")
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise InvalidInputError(f"{path} has invalid settings: {error}") from error
        return pixels

    def of(self, image: Any) -> Floats:
        """Return the pixels of an RGB image, (1, 3, height, width)."""
        size = self.width, self.height
        if self.shortest_side is None:
            small = image.resize(size, self.resample)
        else:
            limit = _MAX_RATIO * min(image.size)
            if max(image.size) > limit:  # as wide as memory is large, or larger
                image = _cropped(image, tuple(min(side, limit) for side in image.size))
            scale = self.shortest_side, min(image.size)
            resized = image.resize(
                tuple(int(scale[0] * side / scale[1]) for side in image.size), self.resample
            )
            small = _cropped(resized, size, self.round_half)
        values = (np.asarray(small, np.float32) * np.float32(self.scale) - self.mean) / self.std
        return np.ascontiguousarray(values.transpose(2, 0, 1)[np.newaxis], np.float32)


def _cropped(image: Any, size: tuple[int, ...], round_half: Callable[[float], int] = int) -> Any:
    """Return the middle of an image."""
    left, top = (round_half((n - side) / 2) for n, side in zip(image.size, size, strict=True))
    return image.crop((left, top, left + size[0], top + size[1]))


def _openclip_pixels(settings: Mapping[str, Any]) -> Pixels:
    size = settings["size"]
    height, width = size if isinstance(size, list) else (size, size)
    mode = settings.get("resize_mode", "shortest")
    if mode not in ("shortest", "squash"):
        raise ValueError(f"resize_mode {mode!r} is not supported")
    mean, std = (np.array(settings[name], np.float32) for name in ("mean", "std"))
    shortest = min(height, width) if mode == "shortest" else None
    resample = _FILTERS[settings.get("interpolation", "bicubic")]
    return Pixels(width, height, shortest, resample, 1 / 255, mean, std, round)


def _transformers_pixels(settings: Mapping[str, Any]) -> Pixels:
    size, crop = settings["size"], settings.get("crop_size")
    is_cropped = bool(settings.get("do_center_crop", crop is not None))
    if not isinstance(size, dict):
        size = {"shortest_edge": size} if is_cropped else {"height": size, "width": size}
    if not isinstance(crop, dict):
        crop = {"height": crop, "width": crop}
    final = crop if is_cropped else size
    shortest = size.get("shortest_edge") if is_cropped else None
    if is_cropped and shortest is None:
        raise ValueError("only images resized by their shortest edge can be cropped")
    scale = settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 1.0
    mean, std = np.zeros(3, np.float32), np.ones(3, np.float32)
    if settings.get("do_normalize", True):
        mean, std = (np.array(settings[f"image_{name}"], np.float32) for name in ("mean", "std"))
    resample = settings.get("resample", _FILTERS["bicubic"])
    return Pixels(final["width"], final["height"], shortest, resample, scale, mean, std)


class Tokens:
    """Settings that turn texts into token ids.

    `path`: ``tokenizer.json``; its settings are in ``tokenizer_config.json`` next to it. `config`:
    settings of the model. `length`: number of tokens if the network takes no other.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], length: int | None) -> None:
        self._path = path
        settings = read_settings(path.with_name("tokenizer_config.json"))
        try:
            self._tokenizer = require("tokenizers").Tokenizer.from_file(str(path))
            self._apply(settings, config, length)
        except InvalidInputError:
            raise
        except Exception as error:  # the package raises Exception itself
            raise InvalidInputError(f"{path} is not a usable tokenizer: {error}") from error

    def _apply(
        self, settings: Mapping[str, Any], config: Mapping[str, Any], length: int | None
    ) -> None:
        openclip, transformers = config.get("text_cfg", {}), config.get("text_config")
        family = str(config.get("model_type", ""))
        cleaning = openclip.get("tokenizer_kwargs", {}).get("clean")
        is_siglip = family.startswith("siglip")
        self._replaces_underscores = cleaning == "canonicalize"
        self._drops_punctuation = self._replaces_underscores or str(
            settings.get("tokenizer_class", "")
        ).startswith("SiglipTokenizer")
        self._lowers = is_siglip or self._drops_punctuation
        if length is not None and length > _MAX_TOKENS:
            raise ValueError(f"the network takes {length:,} tokens; {_MAX_TOKENS:,} are supported")
        stated = (
            length,
            openclip.get("context_length"),
            (transformers or {}).get("max_position_embeddings"),
            # Tokenizers of SigLIP 2 state none, or that of another model.
            _SIGLIP_TOKENS if is_siglip else settings.get("model_max_length"),
            _CLIP_TOKENS,
        )
        limit = next(n for n in stated if isinstance(n, int) and 0 < n <= _MAX_TOKENS)
        self._tokenizer.enable_truncation(limit)
        pad = settings.get("pad_token")
        pad = pad.get("content") if isinstance(pad, dict) else pad
        padding = self._tokenizer.padding or {}
        number = self._tokenizer.token_to_id(pad) if pad else padding.get("pad_id")
        # Texts of CLIP need no padding: no token depends on those after it, and queries are short.
        if length is None and family == "clip" and transformers:
            self._tokenizer.no_padding()
        else:
            self._tokenizer.enable_padding(length=limit, pad_id=number or 0, pad_token=pad or "")

    def of(self, text: str) -> tuple[Array, Array]:
        """Return the numbers of a text's tokens and the attention mask, (1, n_tokens) each."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a text must be a string, got {type(text).__name__}")
        encoding = self._tokenizer.encode(self._clean(text))
        return np.array([encoding.ids], np.int64), np.array([encoding.attention_mask], np.int64)

    def _clean(self, text: str) -> str:
        if self._lowers:
            text = text.lower()
        if self._replaces_underscores:
            text = text.replace("_", " ")
        if self._drops_punctuation:
            text = " ".join(text.translate(_NO_PUNCTUATION).split())
        return text


_DTYPES = {"tensor(int32)": np.int32, "tensor(float16)": np.float16}


class _Clip(Network):
    """One of the two networks of a model; see its subclasses."""

    _state_axes: ClassVar = {"source_": str}
    _part: ClassVar[str]  # of the layout: the network
    _settings: ClassVar[str]  # and what its items need
    _outputs: ClassVar[tuple[str, ...]]
    _example: Any  # an item to encode if the network does not state its width
    _preparation: Any  # turns an item into arrays
    batch_size = 64

    def __init__(self, model: str) -> None:
        self.model = model

    @cached_property
    def _files(self) -> ModelFiles:
        return find_model(vars(self).get("source_", self.model), fetch=self._may_fetch)

    @cached_property
    def source_(self) -> str:
        """Folder, or name and revision, of the model that is used."""
        return self._files.source

    @cached_property
    def n_features_out(self) -> int:
        """Number of features: the width of the network's output."""
        self._load_once()
        shape = self._output.shape
        width = shape[-1] if shape else None
        return width if isinstance(width, int) else self.transform([self._example]).shape[1]

    def check_installed(self) -> None:
        """Raise an error unless packages and model are on this machine; download the model."""
        super().check_installed()
        self._files  # noqa: B018

    def _weights_fingerprint(self) -> str:
        network, settings = self._files.path(self._part), self._files.path(self._settings)
        others = [settings, settings.with_name("tokenizer_config.json")]
        others += [self._files.folder / "config.json"]
        others += [network.parent / name for name in external_files(network)]
        return self._hash_files(path for path in (network, *others) if path.is_file())

    def _load(self) -> Any:
        path = self._files.path(self._part)
        try:
            return session(str(path))
        except Exception as error:  # ONNX Runtime has errors of many types
            raise InvalidInputError(f"{path} is not a network that can be run: {error}") from error

    @cached_property
    def _output(self) -> Any:
        """The output with a usual name, or else the first."""
        outputs = {output.name: output for output in self._network.get_outputs()}
        name = next((name for name in self._outputs if name in outputs), next(iter(outputs)))
        return outputs[name]

    def _forward(self, batch: list[Any], start: int) -> Any:
        self._preparation  # noqa: B018 - read once, not in each thread
        # One item at a time: networks of 8 bits round by the largest value of a batch, and some
        # take no more.
        rows = on_all_cores(lambda item: self._row(*item), enumerate(batch, start))
        return unit_rows(np.concatenate(rows))

    def _row(self, position: int, item: Any) -> Floats:
        path, name = self._files.path(self._part), self._output.name
        tensors = self._network.get_inputs()
        inputs = self._inputs(item, position, tensors)
        for tensor in tensors:
            inputs[tensor.name] = inputs[tensor.name].astype(
                _DTYPES.get(tensor.type, inputs[tensor.name].dtype), copy=False
            )
        try:
            row = np.asarray(self._network.run([name], inputs)[0], dtype=np.float32)
        except Exception as error:
            raise InvalidInputError(f"{path} cannot be run: {error}") from error
        if row.ndim != 2 or len(row) != 1 or not row.size:
            raise InvalidInputError(
                f"{path} returns {name} of shape {row.shape}, not one row per item; export it with "
                "its projection"
            )
        if not np.isfinite(row).all():
            raise InvalidInputError(f"{path} returns numbers that are not finite")
        return row

    def _inputs(self, item: Any, position: int, tensors: list[Any]) -> dict[str, Array]:
        raise NotImplementedError

    def __repr__(self) -> str:
        source = vars(self).get("source_")
        return f"{type(self).__name__}({source!r})" if source else super().__repr__()

    def __getstate__(self) -> dict[str, Any]:
        stored = {"_may_fetch", "fingerprint_", "source_", *self.get_params()}
        return {name: value for name, value in vars(self).items() if name in stored}


class ClipImages(_Clip):
    """Encode images with CLIP, SigLIP or the like, in one space with `ClipTexts`.

    Rows have unit length. Needs the extra ``hub``.

    Parameters
    ----------
    model : str
        A folder; a short name such as ``"clip"`` or ``"siglip2"`` (``acqh encoders`` lists them);
        or ``"OWNER/NAME"`` on the Hugging Face Hub. ``@REVISION`` and ``:VARIANT`` may follow, such
        as ``"siglip:quantized"``. `fit` downloads a model that is not on this machine.
    max_pixels : int, default 64,000,000
        Larger images are rejected before they are decoded.

    Attributes
    ----------
    source_ : str
        The absolute folder, or name and revision, of the model that is used.

    Examples
    --------
    >>> from acqh.encoders import ClipImages
    >>> ClipImages("siglip:quantized")
    ClipImages(model='siglip:quantized')
    """

    _part, _settings, _outputs = "image", "pixels", IMAGE_OUTPUTS
    _packages: ClassVar = ("onnxruntime", "PIL.Image")

    def __init__(self, model: str, *, max_pixels: int = MAX_PIXELS) -> None:
        super().__init__(model)
        self.max_pixels = max_pixels

    @property
    def _example(self) -> Any:
        return require("PIL.Image").new("RGB", (8, 8))

    @cached_property
    def _preparation(self) -> Pixels:
        return Pixels.read(self._files.path("pixels"))

    def _inputs(self, item: ImageLike, position: int, tensors: list[Any]) -> dict[str, Array]:
        if len(tensors) != 1:
            names = ", ".join(tensor.name for tensor in tensors)
            raise InvalidInputError(
                f"{self._files.path(self._part)} has {len(tensors)} inputs ({names}); an image "
                "network takes one: the pixels"
            )
        return {tensors[0].name: self._preparation.of(read_image(item, position, self.max_pixels))}


class ClipTexts(_Clip):
    """Encode texts with CLIP, SigLIP or the like, in one space with `ClipImages`.

    Rows have unit length. Long texts are cut off. Needs the extra ``hub``.

    Parameters
    ----------
    model : str
        As of `ClipImages`.

    Attributes
    ----------
    source_ : str
        The absolute folder, or name and revision, of the model that is used.

    Examples
    --------
    >>> from acqh.encoders import ClipTexts
    >>> ClipTexts("clip")
    ClipTexts(model='clip')
    """

    _part, _settings, _outputs = "text", "tokenizer", TEXT_OUTPUTS
    _packages: ClassVar = ("onnxruntime", "tokenizers")
    _example = "a"

    @cached_property
    def _preparation(self) -> Tokens:
        shapes = [tensor.shape for tensor in self._network.get_inputs() if tensor.shape]
        length = shapes[0][-1] if shapes else None
        config = read_settings(self._files.folder / "config.json")
        is_fixed = isinstance(length, int) and length > 0
        return Tokens(self._files.path("tokenizer"), config, length if is_fixed else None)

    def _inputs(self, item: str, position: int, tensors: list[Any]) -> dict[str, Array]:  # noqa: ARG002
        ids, mask = self._preparation.of(item)
        return {
            tensor.name: mask
            if "mask" in tensor.name
            else np.zeros_like(ids)
            if "type" in tensor.name
            else ids
            for tensor in tensors
        }
