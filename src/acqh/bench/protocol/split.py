"""The rows of one run: what they are, cutting data by them, saving and loading them."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Array, Ints, Matrix
from acqh.data import MultiViewData
from acqh.errors import CorruptBundleError, InvalidInputError, LabelError
from acqh.io import replace_file

_FORMAT = "acqh-split"
_VERSION = 1
_ROWS = ("train", "query", "database")
# The other fields of a file, and what makes one of what JSON gives.
_FACTS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"protocol": str, "seed": int, "dataset": str, "n_items": int, "ids_sha256": str}
)


@dataclass(frozen=True)
class Protocol:
    """Which items are learnt from and searched, and what is known of them.

    Attributes
    ----------
    name, title, description : str
    searched : {"train", "rest", "all"}
        The items searched: those learnt from, labels and all; those that are neither learnt from
        nor queries; or all that are not queries. Only the first show their labels.
    learns_from_labels : bool
        Whether training items have their labels.
    """

    name: str
    title: str
    description: str
    searched: Literal["train", "rest", "all"]
    learns_from_labels: bool = True

    @property
    def database_is_train(self) -> bool:
        """Whether the items searched are the items learnt from, labels and all."""
        return self.searched == "train"


_PROTOCOLS = (
    Protocol("labelled", "labelled database", "the database is the training set", "train"),
    Protocol(
        "unlabelled",
        "unlabelled database",
        "training, query and database items differ; database labels hidden",
        "rest",
    ),
    Protocol(
        "label-free",
        "no labels at all",
        "training, query and database items differ; all labels hidden, also in training",
        "rest",
        learns_from_labels=False,
    ),
    Protocol(
        "field",
        "the field's protocol",
        "the database is all that is not a query, training items included; its labels hidden",
        "all",
    ),
)
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({each.name: each for each in _PROTOCOLS})


def list_protocols() -> list[Protocol]:
    """Return the protocols that `make_split` knows.

    Examples
    --------
    >>> [protocol.name for protocol in list_protocols()]
    ['labelled', 'unlabelled', 'label-free', 'field']
    """
    return list(PROTOCOLS.values())


def find_protocol(name: str) -> Protocol:
    """Return a protocol by its name; raise InvalidInputError."""
    if name not in PROTOCOLS:
        raise InvalidInputError(f"`protocol` is one of {', '.join(PROTOCOLS)}, not {name!r}")
    return PROTOCOLS[name]


@dataclass(frozen=True)
class SplitParts:
    """The data of a split.

    Attributes
    ----------
    train, query, database : MultiViewData
        Training set and database have no labels where the protocol hides them.
    database_labels : uint8 ndarray or csr_array, (n_database, n_labels)
        For scoring only.
    """

    train: MultiViewData
    query: MultiViewData
    database: MultiViewData
    database_labels: Matrix


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one run.

    Attributes
    ----------
    train, query, database : int64 ndarray
        Row numbers, rising.
    protocol : str
    seed : int
    dataset : str
        Name of the data.
    n_items : int
        Number of rows of the data, also those in no part.
    ids_sha256 : str
        Of the ids of the data, so that other data are recognised.
    """

    train: Ints
    query: Ints
    database: Ints
    protocol: str
    seed: int
    dataset: str
    n_items: int
    ids_sha256: str

    @property
    def sha256(self) -> str:
        """Checksum of the row numbers: equal for equal splits, on every machine."""
        digest = hashlib.sha256()
        for name in ("train", "query", "database"):
            rows = np.ascontiguousarray(getattr(self, name), dtype="<i8")
            digest.update(f"{name} {len(rows)}\n".encode())
            digest.update(rows.tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return (
            f"Split({self.dataset!r}, {self.protocol}, seed {self.seed}: {len(self.train):,} "
            f"train, {len(self.query):,} query, {len(self.database):,} database)"
        )

    def check(self, data: MultiViewData) -> None:
        """Raise InvalidInputError unless the split was made of these items in this order."""
        if len(data) != self.n_items:
            raise InvalidInputError(
                f"the split is of {self.n_items:,} items of {self.dataset!r}, but "
                f"{data.name!r} has {len(data):,}"
            )
        if hash_ids(data.ids) != self.ids_sha256:
            raise InvalidInputError(
                f"the split is of {self.dataset!r}, whose ids are not those of {data.name!r}, "
                "or are in another order; load the data as it was loaded for the split"
            )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the split to a JSON file, in one step: there is never half a file.

        Parameters
        ----------
        path : path
            Replaced if it exists.
        """
        record = {
            "format": _FORMAT,
            "version": _VERSION,
            **{name: getattr(self, name) for name in _FACTS},
            "sha256": self.sha256,
            **{name: getattr(self, name).tolist() for name in _ROWS},
        }
        replace_file(Path(path), json.dumps(record).encode())

    @classmethod
    def load(cls, path: str | PathLike[str], data: MultiViewData) -> "Split":
        """Read a split and check it against the data it was made of.

        Parameters
        ----------
        path : path
        data : MultiViewData

        Returns
        -------
        Split

        Raises
        ------
        CorruptBundleError
            The file is damaged or is not a split.
        InvalidInputError
            It is a split of other data.
        """
        split = _read(Path(path))
        split.check(data)
        return split

    def parts(self, data: MultiViewData) -> SplitParts:
        """Cut the data into its parts.

        Parameters
        ----------
        data : MultiViewData
            The data the split was made of.

        Returns
        -------
        SplitParts

        Raises
        ------
        InvalidInputError
            The data are others.
        LabelError
            The data have no labels.
        """
        self.check(data)
        labels_of(data)
        protocol = PROTOCOLS[self.protocol]
        train = data.subset(self.train)
        if protocol.database_is_train:
            database, database_labels = train, train.labels
        else:
            labelled = data.subset(self.database)
            database, database_labels = labelled.without_labels(), labelled.labels
        if not protocol.learns_from_labels:
            train = train.without_labels()
        return SplitParts(train, data.subset(self.query), database, database_labels)


def _read(path: Path) -> Split:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptBundleError(f"{path} is damaged or not a split: {error}") from error
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise CorruptBundleError(f"{path} is not a split: its format is not {_FORMAT!r}")
    if record.get("version") != _VERSION:
        raise CorruptBundleError(
            f"{path} is a split of version {record.get('version')!r}; this acqh reads {_VERSION}"
        )
    try:
        rows: dict[str, Any] = {name: np.array(record[name], dtype=np.int64) for name in _ROWS}
        split = Split(**rows, **{name: kind(record[name]) for name, kind in _FACTS.items()})
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptBundleError(f"{path} is damaged: {error!r}") from error
    if split.protocol not in PROTOCOLS or split.sha256 != record.get("sha256"):
        raise CorruptBundleError(f"{path} is damaged: its rows do not have the sha256 it states")
    return split


def labels_of(data: MultiViewData) -> Matrix:
    """Return the labels that answers are scored by; raise LabelError where there are none."""
    if data.labels is None:
        raise LabelError(f"{data.name!r} has no labels, so answers cannot be scored")
    return data.labels


def hash_ids(ids: Array) -> str:
    """Return the sha256 of ids, in their order."""
    return hashlib.sha256("\n".join(map(str, ids.tolist())).encode()).hexdigest()
