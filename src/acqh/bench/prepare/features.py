"""Converters of published features: Wiki, UCI Multiple Features, and Matlab files of the field."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Matrix, is_sparse
from acqh.bench.prepare.originals import Originals
from acqh.data import MultiViewData, read
from acqh.data.readers.mat_files import Mat5File, Mat73File, is_hdf5
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError

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
    with (Mat73File if is_hdf5(path) else Mat5File)(path, None) as file:
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
