"""Converters of collections of Flickr: MIRFlickr25K and NUS-WIDE."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Floats
from acqh._core.imports import require
from acqh.bench.prepare.features import as_binary, convert_matrices
from acqh.bench.prepare.originals import Originals
from acqh.data import MultiViewData
from acqh.data.readers.hdf5 import list_nodes, reading
from acqh.encoders import EfficientNetLite0, read_image
from acqh.errors import CorruptBundleError, InvalidInputError

Progress = Callable[[int, int | None, str], None]

MIRFLICKR_LABELS = (
    "animals", "baby", "bird", "car", "clouds", "dog", "female", "flower", "food", "indoor",
    "lake", "male", "night", "people", "plant_life", "portrait", "river", "sea", "sky",
    "structures", "sunset", "transport", "tree", "water",
)  # fmt: skip
# A tag of MIRFlickr25K must occur on so many photographs: 1,386 tags do.
_MIN_TAG_COUNT = 20
_N_CONCEPTS, _N_TAGS, _N_WORDS = 10, 1_000, 500  # of NUS-WIDE
# Edge histogram: side of the photograph, sub-images and blocks per side, and least response.
_SIDE, _N_SUB_IMAGES, _BLOCK, _MIN_RESPONSE = 128, 4, 4, 11.0
_ROOT = np.sqrt(2.0)
# MPEG-7: vertical, horizontal, 45 degrees, 135 degrees, without direction.
_FILTERS = np.array(
    [[1, -1, 1, -1], [1, 1, -1, -1], [_ROOT, 0, 0, -_ROOT], [0, _ROOT, -_ROOT, 0], [2, -2, -2, 2]]
)
_MAX_SIDE = 4_096  # of photographs in a Matlab file


def convert_mirflickr(files: Originals, features: str, progress: Progress) -> MultiViewData:
    """Convert photographs, tags and annotations, or the field's Matlab files.

    Keeps the tags of at least 20 photographs, and the photographs with such a tag and a label:
    1,386 and 20,015 of the whole collection.
    """
    if files.names("mirflickr25k-yall", ".mat"):
        return _mirflickr_from_mat(files, features, progress)
    numbers = sorted(
        int(match[1])
        for name in files.names("im", ".jpg")
        if (match := re.match(r"im(\d+)\.", name))
    )
    if not numbers:
        files.path("mirflickr25k.zip")  # says what is missing
        raise InvalidInputError(
            f"mirflickr25k.zip in {files.folder} has no photographs im1.jpg ..."
        )
    row_of = {number: row for row, number in enumerate(numbers)}
    labels = np.zeros((len(numbers), len(MIRFLICKR_LABELS)), dtype=np.uint8)
    for column, label in enumerate(MIRFLICKR_LABELS):
        for line in files.lines(f"{label}.txt"):
            if not line.isdecimal() or int(line) not in row_of:
                raise CorruptBundleError(f"{label}.txt names photograph {line[:40]!r}, not there")
            labels[row_of[int(line)], column] = 1
    tags = [list(dict.fromkeys(files.lines(f"tags/tags{number}.txt"))) for number in numbers]
    counts = Counter(tag for row in tags for tag in row)
    frequent = [tag for tag, count in counts.items() if count >= _MIN_TAG_COUNT]
    names = sorted(frequent, key=lambda tag: (-counts[tag], tag))
    if not names:
        raise InvalidInputError(f"no tag occurs on {_MIN_TAG_COUNT} photographs of {files.folder}")
    column_of = {tag: column for column, tag in enumerate(names)}
    columns = [[column_of[tag] for tag in row if tag in column_of] for row in tags]
    rows = [row for row in range(len(numbers)) if columns[row] and labels[row].any()]
    text = _binary_rows([columns[row] for row in rows], len(names))
    photographs = (files.photograph(f"im{numbers[row]}.jpg") for row in rows)
    ids = np.array([numbers[row] for row in rows], dtype=np.int32)
    return MultiViewData(
        {"image": _encode(photographs, features, len(rows), progress), "text": text},
        labels[rows],
        label_names=MIRFLICKR_LABELS,
        ids=ids,
        items={"tags": [" ".join(names[column] for column in columns[row]) for row in rows]},
    )


def _mirflickr_from_mat(files: Originals, features: str, progress: Progress) -> MultiViewData:
    matrices = convert_matrices(files, "mirflickr25k")
    labels = as_binary(matrices["labels"], "LAll").toarray()
    if "image" not in matrices or features == "network":
        photographs = _stored_photographs(files, len(labels))
        image = _encode(photographs, features, len(labels), progress)
    else:
        image = np.ascontiguousarray(matrices["image"], dtype=np.float32)
    names = MIRFLICKR_LABELS if labels.shape[1] == len(MIRFLICKR_LABELS) else None
    text = as_binary(matrices["text"], "YAll")
    return MultiViewData({"image": image, "text": text}, labels, label_names=names)


def _stored_photographs(files: Originals, n_items: int) -> Iterator[Any]:
    """Yield the photographs of ``mirflickr25k-iall.mat``: IAll, (height, width, 3, items)."""
    path = files.path("mirflickr25k-iall.mat")
    image_module = require("PIL.Image")
    with reading(path), require("h5py").File(path, "r") as file:
        node = dict(list_nodes(file, path)).get("IAll")
        shape = getattr(node, "shape", ())
        is_right = len(shape) == 4 and shape[:2] == (n_items, 3) and max(shape[2:]) <= _MAX_SIDE
        if node is None or not is_right or node.dtype != np.uint8:
            raise CorruptBundleError(
                f"{path.name} has no IAll of {n_items:,} photographs with 3 colours as uint8"
            )
        for row in range(n_items):
            # HDF5 has Matlab's dimensions in reverse order.
            yield image_module.fromarray(np.ascontiguousarray(node[row].transpose(2, 1, 0)))


def _encode(photographs: Iterable[Any], features: str, n_items: int, progress: Progress) -> Floats:
    def counted() -> Iterator[Any]:
        for number, photograph in enumerate(photographs, start=1):
            yield photograph
            progress(number, n_items, "encoding photographs")

    if features == "network":
        return np.asarray(EfficientNetLite0().fit([]).transform(counted()), dtype=np.float16)
    return np.stack([edge_histogram(photograph) for photograph in counted()])


def edge_histogram(photograph: Any) -> Floats:
    """Return the MPEG-7 edge histogram of a photograph, not quantized.

    The photograph is resized to 128 x 128 pixels in grey, which makes 16 sub-images of 64 blocks.
    A block counts for the edge filter with the largest response above 11. The 150 values are the
    shares of 5 edge types: by sub-image (80), of all (5), and by columns, rows and five clusters
    of 2 x 2 sub-images (65).

    Parameters
    ----------
    photograph : path, bytes or PIL.Image.Image

    Returns
    -------
    float32 (150,)
    """
    image = read_image(photograph)
    if image.size != (_SIDE, _SIDE):
        image = image.resize((_SIDE, _SIDE))
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    half, n_blocks = _BLOCK // 2, _SIDE // _BLOCK
    means = grey.reshape(2 * n_blocks, half, 2 * n_blocks, half).mean(axis=(1, 3))
    blocks = means.reshape(n_blocks, 2, n_blocks, 2).transpose(0, 2, 1, 3)
    responses = np.abs(blocks.reshape(n_blocks, n_blocks, 4) @ _FILTERS.T)
    has_edge = responses.max(axis=2, keepdims=True) > _MIN_RESPONSE
    edges = (responses.argmax(axis=2)[..., np.newaxis] == np.arange(len(_FILTERS))) & has_edge
    size = n_blocks // _N_SUB_IMAGES
    local = edges.reshape(_N_SUB_IMAGES, size, _N_SUB_IMAGES, size, -1).mean(axis=(1, 3))
    corners = [(0, 0), (0, 2), (2, 0), (2, 2), (1, 1)]
    clusters = [local[y : y + 2, x : x + 2].mean(axis=(0, 1)) for y, x in corners]
    parts = [local, local.mean(axis=(0, 1)), local.mean(axis=0), local.mean(axis=1), *clusters]
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def convert_nuswide(files: Originals, progress: Progress) -> MultiViewData:
    """Convert labels, tags and bags of visual words, or the field's Matlab files.

    Keeps the ten largest concepts and the photographs with one of them: 186,577 of all.
    """
    if files.names("nus-wide-tc10-yall", ".mat"):
        matrices = convert_matrices(files, "nus-wide-tc10")
        if "image" not in matrices:
            files.path("nus-wide-tc10-xall.mat")  # says what is missing
        labels = as_binary(matrices["labels"], "LAll").toarray()
        image = np.ascontiguousarray(matrices["image"], dtype=np.float32)
        return MultiViewData({"image": image, "text": as_binary(matrices["text"], "YAll")}, labels)
    names = [
        name
        for name in files.names("Labels_", ".txt")
        if not name.endswith(("_Train.txt", "_Test.txt"))
    ]
    if len(names) < _N_CONCEPTS:
        files.path("AllLabels/Labels_sky.txt")  # says what is missing
        raise InvalidInputError(f"AllLabels has {len(names)} concepts, expected 81")
    columns: dict[str, Array] = {}
    for number, name in enumerate(names, start=1):
        progress(number, len(names), "reading labels")
        concept = name.removeprefix("Labels_").removesuffix(".txt")
        columns[concept] = files.table(name, 1)[:, 0] == 1
    if len({len(column) for column in columns.values()}) > 1:
        raise CorruptBundleError("the files of AllLabels have different numbers of lines")
    largest = sorted(columns, key=lambda concept: (-columns[concept].sum(), concept))[:_N_CONCEPTS]
    labels = np.stack([columns[concept] for concept in largest], axis=1)
    has_concept = np.any(labels, axis=1, keepdims=True)[:, 0]
    text = _select_rows(files, "AllTags1k.txt", _N_TAGS, has_concept, sp.csr_array, progress)
    words = _select_rows(files, "BoW_int.dat", _N_WORDS, has_concept, np.asarray, progress)
    return MultiViewData(
        {"image": np.concatenate(words), "text": as_binary(sp.vstack(text), "AllTags1k.txt")},
        labels[has_concept].astype(np.uint8),
        label_names=largest,
        ids=np.flatnonzero(has_concept),
    )


def _select_rows(
    files: Originals,
    name: str,
    width: int,
    has_concept: Array,
    make: Callable[[Array], Any],
    progress: Progress,
) -> list[Any]:
    """Return the selected rows of a large table in chunks, made into another kind of array."""
    chunks, start = [], 0
    for rows in files.numbers(name, width):
        mask = has_concept[start : start + len(rows)]
        if len(mask) < len(rows):
            break
        chunks.append(make(rows[mask].astype(np.float32)))
        start += len(rows)
        progress(start, len(has_concept), f"reading {name}")
    if start != len(has_concept):
        raise CorruptBundleError(
            f"{name} must have as many lines as the files of AllLabels, {len(has_concept):,}"
        )
    return chunks


def _binary_rows(columns: list[list[int]], width: int) -> sp.csr_array:
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for row in columns for column in sorted(row)], dtype=np.int32)
    return sp.csr_array((np.ones(len(indices), np.uint8), indices, indptr), (len(columns), width))
