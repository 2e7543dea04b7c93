"""Named data sets: list them, locate their files and load them.

``datasets.toml`` has what is known of each; a new one is a table there, and maybe a loader here.
"""

import hashlib
import inspect
import json
import os
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh._core.imports import load_plugins
from acqh._core.runtime import suggest
from acqh.data.checks import check_items
from acqh.data.multiview import MultiViewData
from acqh.data.readers.formats import read
from acqh.errors import DatasetNotFoundError, DatasetWarning, InvalidInputError

ENVIRONMENT_VARIABLE = "ACQH_DATA"


@dataclass(frozen=True)
class Original:
    """One file of the publisher, which ``acqh datasets prepare`` reads.

    Attributes
    ----------
    name : str
        File name, or path inside an archive.
    page : str
        Web page that offers it.
    size : str
        Size as text; empty if unknown.
    sha256 : str or None
        Checksum of the file that the converter was tested with.
    """

    name: str
    page: str
    size: str = ""
    sha256: str | None = None


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    name : str
        File name inside the data folder.
    contents : str
        Expected contents.
    alternative : str or None
        Another file name with the same contents in another format.
    only_for : str or None
        The option that needs the file; None if the data set always needs it.
    """

    name: str
    contents: str
    alternative: str | None = None
    only_for: str | None = None

    def find(self, folder: Path | None) -> Path | None:
        """Return the path of the file in a folder, or None."""
        if folder is None:
            return None
        names = (self.name,) if self.alternative is None else (self.name, self.alternative)
        return next((folder / name for name in names if (folder / name).is_file()), None)

    def summary(self) -> str:
        """Return the name and the contents in one line."""
        names = self.name if self.alternative is None else f"{self.name} (or {self.alternative})"
        return f"{names}: {self.contents}"


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return `data_dir`, or else the folder that the environment variable names."""
    chosen = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


@dataclass(frozen=True)
class DataFolder:
    """The files of one data set in one folder."""

    dataset: str
    hint: str  # how to get the files
    files: tuple[DataFile, ...]
    path: Path | None
    verify: bool

    def require(self, name: str) -> Path:
        """Return the path of an existing file."""
        file = next(file for file in self.files if file.name == name)
        path = file.find(self.path)
        if path is None:
            raise DatasetNotFoundError(self._not_found(file))
        return path

    def _not_found(self, file: DataFile) -> str:
        needed = [other for other in self.files if other.only_for is None or other is file]
        missing = [other.summary() for other in needed if other.find(self.path) is None]
        if self.path is None:
            where = f"no data folder is set; pass `data_dir` or set {ENVIRONMENT_VARIABLE}"
        else:
            state = "" if self.path.is_dir() else ", which is not a folder"
            where = (
                f"searched {self.path}{state}; put them there, or pass another folder with "
                f"`data_dir` or {ENVIRONMENT_VARIABLE}"
            )
        listed = "".join(f"\n  {line}" for line in missing)
        return f"data set {self.dataset!r} lacks files ({where}):{listed}\n{self.hint}"


# Image features of the emoji lie between 0 and 1 and are stored as bytes.
_STEPS = 255


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """Metadata of a data set; see `acqh.data.DatasetInfo`."""

    description: str
    n_items: int
    n_labels: int
    views: Mapping[str, str]
    source: str
    differences: str
    originals: tuple[Original, ...] = ()
    licence: str = ""
    preprocessing: str = "none"
    preparation: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NamedDataset(DatasetFacts):
    """Loader and metadata of a data set.

    Plug-ins register objects of this class under the entry-point group ``acqh.datasets``; the
    name of the entry is the name of the data set.

    Attributes
    ----------
    load : callable
        Takes a folder, whose ``require(file_name)`` returns the path of one of `files`, and the
        options. Returns MultiViewData with the name of the data set.
    files : tuple of DataFile
        Files that the data set needs in the data folder.
    options : mapping of str to str
        Keyword arguments of `load`, with their allowed values as text.
    digests : mapping of str to str
        `hash_matrix` of the views and of ``"labels"`` that the documented results are for.
    description, n_items, n_labels, views, source, differences, originals, licence
        As in DatasetInfo.
    preprocessing, preparation
        As in DatasetInfo.

    Examples
    --------
    >>> import acqh
    >>> from acqh.data import NamedDataset
    >>> toy = NamedDataset(
    ...     description="a toy",
    ...     n_items=50,
    ...     n_labels=5,
    ...     views={"image": "noise", "text": "noise"},
    ...     source="made up",
    ...     differences="the paper does not use it",
    ...     load=lambda folder: acqh.make_multiview(50, n_labels=5, random_state=0),
    ... )
    >>> len(toy.load(None))
    50
    """

    load: Callable[..., MultiViewData]
    files: tuple[DataFile, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


def load_emoji() -> MultiViewData:
    """Load 1,906 emoji, each an image and a text, in 9 groups.

    The features ship with the package and need no extra. Image features come from
    ``acqh.encoders.HogColor()`` with its defaults, rounded to 1/255. Text features are word
    counts from ``acqh.encoders.tfidf_vectorizer``. Variants of one thing (by gender, colour, size,
    clock time, keycap) share a family: split with ``groups="family"``.

    Returns
    -------
    MultiViewData
        Views ``image`` (1906, 544) float32 and ``text`` (1906, n_words) CSR float32 counts; one
        label of 9 per item; code points such as ``"1F44B"`` as ids. Item columns: ``name`` and
        ``text`` (name and tags) in English, ``emoji`` (the character), ``image`` (bytes of a
        WebP file, 64 x 64), ``subgroup``, ``family``.

    Examples
    --------
    >>> data = load_emoji()
    >>> data.items["name"][0], data.items["family"][0], data.ids[0]
    ('grinning face', 'grinning face', np.str_('1F600'))
    >>> data.label_names[0]
    'Smileys & Emotion'
    """
    table, arrays = _read_pack()
    ids, names, tags, groups, subgroups, families = zip(*table["items"], strict=True)
    counts = sp.csr_array(
        (
            arrays["text_counts"].astype(np.float32),
            arrays["text_indices"].astype(np.int32),
            arrays["text_indptr"],
        ),
        shape=(len(ids), len(table["words"])),
    )
    parts = np.split(arrays["pictures"], arrays["picture_ends"][:-1])
    images = [part.tobytes() for part in parts]
    return MultiViewData(
        {"image": arrays["image"].astype(np.float32) / _STEPS, "text": counts},
        [table["groups"][group] for group in groups],
        label_names=table["groups"],
        ids=ids,
        items={
            "name": names,
            "text": [", ".join([name, *words]) for name, words in zip(names, tags, strict=True)],
            "emoji": [
                "".join(chr(int(code, 16)) for code in code_points.split("-"))
                for code_points in ids
            ],
            "image": images,
            "subgroup": subgroups,
            "family": families,
        },
        name="emoji",
    )


def _read_pack() -> tuple[dict[str, Any], dict[str, Array]]:
    folder = files("acqh.data.datasets") / "emoji"
    table = json.loads((folder / "items.json").read_text(encoding="utf-8"))
    with (folder / "arrays.npz").open("rb") as stream, np.load(stream) as stored:
        return table, dict(stored)


def _load(
    folder: DataFolder, widths: Mapping[str, int], path: Path | None = None, **options: Any
) -> MultiViewData:
    """Read the first file of a data set, whose views should have these widths."""
    dataset = DATASETS[folder.dataset]
    path = path or folder.require(dataset.files[0].name)
    if path.suffix == ".npz":
        options["views"] = {name: name for name in widths}
    data = read(path, **options)
    if folder.verify:
        differences = compare(folder.dataset, data, widths)
        if differences:
            warnings.warn(
                f"{path.name} differs from the file that the documented results are for: "
                + "; ".join(differences),
                DatasetWarning,
                stacklevel=4,
            )
    return data._replace(name=folder.dataset)


def _load_mirflickr25k(
    folder: DataFolder, *, features: str = "edge", include_text_only: bool = False
) -> MultiViewData:
    if features not in ("edge", "deep"):
        raise InvalidInputError(f"features must be 'edge' or 'deep', got {features!r}")
    path = folder.require("mirflickr25k.npz")
    data = _load(folder, {"image": 150, "text": 1_386}, path)
    with np.load(path, allow_pickle=False) as arrays:
        has_tag_names, has_text_only = "tag_names" in arrays, "extra_labels" in arrays
    if include_text_only and not has_text_only:
        raise InvalidInputError(f"{path} has no items without an image; omit include_text_only")
    if include_text_only:
        names = {"labels": "extra_labels", "ids": "extra_image_id"}
        extra = read(path, views={"text": "extra_text"}, label_names=data.label_names, **names)
        data = MultiViewData.concat([data, extra])._replace(splits=data.splits)
    if has_tag_names:
        data = data._replace(items=check_items({"tags": _join_tags(data, path)}, len(data)))
    return data if features == "edge" else _with_deep_features(data, folder)


def _with_deep_features(data: MultiViewData, folder: DataFolder) -> MultiViewData:
    width = 1_280
    deep = read(folder.require("mirflickr25k_deep.npz"), views={"image": "image"})
    if deep.views["image"].shape[1] != width:
        raise InvalidInputError(
            f"view 'image' of mirflickr25k_deep.npz has {deep.views['image'].shape[1]} columns, "
            f"expected {width}"
        )
    with_image = np.flatnonzero(data.present["image"])
    if not np.array_equal(deep.ids, data.ids[with_image]):
        raise InvalidInputError(
            "mirflickr25k_deep.npz and mirflickr25k.npz do not list the same images in the same "
            "order: their image_id differ; use files of the same source"
        )
    # The file is in half precision, which is too coarse for computing.
    image = np.zeros((len(data), width), dtype=np.float32)
    image[with_image] = deep.views["image"]
    return data.with_views(image=image)._replace(name="mirflickr25k_deep")


def _join_tags(data: MultiViewData, path: Path) -> list[str]:
    """Return the tags of each item as one text."""
    with np.load(path, allow_pickle=False) as arrays:
        names = arrays["tag_names"]
    text = data.views["text"]
    return [
        " ".join(names[text.indices[start:end]])
        for start, end in zip(text.indptr[:-1], text.indptr[1:], strict=True)
    ]


def _load_uci_mfeat(folder: DataFolder, *, include_pixels: bool = False) -> MultiViewData:
    widths = {"image": 76, "text": 64, "pixels": 240}
    if not include_pixels:
        del widths["pixels"]
    return _load(folder, widths)


def compare(name: str, data: MultiViewData, widths: Mapping[str, int]) -> list[str]:
    """Return how data differ from those that the documented results of a data set are for."""
    dataset = DATASETS[name]
    differences = []
    if len(data) != dataset.n_items:
        differences.append(f"{len(data):,} items instead of {dataset.n_items:,}")
    if len(data.label_names) != dataset.n_labels:
        differences.append(f"{len(data.label_names)} labels instead of {dataset.n_labels}")
    differences += [
        f"view {view!r} has {data.views[view].shape[1]:,} columns instead of {width:,}"
        for view, width in widths.items()
        if data.views[view].shape[1] != width
    ]
    matrices = {**data.views, "labels": data.labels}
    changed = [
        part
        for part, digest in dataset.digests.items()
        if matrices.get(part) is not None and hash_matrix(matrices[part]) != digest
    ]
    if changed and not differences:
        differences.append(f"other values, or another order of items, in {', '.join(changed)}")
    return differences


def hash_matrix(matrix: Matrix) -> str:
    """Return the sha256 of the values in single precision, sparse or dense."""
    if is_sparse(matrix):
        rows = sp.csr_array(matrix)
        rows.sum_duplicates()
        arrays = [rows.indptr.astype("<i8"), rows.indices.astype("<i8"), rows.data.astype("<f4")]
    else:
        arrays = [np.ascontiguousarray(matrix, dtype="<f4")]
    digest = hashlib.sha256(str(matrix.shape).encode())
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


# Of data sets that are not just read from one file.
_LOADERS: dict[str, Callable[..., MultiViewData]] = {
    "emoji": lambda _: load_emoji(),
    "mirflickr25k": _load_mirflickr25k,
    "uci_mfeat": _load_uci_mfeat,
}


def _read_datasets() -> Mapping[str, NamedDataset]:
    stored = tomllib.loads((files("acqh.data.datasets") / "datasets.toml").read_text("utf-8"))
    return MappingProxyType(
        {
            name: NamedDataset(
                load=_LOADERS.get(name) or partial(_load, **facts.pop("read")),
                files=tuple(DataFile(**file) for file in facts.pop("files", ())),
                originals=tuple(Original(**file) for file in facts.pop("originals", ())),
                **facts,
            )
            for name, facts in stored.items()
        }
    )


DATASETS = _read_datasets()


@dataclass(frozen=True, kw_only=True)
class DatasetInfo(DatasetFacts):
    """Metadata of a named data set, and which of its files are missing.

    Attributes
    ----------
    name, description : str
    n_items, n_labels : int
    views : mapping of str to str
        Name and content of each view.
    files : tuple of str
        Required files; empty for a data set that ships with the package.
    missing : tuple of str
        Required files that do not exist, with their expected contents.
    data_dir : str or None
        The folder searched; None if neither `data_dir` nor ``ACQH_DATA`` is set.
    options : tuple of str
        Keyword arguments of `load_dataset` for this data set, with their values.
    source : str
        Where the data come from.
    originals : tuple of Original
        Files of the publisher that ``acqh datasets prepare`` converts: name, page, size, sha256.
    licence : str
    differences : str
        How the data differ from those of the paper.
    preprocessing : str
        Preprocessing of the features in the paper, to be fitted on training rows.
    preparation : mapping of str to mapping
        The same preprocessing by view: the class of a feature map and its parameters.

    Examples
    --------
    >>> import acqh
    >>> emoji = next(info for info in acqh.list_datasets() if info.name == "emoji")
    >>> emoji.is_available, emoji.n_items, sorted(emoji.views)
    (True, 1906, ['image', 'text'])
    """

    name: str
    files: tuple[str, ...]
    missing: tuple[str, ...]
    data_dir: str | None
    options: tuple[str, ...]

    @property
    def is_available(self) -> bool:
        """Whether all required files exist."""
        return not self.missing


def known_datasets() -> dict[str, NamedDataset]:
    """Return the built-in data sets and those of installed plug-ins.

    Raises InvalidInputError if a plug-in is not a NamedDataset or reuses a built-in name.
    """
    added = load_plugins("acqh.datasets")
    for name, dataset in added.items():
        if name in DATASETS or not isinstance(dataset, NamedDataset):
            raise InvalidInputError(
                f"the plug-in data set {name!r} must be a NamedDataset whose name is none of "
                f"{', '.join(sorted(DATASETS))}"
            )
    return {**DATASETS, **added}


def list_datasets(data_dir: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """List the named data sets, and whether their files are available.

    Parameters
    ----------
    data_dir : path, optional
        Folder with the files; the environment variable ``ACQH_DATA`` by default.

    Returns
    -------
    list of DatasetInfo
        Sorted by name.

    Examples
    --------
    >>> [info.name for info in list_datasets()]
    ['coco-val2017', 'emoji', 'mirflickr25k', 'nuswide10', 'uci_mfeat', 'wiki']
    """
    folder = data_folder(data_dir)
    infos = []
    for name, dataset in sorted(known_datasets().items()):
        needed = [file for file in dataset.files if file.only_for is None]
        infos.append(
            DatasetInfo(
                name=name,
                files=tuple(file.name for file in needed),
                missing=tuple(file.summary() for file in needed if file.find(folder) is None),
                data_dir=None if folder is None else str(folder),
                options=tuple(f"{key}={values}" for key, values in dataset.options.items()),
                **{fact.name: getattr(dataset, fact.name) for fact in fields(DatasetFacts)},
            )
        )
    return infos


def load_dataset(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    verify: bool = True,
    **options: Any,
) -> MultiViewData:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        A name listed by `list_datasets`.
    data_dir : path, optional
        Folder with the files; the environment variable ``ACQH_DATA`` by default.
    verify : bool
        Compare the contents with those that the documented results are for; a difference is a
        DatasetWarning that says what differs.
    **options
        Options of the data set, as listed by `list_datasets`.

    Returns
    -------
    MultiViewData

    Raises
    ------
    InvalidInputError
        The name or an option is unknown, or a view is missing.
    DatasetNotFoundError
        A file is missing; the message names it, its contents and how to make it.

    Examples
    --------
    >>> import acqh
    >>> acqh.load_dataset("flickr")
    Traceback (most recent call last):
        ...
    acqh.errors.InvalidInputError: unknown data set 'flickr'; choose one of coco-val2017,
    emoji, mirflickr25k, nuswide10, uci_mfeat, wiki
    """
    datasets = known_datasets()
    if name not in datasets:
        raise InvalidInputError(
            f"unknown data set {name!r}; choose one of {', '.join(sorted(datasets))}"
        )
    dataset = datasets[name]
    for option in options:
        if option not in dataset.options:
            names = [*inspect.signature(load_dataset).parameters, *dataset.options]
            raise InvalidInputError(
                f"data set {name!r} has no option {option!r}{suggest(option, names)}; "
                f"its options: {', '.join(dataset.options) or 'none'}"
            )
    hint = f"Source: {dataset.source}"
    if dataset.originals:
        hint += (
            "\nacqh datasets lists the original files; to convert them, run: "
            f"acqh datasets prepare {name} --from FOLDER"
        )
    folder = DataFolder(name, hint, dataset.files, data_folder(data_dir), verify)
    return dataset.load(folder, **options)
