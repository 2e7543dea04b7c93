"""CLIP models by name: those that are known, and where the files of one are.

A model is two ONNX files and their settings, in one of the two layouts that people have. It is in a
folder, in the local cache of the Hugging Face Hub, or on the hub.
"""

import mmap
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from acqh._core.imports import require
from acqh.errors import AcqhError, InvalidInputError

# Outputs that are embeddings; the first that a network has counts.
IMAGE_OUTPUTS = ("image_embeds", "image_embedding", "embedding", "pooler_output")
TEXT_OUTPUTS = ("text_embeds", "text_embedding", "embedding", "pooler_output")
# Full precision is the default: 8 bits give other vectors on other processors.
_VARIANTS = ("fp32", "quantized", "fp16")
# NAME, NAME@REVISION, NAME:VARIANT or both.
_SPEC = re.compile(r"(?P<model>.+?)(@(?P<revision>[\w.-]+))?(:(?P<variant>[a-z0-9]\w*))?", re.ASCII)
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


@dataclass(frozen=True)
class EncoderInfo:
    """An encoder that can be given by name; see `list_encoders`.

    Attributes
    ----------
    name : str
        For `make_encoder`.
    views : {"image", "text", "both"}
        What it encodes; ``"both"``: in one space.
    status : {"installed", "not installed", "cached", "on the hub"}
        ``"cached"``: in the local cache of the Hugging Face Hub.
    languages : str
        Languages of its texts.
    megabytes : float or None
        Size of its files; None if it has none, or it is not known.
    quantized_megabytes : float or None
        Size of its variant ``quantized``; None if it has none, or it is not known.
    licence : str
        Of the weights.
    repository : str
        Name on the hub; empty for encoders that come with a package.

    Examples
    --------
    >>> from acqh.encoders import list_encoders
    >>> minilm = next(info for info in list_encoders() if info.name == "minilm")
    >>> minilm.views, minilm.languages
    ('text', 'English')
    """

    name: str
    views: str
    status: str
    languages: str
    megabytes: float | None = None
    quantized_megabytes: float | None = None
    licence: str = ""
    repository: str = ""


_KNOWN = tomllib.loads((files("acqh.encoders") / "models.toml").read_text("utf-8"))
REPOSITORIES = {
    name: str(facts["repository"]) for name, facts in _KNOWN.items() if "repository" in facts
}


class Layout(NamedTuple):
    """Paths of the files of a model, relative to its folder."""

    image: str
    text: str
    pixels: str
    tokenizer: str


class ModelFiles(NamedTuple):
    """A model that is on this machine.

    `source`: its name with revision, or its absolute folder, and its variant; `find_model` takes
    it.
    """

    source: str
    folder: Path
    layout: Layout

    def path(self, part: str) -> Path:
        """Return the path of one part of the layout."""
        relative: str = getattr(self.layout, part)
        return self.folder / relative


def is_model_name(name: str) -> bool:
    """Whether a name can be that of a CLIP model: a short name, a folder or a hub's name.

    Examples
    --------
    >>> is_model_name("siglip:quantized"), is_model_name("owner/model"), is_model_name("hog")
    (True, True, False)
    """
    model = _SPEC.fullmatch(name)
    stem = model["model"] if model else name
    is_path = "/" in stem or os.sep in stem
    return is_path or Path(name).is_dir() or stem in REPOSITORIES


def find_model(name: str, *, fetch: bool = True) -> ModelFiles:
    """Return the files of a model.

    Parameters
    ----------
    name : str
        Folder, short name or name on the hub; with ``@REVISION`` and ``:VARIANT`` if requested.
    fetch : bool
        Whether a model that is not on this machine is downloaded.

    Returns
    -------
    ModelFiles

    Raises
    ------
    InvalidInputError
        There is no such model, it cannot be downloaded, or its files do not fit together.
    """
    spec = _SPEC.fullmatch(name)
    if Path(name).is_dir() or spec is None:
        return _files(Path(name), str(Path(name).absolute()), None)
    model, revision, variant = spec["model"], spec["revision"], spec["variant"]
    suffix = f":{variant}" if variant else ""
    if revision is None and Path(model).is_dir():
        return _files(Path(model), str(Path(model).absolute()) + suffix, variant)
    repository = REPOSITORIES.get(model, model)
    if not _REPOSITORY.fullmatch(repository):
        if not fetch:
            raise InvalidInputError(
                f"the folder {model} with the CLIP model is gone; put it back, or build the "
                "collection again"
            )
        raise InvalidInputError(
            f"there is no folder {model}; give a folder, OWNER/NAME of a model on the hub, or one "
            f"of {', '.join(REPOSITORIES)}"
        )
    for folder in _snapshots(repository, revision):
        try:
            return _files(folder, f"{repository}@{folder.name}{suffix}", variant)
        except InvalidInputError:
            if revision is not None and not fetch:
                raise
    requested = f"{repository}@{revision}{suffix}" if revision else f"{repository}{suffix}"
    if not fetch:
        raise InvalidInputError(
            f"the model {requested} is not in {cache_folder()}; "
            f"run: acqh encoders --download {requested}"
        )
    try:
        folder = _download(repository, revision, variant)
    except AcqhError:
        raise
    except Exception as error:  # no network, no such model, no access: of many types
        raise InvalidInputError(
            f"{requested} is not a folder, and no model of this name can be downloaded: {error}; "
            "if this machine has no network, copy the model here and give its folder"
        ) from error
    return _files(folder, f"{repository}@{folder.name}{suffix}", variant)


def cache_folder() -> Path:
    """Return the folder in which the hub's packages keep what they downloaded."""
    if folder := os.environ.get("HF_HUB_CACHE"):
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME", Path(cache, "huggingface"))) / "hub"


def list_encoders() -> list[EncoderInfo]:
    """Return the encoders that can be given by name, and the CLIP models of the local cache.

    Returns
    -------
    list of EncoderInfo

    Examples
    --------
    >>> from acqh.encoders import list_encoders
    >>> [info.name for info in list_encoders() if info.views == "text"]
    ['minilm', 'tfidf']
    """
    infos, cached = [], _cached_models()
    for name, facts in _KNOWN.items():
        others = {"views": "both", **facts}
        if (modules := others.pop("modules", None)) is not None:
            status = "installed" if all(map(find_spec, modules)) else "not installed"
        else:
            status = "on the hub" if cached.pop(facts["repository"], None) is None else "cached"
        infos.append(EncoderInfo(name=name, status=status, **others))
    return infos + [
        EncoderInfo(repository, "both", "cached", "", megabytes, repository=repository)
        for repository, megabytes in cached.items()
    ]


def _cached_models() -> dict[str, float]:
    """Return the usable models of the local cache, and megabytes of their files."""
    models: dict[str, float] = {}
    for folder in sorted(cache_folder().glob("models--*--*")):
        repository = folder.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in _snapshots(repository, None):
            with suppress(InvalidInputError):
                _files(snapshot, "", None)
                sizes = [path.stat().st_size for path in snapshot.rglob("*") if path.is_file()]
                models.setdefault(repository, round(sum(sizes) / 1e6, 1))
    return models


def _repository_folder(repository: str) -> Path:
    return cache_folder() / f"models--{repository.replace('/', '--')}"


def _snapshots(repository: str, revision: str | None) -> Iterator[Path]:
    """Yield the folders of a revision in the local cache; without one, of all, the newest first."""
    home = _repository_folder(repository)
    if revision is not None:
        reference = home / "refs" / revision
        commit = reference.read_text().strip() if reference.is_file() else revision
        folders = [home / "snapshots" / commit]
    else:
        folders = sorted(home.glob("snapshots/*"), key=lambda f: f.stat().st_mtime, reverse=True)
    yield from (folder for folder in folders if folder.is_dir())


def _layouts(variant: str | None) -> Iterator[Layout]:
    for chosen in (variant,) if variant else _VARIANTS:
        end = "" if chosen == "fp32" else f"_{chosen}"
        for folder in ("onnx/", ""):
            yield Layout(
                f"{folder}vision_model{end}.onnx",
                f"{folder}text_model{end}.onnx",
                "preprocessor_config.json",
                "tokenizer.json",
            )
    if variant in (None, "fp32"):
        yield Layout(
            "visual/model.onnx",
            "textual/model.onnx",
            "visual/preprocess_cfg.json",
            "textual/tokenizer.json",
        )


def _choose(where: object, has: Callable[[str], bool], variant: str | None) -> Layout:
    """Return the first layout whose networks exist; `has` says whether a file does."""
    layout = next((one for one in _layouts(variant) if has(one.image) and has(one.text)), None)
    if layout is None:
        end = f"_{variant}" if variant not in (None, "fp32") else ""
        raise InvalidInputError(
            f"{where} has neither onnx/vision_model{end}.onnx and onnx/text_model{end}.onnx nor "
            "visual/model.onnx and textual/model.onnx"
        )
    for name in layout[2:]:
        if not has(name):
            raise InvalidInputError(f"{where} lacks {name}")
    return layout


def _files(folder: Path, source: str, variant: str | None) -> ModelFiles:
    """Return the files of a model in a folder, which must be complete."""
    layout = _choose(folder, lambda name: (folder / name).is_file(), variant)
    for network in (folder / layout.image, folder / layout.text):
        for name in external_files(network):
            if not (network.parent / name).is_file():
                raise InvalidInputError(f"{network.parent} lacks {name}, weights of {network.name}")
    image = output_width(folder / layout.image, IMAGE_OUTPUTS)
    text = output_width(folder / layout.text, TEXT_OUTPUTS)
    if None not in (image, text) and image != text:
        raise InvalidInputError(
            f"{folder} has vectors of {image} dimensions for images but {text} for texts; use two "
            "networks that were trained together"
        )
    return ModelFiles(source, folder, layout)


def _download(repository: str, revision: str | None, variant: str | None) -> Path:
    """Download a model into the local cache; return its folder, which is named by its commit."""
    hub = require("huggingface_hub")
    place = {"cache_dir": cache_folder(), "endpoint": os.environ.get("HF_ENDPOINT")}
    info = hub.HfApi(endpoint=place["endpoint"]).model_info(repository, revision=revision)
    names = {file.rfilename for file in info.siblings}

    def fetch(name: str) -> Path:
        return Path(hub.hf_hub_download(repository, name, revision=info.sha, **place))

    layout = _choose(repository, names.__contains__, variant)
    tokens = str(PurePosixPath(layout.tokenizer).with_name("tokenizer_config.json"))
    for name in sorted(names & {"config.json", tokens, layout.pixels, layout.tokenizer}):
        fetch(name)
    for name in (layout.image, layout.text):
        for data in external_files(fetch(name)):
            fetch(str(PurePosixPath(name).with_name(data)))
    return _repository_folder(repository) / "snapshots" / str(info.sha)


# Headers of ONNX files: ONNX Runtime reads whatever a file names, so names are checked first. Field
# numbers are those of ``onnx.proto``, which never change.
T = TypeVar("T")
# Fields that lead to tensors: message -> field number -> message.
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor",
                  23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {13: "external data"},
}  # fmt: skip


def external_files(path: Path) -> list[str]:
    """Return the names of the files that have weights of a network, relative to its folder.

    Raises InvalidInputError: a name leads out of the folder, or the file is not an ONNX file.
    """
    names = sorted(_read(path, lambda model: set(_locations(model, "model"))))
    for name in names:
        place = PurePosixPath(name.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or ":" in name or not place.parts:
            raise InvalidInputError(f"{path} takes weights from {name!r}, outside its folder")
    return names


def output_width(path: Path, names: tuple[str, ...]) -> int | None:
    """Return the last dimension of the output with one of the names; None if it is not stated."""

    def width(model: memoryview) -> int | None:
        outputs = {_text(entry, 1): entry for entry in _find(model, 7, 12)}
        name = next((name for name in names if name in outputs), next(iter(outputs), ""))
        dimensions = list(_find(outputs.get(name, memoryview(b"")), 2, 1, 2, 1))
        sizes = [value for value in _find(dimensions[-1], 1) if value] if dimensions else []
        return int(sizes[0]) if sizes else None

    return _read(path, width)


def _read(path: Path, read: Callable[[memoryview], T]) -> T:
    """Call a function with the content of a file, which is mapped into memory."""
    try:
        with path.open("rb") as file:
            # Closed when its last view is gone, which an error may hold.
            return read(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not an ONNX file: {error}") from error


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    if kind == "external data":
        if _text(message, 1) == "location":
            yield _text(message, 2)
        return
    for number, value in _fields(message):
        if number in _FIELDS[kind]:
            yield from _locations(value, _FIELDS[kind][number])


def _text(message: memoryview, number: int) -> str:
    return b"".join(list(_find(message, number))[-1:]).decode()


def _find(message: Any, number: int, *inner: int) -> Iterator[Any]:
    """Yield the values of a field, or of fields inside it, by their numbers."""
    for other, value in _fields(message):
        if other == number:
            yield from _find(value, *inner) if inner else (value,)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: their numbers, and integers or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        n_bytes, at = _varint(message, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
        if at + n_bytes > len(message):
            raise ValueError("it is cut off")
        yield tag >> 3, message[at : at + n_bytes]
        at += n_bytes


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number is too long")
