"""Images and texts in one space, by CLIP and its relatives: two ONNX files, run by ONNX Runtime."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh._core.imports import require
from acqh.encoders.images import MAX_PIXELS, ImageLike, read_image
from acqh.encoders.models import IMAGE_OUTPUTS, TEXT_OUTPUTS, ModelFiles, external_files, find_model
from acqh.encoders.network import Network, on_all_cores, session
from acqh.encoders.preprocess import Pixels, Tokens, read_settings
from acqh.errors import InvalidInputError

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
