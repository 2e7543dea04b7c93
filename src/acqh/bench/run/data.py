"""The data of a run: named data sets and files, their checksum and their preparation."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import is_sparse
from acqh._core.runtime import check_rng
from acqh._core.store import unpack
from acqh.bench.protocol.split import Split, labels_of
from acqh.data import MultiViewData, list_datasets, load_dataset, read
from acqh.errors import DatasetNotFoundError
from acqh.methods.feature_maps import fit_feature_maps
from acqh.methods.state import HOMES


@dataclass(frozen=True, eq=False)
class BenchData:
    """Data to run methods on."""

    data: MultiViewData
    sha256: str  # of the contents, whatever file they came from
    # Feature maps by view, as they are stored.
    preparation: Mapping[str, Any]


def open_data(argument: str, data_dir: str | PathLike[str] | None = None) -> BenchData:
    """Load what a person named: a data set, or a file.

    Parameters
    ----------
    argument : str
        A name of `acqh.list_datasets`, if need be with options, such as
        ``"mirflickr25k:features=deep"``; or the path of a file that `acqh.data.read` reads. A
        file of a named data set is that data set.
    data_dir : path, optional
        Folder with the files of named data sets; ``ACQH_DATA`` by default.

    Raises
    ------
    DatasetNotFoundError
        It is neither.
    LabelError
        The data have no labels.

    Examples
    --------
    >>> open_data("nowhere.npz")
    Traceback (most recent call last):
        ...
    acqh.errors.DatasetNotFoundError: 'nowhere.npz' is neither a file nor a data set...
    """
    name, options = _split_options(argument)
    known = {info.name: info for info in list_datasets(data_dir)}
    path = Path(argument).expanduser()
    if name not in known and path.exists():
        # A file of a named data set is loaded as that, with its own labels and preparation.
        named = [info.name for info in known.values() if path.name in info.files]
        if not named:
            return of_memory(read(path))
        name, options, data_dir = named[0], {}, path.parent
    if name not in known:
        raise DatasetNotFoundError(
            f"{argument!r} is neither a file nor a data set; data sets are "
            f"{', '.join(sorted(known))}"
        )
    return of_memory(load_dataset(name, data_dir, **options), known[name].preparation)


def _split_options(argument: str) -> tuple[str, dict[str, Any]]:
    name, _, given = argument.partition(":")
    pairs = (pair.partition("=") for pair in given.split(",") if pair)
    truths = {"true": True, "false": False}
    return name, {key: truths.get(value.lower(), value) for key, _, value in pairs}


def of_memory(data: MultiViewData, preparation: Mapping[str, Any] | None = None) -> BenchData:
    """Return data that are loaded already.

    Raises LabelError: they have no labels.
    """
    labels_of(data)
    return BenchData(data, hash_contents(data), preparation or {})


def hash_contents(data: MultiViewData) -> str:
    """Return the sha256 of all that a run depends on: views, labels, ids, official split."""
    digest = hashlib.sha256()

    def add(name: str, array: Any) -> None:
        array = np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        # Text has no one dtype: the same ids may lie in wider or narrower fields.
        digest.update(
            "\n".join(map(str, array.tolist())).encode()
            if array.dtype.kind in "OUS"
            else array.tobytes()
        )

    def add_matrix(name: str, matrix: Any) -> None:
        if not is_sparse(matrix):
            add(name, matrix)
            return
        for piece in ("data", "indices", "indptr"):
            add(f"{name} {piece}", getattr(matrix, piece))

    for name in sorted(data.views):
        add_matrix(f"view {name} {data.views[name].shape}", data.views[name])
        add(f"present {name}", data.present[name])
    add_matrix("labels", data.labels)
    add("ids", data.ids.astype(str))
    for name in sorted(data.splits):
        add(f"split {name}", data.splits[name])
    return digest.hexdigest()


def prepare(source: BenchData, split: Split) -> MultiViewData:
    """Return all items with their views prepared; what there is to fit is fitted on training rows.

    Every method then starts from the same features, and no fit time includes preparing them.
    """
    if not source.preparation:
        return source.data
    maps = {
        view: unpack(dict(described), {}, HOMES) for view, described in source.preparation.items()
    }
    train = source.data.subset(split.train)
    fitted = fit_feature_maps(maps, train, rng=check_rng(split.seed))
    return source.data.with_views(
        {view: made.transform(source.data.views[view]) for view, made in fitted.items()}
    )
