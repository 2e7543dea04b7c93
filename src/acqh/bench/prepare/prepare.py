"""Convert a data set from its original files to the .npz file that `acqh.load_dataset` reads."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from acqh.bench.prepare.coco import convert_coco
from acqh.bench.prepare.features import convert_uci, convert_wiki
from acqh.bench.prepare.flickr import Progress, convert_mirflickr, convert_nuswide
from acqh.bench.prepare.originals import Originals
from acqh.data import MultiViewData, load_dataset, save_npz
from acqh.data.datasets.files import ENVIRONMENT_VARIABLE, data_folder
from acqh.errors import DatasetWarning, InvalidInputError

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
