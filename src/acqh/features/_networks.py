"""Encoders that are neural networks trained by others; CLIP and its kin.

Weights are not part of what is saved, only a fingerprint of them: features of other weights
would not fit a model, so other weights are refused.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from acqh._core.arrays import Array, Floats, check_positive_int
from acqh._core.optional import require
from acqh.errors import InvalidInputError
from acqh.features._images import ImageLike, read_image

_FINGERPRINT = "fingerprint"
_CHUNK_BYTES = 1 << 22


class NetworkEncoder(TransformerMixin, BaseEstimator):
    """What the encoders that run a network share: batches, and a check of the weights."""

    batch_size: int
    # A stored encoder may be anybody's: it makes nobody fetch anything.
    _may_fetch: bool = True
    _packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")

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
        raw : iterable of images or texts, (n_items,)

        Returns
        -------
        (n_items, n_features) float32

        Raises
        ------
        ImageError
            An image cannot be read or is too large; the message names it.
        InvalidInputError
            The weights are not those that were fitted with.
        MissingExtraError
            A package is not installed.
        """
        self._load_once()
        found = [
            np.asarray(self._forward(batch, start), dtype=np.float32)
            for start, batch in _batches(raw, self.batch_size)
        ]
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

    def check_installed(self) -> None:
        """Raise MissingExtraError unless the packages that are needed are installed."""
        for package in self._packages:
            require(package)

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
                "build the collection again"
            )
        self._network = self._load()

    def _weights_fingerprint(self) -> bytes:
        raise NotImplementedError

    @staticmethod
    def _hash_files(paths: Iterable[Path]) -> bytes:
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while content := file.read(_CHUNK_BYTES):
                    digest.update(content)
        return digest.digest()

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


# How transformers calls the models of images and texts in one space that are known here.
_FAMILIES = ("clip", "siglip", "siglip2")


class _Clip(NetworkEncoder):
    """A CLIP or SigLIP model of the package transformers; see its subclasses."""

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
        return self._hash_files(files)

    def _load(self) -> Any:
        transformers = require("transformers")
        folder = str(self._folder())
        try:
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
            if config.model_type not in _FAMILIES:
                raise ValueError(f"it is a {config.model_type}, not one of {', '.join(_FAMILIES)}")
            network = transformers.AutoModel.from_pretrained(
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
        config = self._network[0].config
        return int(getattr(config, "projection_dim", None) or config.vision_config.hidden_size)

    def _forward(self, batch: list[Any], start: int) -> Any:
        torch = require("torch")
        with torch.inference_mode():
            found = self._features(batch, start)
            # Newer releases return the pooled features inside an output object.
            features = getattr(found, "pooler_output", found)
            return torch.nn.functional.normalize(features, dim=-1).numpy()

    def _features(self, batch: list[Any], start: int) -> Any:
        raise NotImplementedError


class ClipImages(_Clip):
    """Describe images by CLIP or SigLIP, rows of length one, in one space with `ClipTexts`.

    Needs the extras ``images`` and ``clip``.

    Parameters
    ----------
    model : str
        A folder as transformers saves it; or, where there is a network, a model's name.
    batch_size : int, default 32
    max_pixels : int, default 64,000,000
        Larger images are refused before they are decoded.

    Examples
    --------
    >>> from acqh.features import ClipImages
    >>> ClipImages("models/clip-vit-base").get_params()["batch_size"]
    32
    """

    def _load_tools(self, transformers: Any, folder: str) -> Any:
        return transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True)

    def _features(self, batch: list[ImageLike], start: int) -> Any:
        network, processor = self._network
        images = [read_image(each, start + row, self.max_pixels) for row, each in enumerate(batch)]
        inputs = processor(images=images, return_tensors="pt")
        return network.get_image_features(**inputs)


class ClipTexts(_Clip):
    """Describe texts by CLIP or SigLIP, rows of length one, in one space with `ClipImages`.

    What is too long for the model is cut off.

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

    def _features(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        network, tokenizer = self._network
        longest = network.config.text_config.max_position_embeddings
        # SigLIP was trained on texts that are filled up to one length.
        padding = True if network.config.model_type == "clip" else "max_length"
        inputs = tokenizer(
            batch, padding=padding, truncation=True, max_length=longest, return_tensors="pt"
        )
        return network.get_text_features(**inputs)


def _batches(raw: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    iterator, start = iter(raw), 0
    while batch := list(islice(iterator, size)):
        yield start, batch
        start += len(batch)
