"""The named data sets: their files, shapes and loaders. A new one is an entry in DATASETS."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh.data.checks import check_items
from acqh.data.datasets.files import DataFile, DataFolder, Original
from acqh.data.multiview import MultiViewData
from acqh.data.readers.formats import read
from acqh.errors import DatasetWarning, InvalidInputError

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


_NO_PAGE = "shared with the public code of papers; the publisher has no such file"
_WIKI_PAGE = "http://www.svcl.ucsd.edu/projects/crossmodal/"
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
    licence="Apache-2.0 (pictures), MIT and Unicode (texts); see NOTICE",
    differences="not in the paper",
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
        ),
    ),
    source="Statistical Visual Computing Laboratory, UC San Diego (Rasiwasia et al., 2010)",
    originals=(
        Original(
            "raw_features.mat",
            _WIKI_PAGE,
            "1.1 MB",
            "ca628f765a69575e168ab29eb97f5ade12fadf47b31de1328c7ff631c7f225ae",
        ),
        Original(
            "trainset_txt_img_cat.list",
            _WIKI_PAGE,
            "155 kB",
            "30c1ba8afbe90da5986de9b12496b6dd2e4680d3876b79ab7aae2e437d5819a3",
        ),
        Original(
            "testset_txt_img_cat.list",
            _WIKI_PAGE,
            "49 kB",
            "ec3123ee31cc89dd95fbeb23eb73b2ecfd1d8909bba863723471aad99408c1eb",
        ),
        Original(
            "or wikiData.mat",
            "https://github.com/llcing/Cross-modal-hashing-SRLCH",
            "1.1 MB",
            "915bad0fd08b6cdd6cb5ebd6c831787d70885b4c340f8c796e54752f03d9332c",
        ),
    ),
    licence="not stated; for research",
    digests={"image": "e7b8a3a5d223fc44", "text": "7ecd58b617193ed3", "labels": "df917325ad4e24bb"},
    differences="no known differences",
)

_MIRFLICKR_PAGE = "https://press.liacs.nl/mirflickr/mirdownload.html"
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
        ),
        DataFile(
            "mirflickr25k_deep.npz",
            "image (15677, 1280), image_id in the order of mirflickr25k.npz",
            only_for="features='deep'",
        ),
    ),
    options={"features": "'edge' or 'deep'", "include_text_only": "False or True"},
    source="LIACS Medialab, Leiden University (Huiskes and Lew, 2008)",
    originals=(
        Original("mirflickr25k.zip", _MIRFLICKR_PAGE, "2.9 GB"),
        Original("mirflickr25k_annotations_v080.zip", _MIRFLICKR_PAGE),
        Original("or mirflickr25k-xall.mat (or -iall.mat), -yall.mat and -lall.mat", _NO_PAGE),
    ),
    licence="photographs: Creative Commons, by photograph; annotations: for research",
    digests={"image": "36265fa3638b30ac", "text": "dbfd0563815842a9", "labels": "b59392337f3ea11e"},
    differences="documented results: 15,677 of the 20,015 pairs (the other 4,338 without image: "
    "include_text_only), edge histograms of 128 x 128 copies; prepared file: all 20,015, edge "
    "histograms recomputed in the same way",
    preprocessing="text: 500-d truncated SVD of the tags (acqh.features.TagSVD), fitted on "
    "training rows",
    preparation={"text": {"class": "TagSVD", "params": {"n_components": 500}}},
)

_NUSWIDE_PAGE = "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html"
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
    source="Lab for Media Search, National University of Singapore (Chua et al., 2009)",
    originals=(
        Original("Groundtruth.zip: AllLabels/Labels_*.txt", _NUSWIDE_PAGE),
        Original("NUS_WID_Tags.zip: AllTags1k.txt", _NUSWIDE_PAGE),
        Original("NUS_WID_Low_Level_Features.zip: BoW_int.dat", _NUSWIDE_PAGE),
        Original("or nus-wide-tc10-xall.mat, -yall.mat and -lall.mat", _NO_PAGE),
    ),
    licence="features, tags and labels: for research",
    differences="unknown: acqh was never run on the original files, and checks only the shape",
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
        ),
    ),
    options={"include_pixels": "False or True"},
    source="UCI Machine Learning Repository, Multiple Features (Duin, 1998)",
    originals=(
        Original(
            "multiple+features.zip: mfeat-fou, mfeat-kar, mfeat-pix",
            "https://archive.ics.uci.edu/dataset/72/multiple+features",
        ),
        Original(
            "or uci_all.mat",
            "https://github.com/BMC-SDNU/Cross-Modal-Retrieval",
            "2.3 MB",
            "ba2fc14e773927423598e42bb2435b432a3fec524102bfaa224d3385405e378e",
        ),
    ),
    licence="CC BY 4.0",
    digests={"image": "b9815ae4ab620a4a", "text": "c7b1873a028886e8", "labels": "02592e6a3e0de30e"},
    differences="the paper does not use it",
)

_COCO_PAGE = "https://cocodataset.org/#download"
_COCO = NamedDataset(
    description="Photographs of everyday scenes, five captions each; no labels",
    load=partial(_load, widths={"image": 1_280}),
    n_items=5_000,
    n_labels=0,
    views={"image": "1,280-d EfficientNet-Lite0 of the package; captions are in the item table"},
    files=(
        DataFile(
            "coco-val2017.npz", "image (5000, 1280), ids, item columns caption_1 to caption_5"
        ),
    ),
    source="MS COCO (Lin et al., 2014), validation set of 2017",
    originals=(
        Original("val2017.zip, or the folder val2017", _COCO_PAGE, "0.8 GB"),
        Original(
            "annotations_trainval2017.zip, or captions_val2017.json from it", _COCO_PAGE, "241 MB"
        ),
    ),
    licence="captions: CC BY 4.0; photographs: terms of Flickr, by photograph",
    differences="the paper does not use it",
)

DATASETS: Mapping[str, NamedDataset] = MappingProxyType(
    {
        "coco-val2017": _COCO,
        "emoji": _EMOJI,
        "mirflickr25k": _MIRFLICKR25K,
        "nuswide10": _NUSWIDE10,
        "uci_mfeat": _UCI_MFEAT,
        "wiki": _WIKI,
    }
)
