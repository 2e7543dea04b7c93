"""Choose the rows of a test part: at random, by groups, stratified, or by the official split."""

import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from acqh._core.arrays import Array, Ints, Matrix, is_sparse
from acqh._core.runtime import RandomState, check_rng
from acqh.errors import InvalidInputError, LabelError

if TYPE_CHECKING:
    from acqh.data.multiview import MultiViewData

# Sets of rows of one split: train and test, or train_NAME and test_NAME, or NAME_train and so on.
_PART = re.compile(r"(?:(.+)[_.-])?(train|test|val|query|database)(?:[_.-]?(\d+)|[_.-](.+))?")


def name_part(rows: str) -> tuple[str, str]:
    """Return the names of the split that a set of rows belongs to, and of the part of it.

    Examples
    --------
    >>> [name_part(rows) for rows in ("train", "test_few", "few-test", "train2", "unused")]
    [('', 'train'), ('few', 'test'), ('few', 'test'), ('2', 'train'), ('unused', '')]
    """
    match = _PART.fullmatch(rows)
    if match is None:
        return rows, ""
    before, part, number, after = match.groups()
    return "_".join(filter(None, (before, number, after))), part


def official_rows(data: "MultiViewData", name: str = "") -> tuple[Ints, Ints]:
    """Return the training and test rows of the official split.

    Parameters
    ----------
    data : MultiViewData
    name : str
        Name of one of several splits: ``"few"`` for ``train_few`` and ``test_few``.

    Returns
    -------
    train, test : int64

    Raises
    ------
    InvalidInputError
        The data have no split of that name, or two sets of rows for one of its parts.

    Examples
    --------
    >>> from acqh.data import MultiViewData
    >>> from acqh.data.splits import official_rows
    >>> splits = {"train": [0, 1], "test": [2], "train_few": [2], "test_few": [0, 1]}
    >>> official_rows(MultiViewData({"image": np.eye(3)}, splits=splits), "few")
    (array([2]), array([0, 1]))
    """
    parts_by_split: dict[str, dict[str, str]] = {}
    for key in data.splits:
        split, part = name_part(key)
        first = parts_by_split.setdefault(split, {}).setdefault(part, key)
        if first != key and split == name:
            raise InvalidInputError(
                f"{data.name!r}: {first!r} and {key!r} are both the part {part!r} of the split "
                f"{name!r}; remove one of them"
            )
    complete = sorted(
        split for split, parts in parts_by_split.items() if parts.keys() >= {"train", "test"}
    )
    if name in complete:
        return data.splits[parts_by_split[name]["train"]], data.splits[parts_by_split[name]["test"]]
    if complete:
        raise InvalidInputError(
            f"{data.name!r} has no split {name!r}; choose one of "
            + ", ".join(repr(split) for split in complete)
        )
    raise InvalidInputError(
        f"{data.name!r} has no official split (subsets never have one); split at random instead, "
        "without `official`"
    )


def split_rows(
    data: "MultiViewData",
    test_size: float | int = 0.2,
    *,
    groups: Any = None,
    stratify: bool | Literal["auto"] | None = None,
    random_state: RandomState = None,
    rows: Ints | None = None,
) -> tuple[Ints, Ints]:
    """Return the row numbers of the two parts of `MultiViewData.split`.

    Parameters
    ----------
    data : MultiViewData
    test_size, groups, stratify, random_state
        As in `MultiViewData.split`.
    rows : int ndarray, optional
        Split only these rows.

    Returns
    -------
    train, test : int64 ndarray
        In ascending order; together all rows, or all of `rows`.

    Raises
    ------
    InvalidInputError, LabelError
        The errors of `MultiViewData.split`.

    Examples
    --------
    >>> from acqh.data import MultiViewData
    >>> train, test = split_rows(MultiViewData({"image": np.eye(5)}), 2, random_state=0)
    >>> len(train), len(test)
    (3, 2)
    """
    if stratify not in (None, False, True, "auto"):
        raise InvalidInputError(f"stratify must be None, True or 'auto', got {stratify!r}")
    if stratify and groups is not None:
        raise InvalidInputError("give groups or stratify, not both")
    classes = _single_classes(data.labels) if stratify else None
    if stratify is True and classes is None:
        raise LabelError("stratify=True needs exactly one label per row; use stratify='auto'")
    pool = np.arange(len(data)) if rows is None else np.sort(rows)
    n_test = _count_test_rows(test_size, len(pool))
    rng = check_rng(random_state)
    if groups is not None:
        drawn = _draw_groups(_group_array(data, groups)[pool], n_test, rng)
    elif classes is not None:
        drawn = _draw_by_class(classes[pool], n_test, rng)
    else:
        drawn = np.sort(rng.permutation(len(pool))[:n_test])
    return np.delete(pool, drawn), pool[drawn]


def _count_test_rows(test_size: float | int, n_items: int) -> int:
    """Return the number of test rows: `test_size` is a share below 1, or a number of rows."""
    if isinstance(test_size, bool | np.bool_) or not isinstance(
        test_size, int | float | np.integer | np.floating
    ):
        raise InvalidInputError(f"test_size must be a number, got {test_size!r}")
    if n_items < 2:
        raise InvalidInputError("one item cannot be split; give at least two")
    if isinstance(test_size, int | np.integer):
        if not 1 <= test_size < n_items:
            raise InvalidInputError(
                f"test_size must be from 1 to {n_items - 1} of {n_items} items, got {test_size}"
            )
        return int(test_size)
    if not 0 < test_size < 1:
        raise InvalidInputError(
            f"test_size must be a share between 0 and 1, or a whole number of rows, got {test_size}"
        )
    return min(max(round(n_items * float(test_size)), 1), n_items - 1)


def _draw_groups(groups: Array, n_test: int, rng: np.random.Generator) -> Ints:
    """Draw complete groups with at most, and nearly, `n_test` rows in total.

    Visits groups in random order and takes those that still fit. If none fits, takes the
    smallest, so the part is never empty.
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise InvalidInputError("all items are in one group; a split by groups needs at least two")
    chosen = np.zeros(len(sizes), dtype=bool)
    room = n_test
    for index in rng.permutation(len(sizes)):
        if sizes[index] <= room:
            chosen[index] = True
            room -= sizes[index]
    if not chosen.any():
        chosen[np.argmin(sizes)] = True
    return np.flatnonzero(chosen[group])


def _draw_by_class(classes: Ints, n_test: int, rng: np.random.Generator) -> Ints:
    """Draw `n_test` rows so that every class has its share, up to rounding.

    The shares are rounded down; the rows still missing go to the largest remainders, ties at
    random.
    """
    _, class_of, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    # Integer arithmetic: equal shares must tie exactly for all sizes.
    counts, remainders = np.divmod(sizes * n_test, len(classes))
    order = np.lexsort((rng.random(len(sizes)), -remainders))
    counts[order[: n_test - counts.sum()]] += 1
    shuffled = rng.permutation(len(classes))
    by_class = shuffled[np.argsort(class_of[shuffled], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    rank_in_class = np.arange(len(classes)) - np.repeat(starts, sizes)
    return np.sort(by_class[rank_in_class < np.repeat(counts, sizes)])


def _single_classes(labels: Matrix | None) -> Ints | None:
    """Return the class of each row if every row has exactly one label, otherwise None."""
    if labels is None:
        return None
    if is_sparse(labels):
        lengths = np.diff(labels.indptr)
        return np.asarray(labels.indices) if bool(np.all(lengths == 1)) else None
    if not bool(np.all(labels.sum(axis=1) == 1)):
        return None
    return np.asarray(np.argmax(labels, axis=1))


def _group_array(data: "MultiViewData", groups: Any) -> Array:
    """Return the group of each item, from a column of the item table or an array."""
    if isinstance(groups, str):
        if groups not in data.items:
            raise InvalidInputError(
                f"the item table has no column {groups!r}; it has {list(data.items)}"
            )
        groups = data.items[groups]
    array = np.asarray(groups)
    if array.shape != (len(data),):
        raise InvalidInputError(
            f"groups have shape {array.shape}; give one group for each of {len(data)} items"
        )
    # Objects of different types cannot be sorted, but their names can.
    return array.astype(str) if array.dtype == object else array
