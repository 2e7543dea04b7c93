"""Paired data: several views of the same items, with labels, ids and an item table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Ints, Matrix, check_positive_int, is_sparse
from acqh._core.runtime import RandomState, suggest_keywords
from acqh.data import checks
from acqh.data.checks import check_ids
from acqh.data.splits import official_rows, split_rows
from acqh.errors import InvalidInputError, ViewError


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MultiViewData:
    """Named views of the same items, with labels, ids and a table of further columns.

    Row i of every view, of the labels, of the ids and of the item table is the same item. The
    constructor checks all arguments once. It does not copy arrays, so do not write to them.
    Methods return new data and never change the object.

    Parameters
    ----------
    views : mapping of str to array-like or sparse, (n_items, n_features)
        Dense, or sparse (kept as CSR); floats, integers or booleans of any width.
    labels : optional
        A 0/1 matrix (n_items, n_labels), dense or sparse; class ids (n_items,), numbers or
        strings; or a sequence of n_items sets of names. A row without any label means that the
        item's labels are unknown.
    ids : array-like of int or str, (n_items,), optional
        All different; 0, 1, 2, ... by default.
    items : mapping of str to sequence of n_items entries, optional
        The item table: texts, images, file names or any other values.
    label_names : sequence of str, optional
        Names of the label columns, or the classes in their order.
    present : mapping of str to bool, (n_items,), optional
        For a view that some items lack: which items have it. The values of absent rows are
        ignored.
    splits : mapping of str to row numbers, optional
        The official split, such as ``{"train": rows, "test": rows}``. Further splits have a
        suffix, such as ``train_few`` and ``test_few``.
    name : str
        Name of the data in tables.

    Attributes
    ----------
    views : mapping of str to ndarray or csr_array, (n_items, n_features)
        Absent rows are zero.
    labels : uint8 ndarray or csr_array, (n_items, n_labels), or None
        The 0/1 matrix of labels.
    label_names : tuple of str
        Names of its columns.
    ids : int64 or str ndarray, (n_items,)
    items : mapping of str to ndarray, (n_items, ...)
        The item table.
    present : mapping of str to bool ndarray, (n_items,)
        For every view, the items that have it.
    splits : mapping of str to int64 ndarray
        Empty for data without an official split, and for every subset.
    name : str

    Raises
    ------
    ViewError
        No views, no rows, unpaired rows, NaN or infinite values, `present` of the wrong length,
        or an item without any view.
    LabelError
        Labels of an unknown form or with another number of rows.
    DuplicateIdError
        An id occurs twice.
    InvalidInputError
        The ids, item columns or splits do not match the rows.

    Examples
    --------
    >>> data = MultiViewData(
    ...     {"image": np.eye(3), "text": np.eye(3, 5)},
    ...     labels=["dog", "cat", "dog"],
    ...     items={"caption": ["a dog", "a cat", "two dogs"]},
    ... )
    >>> data
    MultiViewData('data': 3 items; image 3 float64, text 5 float64; 2 labels; items caption)
    >>> data.subset([0, 2]).items["caption"]
    array(['a dog', 'two dogs'], dtype=object)
    """

    views: Mapping[str, Matrix]
    labels: Matrix | None
    label_names: tuple[str, ...]
    ids: Array
    items: Mapping[str, Array]
    present: Mapping[str, Bools]
    splits: Mapping[str, Ints]
    name: str

    def __init__(
        self,
        views: Mapping[str, Any],
        labels: Any = None,
        *,
        ids: Any = None,
        items: Mapping[str, Any] | None = None,
        label_names: Sequence[str] | None = None,
        present: Mapping[str, Any] | None = None,
        splits: Mapping[str, Any] | None = None,
        name: str = "data",
    ) -> None:
        checked, masks = checks.check_views(views, present or {})
        n_items = next(iter(checked.values())).shape[0]
        checked_ids = checks.check_ids(ids, n_items)
        checks.check_items_have_views(masks, checked_ids)
        matrix, names = checks.check_labels(labels, label_names, n_items)
        self._set(
            views=checked,
            labels=matrix,
            label_names=names,
            ids=checked_ids,
            items=checks.check_items(items, n_items),
            present=masks,
            splits=checks.check_splits(splits, n_items),
            name=str(name),
        )

    def _set(self, **fields: Any) -> Self:
        """Set checked fields; mappings become read-only."""
        for name, value in fields.items():
            self.__dict__[name] = MappingProxyType(value) if isinstance(value, dict) else value
        return self

    def _replace(self, **changes: Any) -> Self:
        """Return a copy with these checked fields replaced."""
        return object.__new__(type(self))._set(**{**self.__dict__, **changes})

    # Read-only mappings cannot be pickled, which worker processes need.
    def __getstate__(self) -> dict[str, Any]:
        return {
            name: dict(value) if isinstance(value, MappingProxyType) else value
            for name, value in self.__dict__.items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state)

    @property
    def n_items(self) -> int:
        """The number of rows."""
        return len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        views = ", ".join(self._format_view(name) for name in self.views)
        labels = "no labels" if self.labels is None else f"{len(self.label_names)} labels"
        items = f"; items {', '.join(self.items)}" if self.items else ""
        return f"MultiViewData({self.name!r}: {len(self):,} items; {views}; {labels}{items})"

    def _format_view(self, name: str) -> str:
        matrix, present = self.views[name], self.present[name]
        sparse = " sparse" if is_sparse(matrix) else ""
        absent = "" if present.all() else f" (absent in {np.count_nonzero(~present):,})"
        return f"{name} {matrix.shape[1]} {matrix.dtype}{sparse}{absent}"

    def subset(self, rows: Any) -> Self:
        """Return some rows, in the order given.

        Parameters
        ----------
        rows : array-like of int, bool mask (n_items,), or slice
            For a slice, dense arrays are NumPy views, not copies.

        Returns
        -------
        MultiViewData
            Without the official split.

        Raises
        ------
        InvalidInputError
            No row selected, a row that does not exist, or a mask of another length.
        DuplicateIdError
            A row is given twice.

        Examples
        --------
        >>> data = MultiViewData({"image": np.eye(4)}, ids=["a", "b", "c", "d"])
        >>> data.subset(data.ids != "b").ids.tolist()
        ['a', 'c', 'd']
        """
        selected = checks.check_rows(rows, len(self))
        ids = self.ids[selected]
        if not isinstance(selected, slice) and len(np.unique(selected)) < len(selected):
            checks.check_unique_ids(ids)  # raises and names the repeated id
        return self._replace(
            views=_take_each(self.views, selected),
            labels=None if self.labels is None else self.labels[selected],
            ids=ids,
            items=_take_each(self.items, selected),
            present=_take_each(self.present, selected),
            splits={},
        )

    def take(self, rows: Any, axis: int = 0) -> Self:  # noqa: ARG002
        """Return rows by number; scikit-learn calls `subset` by this name."""
        return self.subset(rows)

    @property
    def iloc(self) -> Self:
        """The data; this attribute tells scikit-learn that `take` selects rows."""
        return self

    def chunks(self, size: int) -> Iterator[Self]:
        """Yield the rows in order, `size` at a time, without copying dense arrays.

        Examples
        --------
        >>> data = MultiViewData({"image": np.eye(5)})
        >>> [len(chunk) for chunk in data.chunks(2)]
        [2, 2, 1]
        """
        check_positive_int(size, "size")
        return (self.subset(slice(at, at + size)) for at in range(0, len(self), size))

    def with_views(
        self,
        views: Mapping[str, Any] | None = None,
        /,
        *,
        present: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Self:
        """Return the same items with views added or replaced.

        Parameters
        ----------
        views : mapping of str to array-like or sparse, (n_items, n_features), optional
        present : mapping of str to bool, (n_items,), optional
            Which items have a view. By default a replaced view keeps its mask, and all items
            have a new view.
        **named : array-like or sparse, (n_items, n_features)
            Views by keyword.

        Returns
        -------
        MultiViewData

        Raises
        ------
        ViewError
            As on construction.

        Examples
        --------
        >>> data = MultiViewData({"image": np.eye(2), "text": np.ones((2, 3))})
        >>> data.with_views(image=np.ones((2, 8)))
        MultiViewData('data': 2 items; image 8 float64, text 3 float64; no labels)
        """
        added = {**(views or {}), **named}
        masks = {name: mask for name, mask in self.present.items() if name in added}
        new, new_present = checks.check_views(added, {**masks, **(present or {})}, len(self))
        merged = {**self.present, **new_present}
        checks.check_items_have_views(merged, self.ids)
        return self._replace(views={**self.views, **new}, present=merged)

    def without_labels(self) -> Self:
        """Return the same items without their labels.

        Examples
        --------
        >>> MultiViewData({"image": np.eye(2)}, labels=[0, 1]).without_labels().labels is None
        True
        """
        return self._replace(labels=None, label_names=())

    @suggest_keywords
    def split(
        self,
        test_size: float | int = 0.2,
        *,
        groups: Any = None,
        stratify: bool | Literal["auto"] | None = None,
        random_state: RandomState = None,
    ) -> tuple[Self, Self]:
        """Split into two parts at random; rows keep their order.

        Parameters
        ----------
        test_size : float or int
            Share of the items, between 0 and 1, or number of items of the second part.
        groups : str or array-like, (n_items,), optional
            A column of the item table, or an array. Items of one group stay together. The second
            part is then at most `test_size` large, unless every group is larger.
        stratify : None, "auto" or True
            Give every class its share of the second part. This needs exactly one label per item:
            otherwise True raises LabelError and ``"auto"`` draws at random.
        random_state : int, Generator, SeedSequence or None

        Returns
        -------
        train, test : MultiViewData

        Raises
        ------
        InvalidInputError
            Invalid sizes, groups or options.
        LabelError
            ``stratify=True``, and an item does not have exactly one label.

        Examples
        --------
        >>> data = MultiViewData({"image": np.eye(6)}, items={"family": [0, 0, 1, 1, 2, 2]})
        >>> train, test = data.split(test_size=2, groups="family", random_state=0)
        >>> set(train.items["family"]) & set(test.items["family"])
        set()
        """
        train, test = split_rows(
            self, test_size, groups=groups, stratify=stratify, random_state=random_state
        )
        return self.subset(train), self.subset(test)

    def official_split(self, name: str = "") -> tuple[Self, Self]:
        """Return the training and test part of the official split.

        Parameters
        ----------
        name : str
            Name of one of several splits: ``"few"`` for ``train_few`` and ``test_few``.

        Returns
        -------
        train, test : MultiViewData

        Raises
        ------
        InvalidInputError
            The data have no split of that name.

        Examples
        --------
        >>> data = MultiViewData({"image": np.eye(3)}, splits={"train": [0, 2], "test": [1]})
        >>> [part.ids.tolist() for part in data.official_split()]
        [[0, 2], [1]]
        """
        train, test = official_rows(self, name)
        return self.subset(train), self.subset(test)

    @classmethod
    def concat(cls, parts: Sequence["MultiViewData"], *, ids: Any = None) -> "MultiViewData":
        """Concatenate several data sets by rows.

        Label columns and views are matched by name. If a part lacks a view, its rows are absent
        from it. If a part has no labels, its rows have none. One sparse part makes a view sparse.

        Parameters
        ----------
        parts : sequence of MultiViewData
            All with the same item columns; views of one name have the same width.
        ids : array-like of int or str, (n_items,), optional
            New ids. Default: the ids of the parts.

        Returns
        -------
        MultiViewData
            Named as the first part; without an official split.

        Raises
        ------
        ViewError
            A view has different widths.
        DuplicateIdError
            An id occurs in two parts.
        InvalidInputError
            No parts, or their ids or item tables differ in kind.

        Examples
        --------
        >>> pairs = MultiViewData({"image": np.eye(2), "text": np.eye(2)}, ids=["a", "b"])
        >>> texts = MultiViewData({"text": np.ones((1, 2))}, ids=["c"])
        >>> MultiViewData.concat([pairs, texts]).present["image"].tolist()
        [True, True, False]
        """
        fields = concat_fields(parts, ids)
        return parts[0]._replace(**fields, splits={})

    @classmethod
    def from_files(cls, path: str | PathLike[str], **options: Any) -> "MultiViewData":
        """Read data from a file, in the format of its extension.

        Parameters
        ----------
        path : path
        **options
            Options of `acqh.data.read`.

        Returns
        -------
        MultiViewData
        """
        from acqh.data.readers.formats import read  # imports this class

        return read(path, **options)


def _take_each(columns: Mapping[str, Matrix], rows: slice | Ints) -> dict[str, Matrix]:
    """Select the same rows of every matrix or column."""
    return {name: values[rows] for name, values in columns.items()}


def concat_fields(parts: Sequence[MultiViewData], ids: Any) -> dict[str, Any]:
    """Return the checked fields of the concatenated parts."""
    if not parts:
        raise InvalidInputError("no data sets to concatenate; give at least one")
    if ids is None:
        if len({part.ids.dtype.kind for part in parts}) > 1:
            raise InvalidInputError("some parts have numbers as ids, others strings; give new ids")
        ids = np.concatenate([part.ids for part in parts])
    lengths = [len(part) for part in parts]
    names = list(dict.fromkeys(name for part in parts for name in part.views))
    views = {name: [part.views.get(name) for part in parts] for name in names}
    label_names = tuple(dict.fromkeys(name for part in parts for name in part.label_names))
    labels = [_spread(part, label_names) for part in parts]
    return {
        # The rows of a part without a view are absent from it; those without labels have none.
        "views": {
            name: _stack(matrices, lengths, f"view {name!r}") for name, matrices in views.items()
        },
        "present": {
            name: np.concatenate(
                [part.present.get(name, np.zeros(len(part), bool)) for part in parts]
            )
            for name in names
        },
        "labels": _stack(labels, lengths, "labels") if label_names else None,
        "label_names": label_names,
        "ids": check_ids(ids, sum(lengths)),
        "items": _stack_items(parts),
    }


def _stack(matrices: Sequence[Matrix | None], lengths: Sequence[int], where: str) -> Matrix:
    """Stack matrices of one width; None stands for a block of zero rows."""
    stored = [matrix for matrix in matrices if matrix is not None]
    width, dtype = stored[0].shape[1], np.result_type(*(matrix.dtype for matrix in stored))
    for matrix in stored:
        if matrix.shape[1] != width:
            raise ViewError(
                f"{where} has {width} columns in one part, {matrix.shape[1]} in another"
            )
    empty = sp.csr_array if any(map(is_sparse, stored)) else np.zeros
    pairs = zip(matrices, lengths, strict=True)
    return stack([empty((n, width), dtype=dtype) if m is None else m for m, n in pairs])


def _spread(part: MultiViewData, names: tuple[str, ...]) -> Matrix | None:
    """Return the labels of a part in the columns of all parts."""
    if part.labels is None or part.label_names == names:
        return part.labels
    column = {name: j for j, name in enumerate(names)}
    moved = np.array([column[name] for name in part.label_names])
    rows = sp.csr_array(part.labels)
    shape = len(part), len(names)
    wide = sp.csr_array((rows.data, moved[rows.indices], rows.indptr), shape=shape)
    wide.sort_indices()
    return wide if is_sparse(part.labels) else wide.toarray()


def stack(matrices: Sequence[Matrix]) -> Matrix:
    """Stack matrices vertically."""
    if len(matrices) == 1:
        return matrices[0]
    # One sparse matrix makes the result sparse: a dense result could fill the memory.
    if any(is_sparse(matrix) for matrix in matrices):
        return sp.csr_array(sp.vstack([sp.csr_array(matrix) for matrix in matrices], format="csr"))
    return np.concatenate(matrices)


def _stack_items(parts: Sequence[MultiViewData]) -> dict[str, Array]:
    """Stack the item tables, which must have the same columns."""
    columns = list(parts[0].items)
    for part in parts:
        if set(part.items) != set(columns):
            raise InvalidInputError(
                f"the item tables differ: one part has the columns {sorted(columns)}, "
                f"another {sorted(part.items)}"
            )
    return {name: _stack_column([part.items[name] for part in parts]) for name in columns}


def _stack_column(columns: Sequence[Array]) -> Array:
    kinds = {column.dtype.kind for column in columns}
    if len(kinds) > 1 and not kinds <= set("uifc"):
        # NumPy would convert numbers to texts, and booleans to numbers.
        columns = [column.astype(object) for column in columns]
    return np.concatenate(columns)
