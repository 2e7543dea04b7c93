"""Convert a data set from its original files to the .npz file that `acqh.load_dataset` reads."""

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Floats, Matrix, is_sparse
from acqh._core.files import parse_json
from acqh._core.imports import require
from acqh.bench.originals import Originals
from acqh.data import MultiViewData, load_dataset, read, save_npz
from acqh.data.datasets import ENVIRONMENT_VARIABLE, data_folder
from acqh.data.readers.groups import list_nodes, reading
from acqh.data.readers.mat_files import open_mat
from acqh.encoders import EfficientNetLite0, read_image
from acqh.errors import CorruptBundleError, DatasetWarning, InvalidInputError, LabelError

_N_CLASSES = 10
_WIKI_LISTS = {"tr": "trainset_txt_img_cat.list", "te": "testset_txt_img_cat.list"}


def convert_wiki(files: Originals) -> MultiViewData:
    """Convert the publisher's features and lists, or a ``wikiData.mat``."""
    if "wikiData.mat" in files and "raw_features.mat" not in files:
        return _convert_mat(files, files.path("wikiData.mat"))
    path = files.path("raw_features.mat")
    names = [f"{view}_{part}" for part in _WIKI_LISTS for view in "IT"]
    matrices = load_variables(path, names)
    views: dict[str, list[Array]] = {"image": [], "text": []}
    labels, splits, start = [], {}, 0
    for part, split in (("tr", "train"), ("te", "test")):
        classes = _wiki_classes(files, _WIKI_LISTS[part])
        for view, letter in (("image", "I"), ("text", "T")):
            rows = np.asarray(matrices[f"{letter}_{part}"])
            if len(rows) != len(classes):
                raise CorruptBundleError(
                    f"{_WIKI_LISTS[part]} has {len(classes)} lines, but {letter}_{part} of "
                    f"raw_features.mat has {len(rows)} rows; they must be of one release"
                )
            views[view].append(rows)
        labels.append(np.eye(_N_CLASSES, dtype=np.uint8)[classes])
        splits[split] = np.arange(start, start + len(classes))
        start += len(classes)
    data = {
        "image": np.concatenate(views["image"]).astype(np.float32),
        "text": np.concatenate(views["text"]),
    }
    return MultiViewData(data, np.concatenate(labels), splits=splits)


def _wiki_classes(files: Originals, name: str) -> list[int]:
    """Return the classes, from 0, of a list with the columns text, image and class."""
    classes = []
    for number, line in enumerate(files.lines(name), start=1):
        field = line.split("\t")[-1]
        if not (field.isdecimal() and 1 <= int(field) <= _N_CLASSES):
            raise CorruptBundleError(
                f"{name}, line {number}: the last column must be a class from 1 to {_N_CLASSES}, "
                f"got {field[:40]!r}"
            )
        classes.append(int(field) - 1)
    return classes


def convert_uci(files: Originals) -> MultiViewData:
    """Convert ``mfeat-fou``, ``mfeat-kar`` and ``mfeat-pix``, or a ``uci_all.mat``.

    Rows of both features get unit length, as in ``uci_all.mat``. The publisher gives no split.
    """
    if "uci_all.mat" in files and "mfeat-fou" not in files:
        return _convert_mat(files, files.path("uci_all.mat"), pixels=True)
    views = {
        "image": _unit_rows(files.table("mfeat-fou", 76)),
        "text": _unit_rows(files.table("mfeat-kar", 64)),
        "pixels": files.table("mfeat-pix", 240).astype(np.uint8),
    }
    counts = {len(rows) for rows in views.values()}
    if len(counts) > 1 or counts.pop() % _N_CLASSES:
        raise CorruptBundleError(
            "mfeat-fou, mfeat-kar and mfeat-pix must have the same number of lines, a multiple of "
            f"{_N_CLASSES}, got {', '.join(str(len(rows)) for rows in views.values())}"
        )
    per_class = len(views["image"]) // _N_CLASSES  # the classes follow one another
    return MultiViewData(views, np.repeat(np.eye(_N_CLASSES, dtype=np.uint8), per_class, axis=0))


def _unit_rows(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def _convert_mat(files: Originals, path: Path, *, pixels: bool = False) -> MultiViewData:
    """Convert one Matlab file with training and test items."""
    data = read(path)
    if data.labels is None or len(data.label_names) != _N_CLASSES:
        raise LabelError(
            f"{path} has {len(data.label_names)} classes, expected {_N_CLASSES} for "
            f"{files.dataset!r}"
        )
    extra = {}
    if pixels:
        parts = load_variables(path, ["P_tr", "P_te"])
        extra["pixels"] = np.concatenate([*map(np.asarray, parts.values())]).astype(np.uint8)
    dtypes = {"image": np.float32, "text": np.float32 if pixels else np.float64}
    views = {view: data.views[view].astype(dtype) for view, dtype in dtypes.items()}
    return MultiViewData({**views, **extra}, data.labels, splits=data.splits)


def convert_matrices(files: Originals, prefix: str) -> dict[str, Matrix]:
    """Return image, text and labels of the files ``PREFIX-xall.mat``, ``-yall`` and ``-lall``."""
    matrices = {}
    for role, letter in (("image", "x"), ("text", "y"), ("labels", "l")):
        names = files.names(f"{prefix}-{letter}all", ".mat")
        if role == "image" and not names:
            continue  # photographs, in -iall.mat
        path = files.path(names[0] if names else f"{prefix}-{letter}all.mat")
        matrices[role] = load_variables(path, [f"{letter.upper()}All"])[f"{letter.upper()}All"]
    counts = set.intersection(*(set(matrix.shape) for matrix in matrices.values()))
    if len(counts) != 1:
        shapes = ", ".join(f"{role} {matrix.shape}" for role, matrix in matrices.items())
        raise CorruptBundleError(f"the {prefix} files have no common number of items: {shapes}")
    n_items = counts.pop()
    return {
        role: matrix if matrix.shape[0] == n_items else matrix.T
        for role, matrix in matrices.items()
    }


def load_variables(path: Path, names: list[str]) -> dict[str, Matrix]:
    """Return variables of a Matlab file; raise InvalidInputError for a missing one."""
    with open_mat(path, None) as file:
        for name in names:
            if name not in file.variables or not file.variables[name].is_matrix:
                raise InvalidInputError(
                    f"{path.name} has no matrix {name}; it has {', '.join(file.variables) or '-'}"
                )
        return {name: file.load(name) for name in names}


def as_binary(matrix: Matrix, name: str) -> sp.csr_array:
    """Return a matrix of 0 and 1 as CSR uint8; raise InvalidInputError for other values."""
    rows = sp.csr_array(matrix if is_sparse(matrix) else np.asarray(matrix))
    if rows.nnz and not np.isin(rows.data, (0, 1)).all():
        raise InvalidInputError(f"{name} must have the values 0 and 1 only")
    rows = rows.astype(np.uint8)
    rows.eliminate_zeros()
    return rows


N_CAPTIONS = 5


def convert_coco(
    files: Originals, progress: Callable[[int, int | None, str], None]
) -> MultiViewData:
    """Encode the photographs by the built-in network; their first five captions become columns."""
    name = "captions_val2017.json"
    try:
        content = parse_json(files.read(name))
        photographs = {int(entry["id"]): str(entry["file_name"]) for entry in content["images"]}
        captions: dict[int, list[str]] = defaultdict(list)
        for entry in sorted(content["annotations"], key=lambda entry: int(entry["id"])):
            captions[int(entry["image_id"])].append(" ".join(str(entry["caption"]).split()))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptBundleError(f"{name} is not a file of COCO captions: {error!r}") from None
    ids = sorted(photographs)
    few = [number for number in ids if len(captions[number]) < N_CAPTIONS]
    if few or not ids:
        raise CorruptBundleError(
            f"{name}: {len(few)} of {len(ids)} photographs have fewer than {N_CAPTIONS} captions"
        )

    def images() -> Iterator[Any]:
        for number, row in enumerate(ids, start=1):
            yield files.photograph(photographs[row])
            progress(number, len(ids), "encoding photographs")

    features = EfficientNetLite0().fit([]).transform(images())
    columns = {
        f"caption_{place + 1}": [captions[row][place] for row in ids] for place in range(N_CAPTIONS)
    }
    return MultiViewData(
        {"image": np.asarray(features, dtype=np.float16)},
        ids=np.array(ids),
        items={"image": [photographs[row] for row in ids], **columns},
    )


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
        encoder = EfficientNetLite0(classes=False).fit([])
        return np.asarray(encoder.transform(counted()), dtype=np.float16)
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


_CONVERTERS: dict[str, Callable[[Originals, str, Progress], MultiViewData]] = {
    "coco-val2017": lambda files, _, progress: convert_coco(files, progress),
    "mirflickr25k": convert_mirflickr,
    "nuswide10": lambda files, _, progress: convert_nuswide(files, progress),
    "uci_mfeat": lambda files, *_: convert_uci(files),
    "wiki": lambda files, *_: convert_wiki(files),
}


@dataclass(frozen=True)
class PreparedDataset:
    """Result of `prepare_dataset`.

    Attributes
    ----------
    path : Path
        The file written.
    n_items : int
    differences : str
        How the contents differ from those that the documented results are for; empty if nowhere.

    Examples
    --------
    >>> from acqh.bench import prepare_dataset
    >>> prepare_dataset("wiki", "wikipedia_dataset", "data").path  # doctest: +SKIP
    PosixPath('data/wiki.npz')
    """

    path: Path
    n_items: int
    differences: str


def prepare_dataset(
    name: str,
    source: str | PathLike[str],
    data_dir: str | PathLike[str] | None = None,
    *,
    features: str = "edge",
    progress: Progress = lambda *_: None,
) -> PreparedDataset:
    """Convert a data set from the files of its publisher.

    Archives are read in place: nothing is unpacked, and nothing in them is run. The file is
    written under a temporary name and renamed at the end.

    Parameters
    ----------
    name : str
        A data set of `acqh.list_datasets` with originals.
    source : path
        Folder with the original files or their .zip archives.
    data_dir : path, optional
        Folder to write to. Default: the environment variable ``ACQH_DATA``.
    features : {"edge", "network"}
        Image features of ``mirflickr25k``: edge histograms, or, in a second file, those of the
        built-in network (extra ``images``).
    progress : callable
        Called with number, total and step.

    Returns
    -------
    PreparedDataset

    Raises
    ------
    InvalidInputError
        Unknown name, missing folder, or contents of another layout.
    DatasetNotFoundError
        An original file is missing; the message lists them with their pages.
    CorruptBundleError
        An original file is damaged.

    Examples
    --------
    >>> import acqh
    >>> acqh.bench.prepare_dataset("wiki", "wikipedia_dataset", "data")  # doctest: +SKIP
    PreparedDataset(path=PosixPath('data/wiki.npz'), n_items=2866, differences='')
    """
    if name not in _CONVERTERS:
        raise InvalidInputError(
            f"acqh cannot prepare {name!r}; choose one of {', '.join(sorted(_CONVERTERS))}"
        )
    if features not in ("edge", "network") or (features != "edge" and name != "mirflickr25k"):
        raise InvalidInputError(
            f"features must be 'edge', or 'network' for mirflickr25k, got {features!r}"
        )
    folder = data_folder(data_dir)
    if folder is None:
        raise InvalidInputError(f"pass `data_dir`, or set {ENVIRONMENT_VARIABLE}")
    with Originals(name, Path(source).expanduser()) as files:
        data = _CONVERTERS[name](files, features, progress)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{'_deep' if features == 'network' else ''}.npz"
    if features == "network":
        data = MultiViewData({"image": data.views["image"]}, ids=data.ids)
    save_npz(data, path)
    differences = "features of the built-in network, not of ImageNet weights"
    if features == "edge":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DatasetWarning)
            load_dataset(name, folder)
        texts = [str(warning.message) for warning in caught]
        differences = "; ".join(text.partition("are for: ")[2] for text in texts)
    return PreparedDataset(path, len(data), differences)
