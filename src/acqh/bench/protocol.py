"""Training, query and database items of a run."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from acqh._core.arrays import Array, Bools, Ints, Matrix, check_positive_int
from acqh._core.runtime import check_rng
from acqh.data import MultiViewData, split_rows
from acqh.data.splits import official_rows
from acqh.errors import InvalidInputError, LabelError

# Number of queries and, with an unlabelled database, of training items by data set; for other data
# a fifth of the items and half of the rest.
_N_QUERY = {"mirflickr25k": 2_000, "nuswide10": 2_000, "uci_mfeat": 500, "wiki": 693}
_N_TRAIN = {"mirflickr25k": 5_000}
# Number of training items of the protocol "field", if the data have as many.
_FIELD_TRAIN = 10_000
_QUERY_SHARE, _TRAIN_SHARE = 0.2, 0.5
# If the paper's number of queries exceeds this share of a part of the data, use _QUERY_SHARE.
_MAX_QUERY_SHARE = 1 / 3
# Columns of the item table whose groups must stay in one part.
_GROUPS = {"emoji": "family"}


@dataclass(frozen=True)
class Protocol:
    """Training items and database of an experiment, and which labels a method may use.

    Attributes
    ----------
    name, title, description : str
    searched : {"train", "rest", "all"}
        The database: the training items with their labels, the items that are neither training
        items nor queries, or all items except queries. The latter two hide their labels.
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
        """Whether the database is the training set, with its labels."""
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
        "the database is all items except queries, training items included; its labels hidden",
        "all",
    ),
)
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {protocol.name: protocol for protocol in _PROTOCOLS}
)


def list_protocols() -> list[Protocol]:
    """Return the protocols of `make_split`.

    Examples
    --------
    >>> [protocol.name for protocol in list_protocols()]
    ['labelled', 'unlabelled', 'label-free', 'field']
    """
    return list(PROTOCOLS.values())


def find_protocol(name: str) -> Protocol:
    """Return a protocol by its name; raise InvalidInputError for an unknown one."""
    if name not in PROTOCOLS:
        raise InvalidInputError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {name!r}")
    return PROTOCOLS[name]


@dataclass(frozen=True)
class SplitParts:
    """The data of a split.

    Attributes
    ----------
    train, query, database : MultiViewData
        Without the labels that the protocol hides.
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
        Row numbers, ascending.
    protocol : str
    seed : int
    dataset : str
        Name of the data.
    n_items : int
        Number of rows of the data, including rows in no part.
    ids_sha256 : str
        Checksum of the ids, to detect other data.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(100, random_state=0)
    >>> split = acqh.bench.make_split(data, "labelled", seed=0)
    >>> len(split.train), len(split.query), len(split.parts(data).database)
    (80, 20, 80)
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
        """Raise InvalidInputError if the split belongs to other data or another order of items."""
        if len(data) != self.n_items:
            raise InvalidInputError(
                f"the split is for {self.n_items:,} items of {self.dataset!r}, but "
                f"{data.name!r} has {len(data):,}; use the data that the split was made for"
            )
        if hash_ids(data.ids) != self.ids_sha256:
            raise InvalidInputError(
                f"the split is for {self.dataset!r}, but {data.name!r} has other ids or another "
                "order; load the data as for the split"
            )

    def parts(self, data: MultiViewData) -> SplitParts:
        """Divide the data into training, query and database part.

        Parameters
        ----------
        data : MultiViewData
            The data that the split was made for.

        Returns
        -------
        SplitParts

        Raises
        ------
        InvalidInputError
            The split belongs to other data.
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


def make_split(
    data: MultiViewData,
    protocol: str = "labelled",
    *,
    seed: int = 0,
    n_query: int | None = None,
    n_train: int | None = None,
    official: bool | str = False,
    groups: Any = None,
) -> Split:
    """Draw the training, query and database rows of one run.

    Queries have all views. Items without labels are in no part. With the same seed, all protocols
    use the same queries.

    Parameters
    ----------
    data : MultiViewData
        With labels.
    protocol : {"labelled", "unlabelled", "label-free", "field"}
        ``"labelled"``: the database is the training set. ``"unlabelled"``: the database is
        held out and has no labels. ``"label-free"``: the same, and the training items have no
        labels either. ``"field"``: the database is all items except queries, training items
        included, without labels.
    seed : int
    n_query : int, optional
        Default: the paper's number (Wiki 693, MIRFlickr25K and NUS-WIDE 2,000; UCI digits 500)
        if that is at most a third of the items, otherwise a fifth of them.
    n_train : int, optional
        Default for "labelled": all items except queries. For "field": at most 10,000. For the
        others: 5,000 of MIRFlickr25K, half of the remaining items of other data.
    official : bool or str
        Take the queries from the official test part and the rest from its training part. A str
        selects one of several splits by name.
    groups : str or array-like, (n_items,), optional
        Column of the item table, or array: items of one group are in one part only. Default: the
        column ``family`` for the emoji data, no groups for others.

    Returns
    -------
    Split

    Raises
    ------
    InvalidInputError
        Unknown protocol, or more queries or training items than the data have.
    LabelError
        The data have no labels.

    Examples
    --------
    >>> from acqh.data import make_multiview
    >>> make_split(make_multiview(100, random_state=0), "unlabelled", seed=3)
    Split('synthetic', unlabelled, seed 3: 40 train, 20 query, 40 database)
    """
    searched = find_protocol(protocol).searched
    seed = check_positive_int(seed, "seed", minimum=0)
    rng = check_rng(seed)
    name = _base_name(data.name)
    groups = _GROUPS.get(name) if groups is None else groups
    labelled = np.asarray(labels_of(data).sum(axis=1)).ravel() > 0
    if official:
        pool, query = _official_rows(data, official, labelled, n_query)
    else:
        enough = _MAX_QUERY_SHARE * np.count_nonzero(labelled)
        size = _count(n_query, "n_query", _N_QUERY.get(name), enough, _QUERY_SHARE)
        pool, query = _draw_query(data, labelled, size, groups, rng)
    if searched == "train":
        train = database = _draw_train(pool, n_train, rng)
    elif searched == "all":
        train, database = _draw_train(pool, n_train or min(_FIELD_TRAIN, len(pool)), rng), pool
    else:
        size = _count(n_train, "n_train", _N_TRAIN.get(name), len(pool) - 1, _TRAIN_SHARE)
        database, train = split_rows(data, size, groups=groups, rows=pool, random_state=rng)
    return Split(train, query, database, protocol, seed, data.name, len(data), hash_ids(data.ids))


def _base_name(name: str) -> str:
    """Return the name of the original data set of a synthetic or deep variant."""
    return name.removeprefix("synthetic-").removesuffix("_deep")


def _official_rows(
    data: MultiViewData, official: bool | str, labelled: Bools, n_query: int | None
) -> tuple[Ints, Ints]:
    if n_query is not None:
        raise InvalidInputError(f"n_query={n_query} conflicts with the official split; omit one")
    rows = official_rows(data, official if isinstance(official, str) else "")
    pool, query = (np.sort(part) for part in rows)
    return pool[labelled[pool]], query[labelled[query]]


def _count(
    n_requested: int | None, parameter: str, usual: int | None, most: float, share: float
) -> int | float:
    """Return the requested number, or the usual one if it is at most `most`, or a share."""
    if n_requested is not None:
        return check_positive_int(n_requested, parameter)
    return usual if usual is not None and usual <= most else share


def _draw_query(
    data: MultiViewData,
    labelled: Bools,
    n_query: int | float,
    groups: Any,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Return the remaining rows, and the query rows, which have all views."""
    complete = np.logical_and.reduce(list(data.present.values()))
    candidates = np.flatnonzero(labelled & complete)
    _, query = split_rows(data, n_query, groups=groups, rows=candidates, random_state=rng)
    left = labelled.copy()
    left[query] = False
    if groups is not None:
        # An incomplete item is not a candidate, but may belong to the group of a query.
        group = np.asarray(data.items[groups] if isinstance(groups, str) else groups)
        left &= ~np.isin(group, group[query])
    return np.flatnonzero(left), query


def _draw_train(pool: Ints, n_train: int | None, rng: np.random.Generator) -> Ints:
    if n_train is None:
        return pool
    if check_positive_int(n_train, "n_train") > len(pool):
        raise InvalidInputError(f"n_train={n_train}, but only {len(pool)} items are not queries")
    return np.sort(rng.permutation(pool)[:n_train])


def labels_of(data: MultiViewData) -> Matrix:
    """Return the labels for scoring; raise LabelError if the data have none."""
    if data.labels is None:
        raise LabelError(f"{data.name!r} has no labels, which the bench needs for scoring")
    return data.labels


def hash_ids(ids: Array) -> str:
    """Return the sha256 of ids, in their order."""
    return hashlib.sha256("\n".join(map(str, ids.tolist())).encode()).hexdigest()
