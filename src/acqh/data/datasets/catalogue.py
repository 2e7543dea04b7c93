"""Named data sets: what there is, where its files lie, and how to load it."""

import os
from dataclasses import dataclass, fields
from typing import Any

from acqh._core.imports import load_plugins
from acqh.data.datasets.files import DataFolder, data_folder
from acqh.data.datasets.named import DATASETS, DatasetFacts, NamedDataset
from acqh.data.multiview import MultiViewData
from acqh.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class DatasetInfo(DatasetFacts):
    """What is known of a named data set, and whether its files are there.

    Attributes
    ----------
    name, description : str
    n_items, n_labels : int
    views : mapping of str to str
        What each view is.
    files : tuple of str
        The files it always needs; none where it comes with the package.
    missing : tuple of str
        Those that were not found, each with what it must hold.
    looked_in : str or None
        The folder that was searched; None where none was named.
    options : tuple of str
        Keyword arguments of `load_dataset` for this data set, with their values.
    source : str
        Where the data come from.
    differs : str
        How the data differ from those of the paper.
    preprocessing : str
        What the paper does to the features; to be fitted on training rows.
    preparation : mapping of str to mapping
        The same, by view: the class of a feature map and its parameters.

    Examples
    --------
    >>> import acqh
    >>> emoji = next(info for info in acqh.list_datasets() if info.name == "emoji")
    >>> emoji.found, emoji.n_items, sorted(emoji.views)
    (True, 1906, ['image', 'text'])
    """

    name: str
    files: tuple[str, ...]
    missing: tuple[str, ...]
    looked_in: str | None
    options: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


def known_datasets() -> dict[str, NamedDataset]:
    """Return the package's own data sets and those that installed packages add.

    Raises InvalidInputError: an added one is not a NamedDataset, or has the name of one of the
    package's own.
    """
    added = load_plugins("acqh.datasets")
    for name, dataset in added.items():
        if name in DATASETS or not isinstance(dataset, NamedDataset):
            raise InvalidInputError(
                f"the plug-in data set {name!r} must be a NamedDataset, of a name that is not "
                f"one of {', '.join(sorted(DATASETS))}"
            )
    return {**DATASETS, **added}


def list_datasets(data_dir: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Say which data sets have names, and which of them can be loaded here.

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
    ['emoji', 'mirflickr25k', 'nuswide10', 'uci_mfeat', 'wiki']
    """
    folder = data_folder(data_dir)
    found = []
    for name, dataset in sorted(known_datasets().items()):
        needed = [file for file in dataset.files if file.only_for is None]
        found.append(
            DatasetInfo(
                name=name,
                files=tuple(file.name for file in needed),
                missing=tuple(file.describe() for file in needed if file.find(folder) is None),
                looked_in=None if folder is None else str(folder),
                options=tuple(f"{key}={values}" for key, values in dataset.options.items()),
                **{fact.name: getattr(dataset, fact.name) for fact in fields(DatasetFacts)},
            )
        )
    return found


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
        One of those that `list_datasets` names.
    data_dir : path, optional
        Folder with the files; the environment variable ``ACQH_DATA`` by default.
    verify : bool
        Check the sha256 of the files and the number of items. Without it a file of other
        contents is taken, as long as views and labels have the right widths.
    **options
        Of the data set; `list_datasets` names them.

    Returns
    -------
    MultiViewData

    Raises
    ------
    InvalidInputError
        The name or an option is not known, or the contents do not have the right shape.
    DatasetNotFoundError
        A file is missing; the message says which, what it must hold and where to put it.
    ChecksumError
        A file is not the one it should be.

    Examples
    --------
    >>> import acqh
    >>> acqh.load_dataset("coco")
    Traceback (most recent call last):
        ...
    acqh.errors.InvalidInputError: no data set is called 'coco'; there are emoji,
    mirflickr25k, nuswide10, uci_mfeat, wiki
    """
    known = known_datasets()
    if name not in known:
        raise InvalidInputError(
            f"no data set is called {name!r}; there are {', '.join(sorted(known))}"
        )
    dataset = known[name]
    for option in options:
        if option not in dataset.options:
            options_known = ", ".join(dataset.options) or "none"
            raise InvalidInputError(
                f"data set {name!r} has no option {option!r}; its options: {options_known}"
            )
    folder = DataFolder(name, dataset.source, dataset.files, data_folder(data_dir), verify)
    return dataset.load(folder, **options)
