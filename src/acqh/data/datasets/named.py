"""The named data sets: their files, shapes and loaders. A new one is an entry in DATASETS."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array
from acqh.data.checks import check_items
from acqh.data.datasets.files import DataFile, DataFolder
from acqh.data.multiview import MultiViewData
from acqh.data.readers.formats import read
from acqh.errors import InvalidInputError

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
    differs: str
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
    description, n_items, n_labels, views, source, differs, preprocessing, preparation
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
    ...     differs="the paper does not use it",
    ...     load=lambda folder: acqh.make_multiview(50, n_labels=5, random_state=0),
    ... )
    >>> len(toy.load(None))
    50
    """

    load: Callable[..., MultiViewData]
    files: tuple[DataFile, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


def load_emoji() -> MultiViewData:
    """Load 1,906 emoji, each an image and a text, in 9 groups.

    The features ship with the package and need no extra. Image features come from
    ``acqh.encoders.HogColour()`` with its defaults, rounded to 1/255. Text features are word
    counts from ``acqh.encoders.word_vectorizer``. Variants of one thing (by gender, colour, size,
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
    """Read the first file of a data set, whose views have these widths."""
    dataset = DATASETS[folder.dataset]
    path = path or folder.require(dataset.files[0].name)
    if path.suffix == ".npz":
        options["views"] = {name: name for name in widths}
    counts = {"n_labels": dataset.n_labels, "n_items": dataset.n_items}
    return _checked(read(path, **options), folder, widths, **counts)


def _load_mirflickr25k(
    folder: DataFolder, *, features: str = "edge", include_text_only: bool = False
) -> MultiViewData:
    if features not in ("edge", "deep"):
        raise InvalidInputError(f"features must be 'edge' or 'deep', got {features!r}")
    path = folder.require("mirflickr25k.npz")
    data = _load(folder, {"image": 150, "text": 1_386}, path)
    if include_text_only:
        names = {"labels": "extra_labels", "ids": "extra_image_id"}
        extra = read(path, views={"text": "extra_text"}, label_names=data.label_names, **names)
        data = MultiViewData.concat([data, extra])._replace(splits=data.splits)
    data = data._replace(items=check_items({"tags": _join_tags(data, path)}, len(data)))
    return data if features == "edge" else _with_deep_features(data, folder)


def _with_deep_features(data: MultiViewData, folder: DataFolder) -> MultiViewData:
    width = 1_280
    deep = read(folder.require("mirflickr25k_deep.npz"), views={"image": "image"})
    _checked(deep, folder, {"image": width})
    with_image = np.flatnonzero(data.present["image"])
    if not np.array_equal(deep.ids, data.ids[with_image]):
        raise InvalidInputError(
            "mirflickr25k_deep.npz and mirflickr25k.npz do not list the same images in the same "
            "order: their image_id differ; use files of the same source"
        )
    # The file is in half precision; computing in it would lose more than storing did.
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


def _checked(
    data: MultiViewData,
    folder: DataFolder,
    widths: Mapping[str, int],
    *,
    n_labels: int | None = None,
    n_items: int | None = None,
) -> MultiViewData:
    """Return the data named after the data set; raise InvalidInputError for a wrong shape."""
    wrong = [
        f"view {name!r} has {data.views[name].shape[1] if name in data.views else 'no'} columns, "
        f"expected {width}"
        for name, width in widths.items()
        if name not in data.views or data.views[name].shape[1] != width
    ]
    if n_labels is not None and len(data.label_names) != n_labels:
        wrong.append(f"there are {len(data.label_names)} labels, expected {n_labels}")
    if folder.verify and n_items is not None and len(data) != n_items:
        wrong.append(
            f"there are {len(data):,} items, expected {n_items:,} (verify=False takes any number)"
        )
    if wrong:
        raise InvalidInputError(
            f"the files of data set {folder.dataset!r} in {folder.path} have an unexpected shape: "
            + "; ".join(wrong)
        )
    return data._replace(name=folder.dataset)


_WIKI_CLASSES = (
    "art", "biology", "geography", "history", "literature",
    "media", "music", "royalty", "sport", "warfare",
)  # fmt: skip

_EMOJI = NamedDataset(
    description="Noto emoji with their names and tags; comes with the package",
    load=lambda _: load_emoji(),
    n_items=1_906,
    n_labels=9,
    views={"image": "544-d HOG and HSV histogram", "text": "counts of 4,110 words"},
    source="npm emoji-datasource-google 16.0.0 and emojibase-data 17.0.0",
    differs="not in the paper",
    preprocessing="split by the column 'family'; text: TfidfTransformer fitted on training rows",
    preparation={
        "text": {
            "class": "Pipeline",
            "params": {
                "steps": [
                    ["tfidf", {"class": "TfidfTransformer", "params": {}}],
                    ["svd", {"class": "TagSVD", "params": {"n_components": 400}}],
                ]
            },
        }
    },
)
_WIKI = NamedDataset(
    description="Sections of Wikipedia's featured articles, each with its image",
    load=partial(_load, widths={"image": 128, "text": 10}, label_names=_WIKI_CLASSES),
    n_items=2_866,
    n_labels=10,
    views={"image": "128-d SIFT bag of visual words", "text": "10-d LDA topic proportions"},
    files=(
        DataFile(
            "wiki.npz",
            "image (2866, 128), text (2866, 10), labels (2866, 10), train_idx (2173), "
            "test_idx (693)",
            sha256="47b5453885c679444982f43e6a36609210ce45c7878ab773fe81d53d6d257e55",
        ),
    ),
    source="svcl.ucsd.edu/projects/crossmodal; the same values as wikiData.mat in GitHub "
    "llcing/Cross-modal-hashing-SRLCH",
    differs="no known differences",
)

_MIRFLICKR25K = NamedDataset(
    description="Flickr photographs with their tags",
    load=_load_mirflickr25k,
    n_items=15_677,
    n_labels=24,
    views={
        "image": "150-d edge histogram (features='edge') or 1,280-d EfficientNet-Lite0 "
        "(features='deep')",
        "text": "1,386 tags, 0/1, sparse",
    },
    files=(
        DataFile(
            "mirflickr25k.npz",
            "image (15677, 150), text as CSR arrays (15677, 1386), labels (15677, 24), image_id, "
            "extra_text as CSR arrays (4338, 1386), extra_labels, extra_image_id, label_names, "
            "tag_names",
            sha256="aec1184adc746fec11e501dd9c9ed48cea0312ea4e5a3f061fb896c4407ee2e3",
        ),
        DataFile(
            "mirflickr25k_deep.npz",
            "image (15677, 1280), image_id in the order of mirflickr25k.npz",
            sha256="99ae748a95b40d0bb69c49db58e3487eac5f014aeb467cb6f303027d004e2a75",
            only_for="features='deep'",
        ),
    ),
    options={"features": "'edge' or 'deep'", "include_text_only": "False or True"},
    source="press.liacs.nl/mirflickr; tags and labels as in GitHub louisfanhz/VTMUCH",
    differs="15,677 of the 20,015 pairs (the other 4,338 without image: include_text_only); "
    "edge histograms recomputed from 128 x 128 copies of the photographs",
    preprocessing="text: 500-d truncated SVD of the tags (acqh.features.TagSVD), fitted on "
    "training rows",
    preparation={"text": {"class": "TagSVD", "params": {"n_components": 500}}},
)

_NUSWIDE10 = NamedDataset(
    description="Flickr photographs with their tags, the ten most frequent concepts",
    load=partial(_load, widths={"image": 500, "text": 1_000}),
    n_items=186_577,
    n_labels=10,
    views={"image": "500-d SIFT bag of visual words", "text": "1,000 tags, 0/1, sparse"},
    files=(
        DataFile(
            "nuswide10.npz",
            "image (186577, 500), text dense or as CSR arrays (186577, 1000), "
            "labels (186577, 10) 0/1; as .mat with the variables XAll, YAll, LAll",
            alternative="nuswide10.mat",
        ),
    ),
    source="the NUS-WIDE collection of the National University of Singapore (Chua et al., 2009)",
    differs="unknown: acqh has no checksum and checks only the shape",
)

_UCI_MFEAT = NamedDataset(
    description="Handwritten digits, two kinds of features; no real text",
    load=_load_uci_mfeat,
    n_items=2_000,
    n_labels=10,
    views={
        "image": "76-d Fourier coefficients",
        "text": "64-d Karhunen-Loeve coefficients",
        "pixels": "240 grey values (include_pixels=True)",
    },
    files=(
        DataFile(
            "uci_mfeat.npz",
            "image (2000, 76), text (2000, 64), pixels (2000, 240), labels (2000, 10), "
            "train_idx (1500), test_idx (500)",
            sha256="6b2b1c9921040d48096d2f64c78d5b915fdcfe3c732ccf48f18485bb98d78fc6",
        ),
    ),
    options={"include_pixels": "False or True"},
    source="UCI machine learning repository, multiple features; the same values as uci_all.mat "
    "in GitHub BMC-SDNU/Cross-Modal-Retrieval",
    differs="the paper does not use it",
)

DATASETS: Mapping[str, NamedDataset] = MappingProxyType(
    {
        "emoji": _EMOJI,
        "mirflickr25k": _MIRFLICKR25K,
        "nuswide10": _NUSWIDE10,
        "uci_mfeat": _UCI_MFEAT,
        "wiki": _WIKI,
    }
)
