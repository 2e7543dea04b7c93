"""Images and texts in one space, by CLIP or SigLIP of the package transformers."""

from pathlib import Path
from typing import Any, ClassVar

from acqh._core.imports import require
from acqh.encoders.images import ImageLike, read_image
from acqh.encoders.network import Network
from acqh.errors import InvalidInputError

# How transformers calls the models of images and texts in one space that are known here.
_FAMILIES = ("clip", "siglip", "siglip2")


class _Clip(Network):
    """A CLIP or SigLIP model of the package transformers; see its subclasses."""

    # What of transformers prepares the items.
    _tools: ClassVar[str]

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
                f"the CLIP model {self.model!r} is not a folder, and it cannot be fetched: {error}"
            ) from error

    def _weights_fingerprint(self) -> str:
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
            kind = getattr(transformers, self._tools)
            tools = kind.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise InvalidInputError(f"{folder} holds no readable CLIP model: {error}") from error
        return network.eval(), tools

    @property
    def n_features_out(self) -> int:
        """Number of features, which the model says."""
        self._load_once()
        config = self._network[0].config
        return int(getattr(config, "projection_dim", None) or config.vision_config.hidden_size)

    def _forward(self, batch: list[Any], start: int) -> Any:
        torch = require("torch")
        with torch.inference_mode():
            features = self._features(batch, start)
            # Newer releases return the pooled features inside an output object.
            features = getattr(features, "pooler_output", features)
            return torch.nn.functional.normalize(features, dim=-1).numpy()

    def _features(self, batch: list[Any], start: int) -> Any:
        raise NotImplementedError


class ClipImages(_Clip):
    """Encode images with CLIP or SigLIP, rows of length one, in one space with `ClipTexts`.

    Needs the extras ``images`` and ``clip``.

    Parameters
    ----------
    model : str
        A folder as transformers saves it; or, where there is a network, a model's name.
    batch_size : int, default 32
    max_pixels : int, default 64,000,000
        Larger images are rejected before they are decoded.

    Examples
    --------
    >>> from acqh.encoders import ClipImages
    >>> ClipImages("models/clip-vit-base").get_params()["batch_size"]
    32
    """

    _tools = "AutoImageProcessor"

    def _features(self, batch: list[ImageLike], start: int) -> Any:
        network, processor = self._network
        images = [
            read_image(image, start + row, self.max_pixels) for row, image in enumerate(batch)
        ]
        inputs = processor(images=images, return_tensors="pt")
        return network.get_image_features(**inputs)


class ClipTexts(_Clip):
    """Encode texts with CLIP or SigLIP, rows of length one, in one space with `ClipImages`.

    What is too long for the model is cut off.

    Needs the extra ``clip``.

    Parameters
    ----------
    model : str
        A folder as transformers saves it; or, where there is a network, a model's name.
    batch_size : int, default 32

    Examples
    --------
    >>> from acqh.encoders import ClipTexts
    >>> ClipTexts("models/clip-vit-base").get_params()["batch_size"]
    32
    """

    _tools = "AutoTokenizer"

    def _features(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        network, tokenizer = self._network
        longest = network.config.text_config.max_position_embeddings
        # SigLIP was trained on texts that are filled up to one length.
        padding = True if network.config.model_type == "clip" else "max_length"
        inputs = tokenizer(
            batch, padding=padding, truncation=True, max_length=longest, return_tensors="pt"
        )
        return network.get_text_features(**inputs)
