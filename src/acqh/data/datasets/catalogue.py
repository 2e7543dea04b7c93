"""Named data sets: list them, locate their files and load them."""

import inspect
import os
from dataclasses import dataclass, fields
from typing import Any

from acqh._core.imports import load_plugins
from acqh._core.runtime import suggest
from acqh.data.datasets.files import DataFolder, data_folder
from acqh.data.datasets.named import DATASETS, DatasetFacts, NamedDataset
from acqh.data.multiview import MultiViewData
from acqh.errors import InvalidInputError


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
