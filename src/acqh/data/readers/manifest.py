"""Items that have no views yet: what a manifest says about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acqh._core.arrays import Array, Ints, Matrix
from acqh.data.multiview import MultiViewData
from acqh.errors import ViewError


@dataclass(frozen=True, eq=False)
class Manifest:
    """Items with labels and ids, but without views: images and texts not encoded yet.

    Attributes
    ----------
    items : mapping of str to object ndarray, (n_items,)
        The item table: ``image`` (paths, which nothing has opened), ``text`` and other columns.
    ids : int64 or str ndarray, (n_items,)
    labels : uint8 ndarray or csr_array, (n_items, n_labels), or None
    label_names : tuple of str
    splits : mapping of str to int64 ndarray
        The official split, where a column ``split`` says train and test.
    name : str

    Examples
    --------
    >>> import numpy as np
    >>> texts = np.array(["a dog", "a cat"], dtype=object)
    >>> manifest = Manifest({"text": texts}, ids=np.arange(2))
    >>> manifest.with_views({"text": [[1.0, 0.0], [0.0, 1.0]]})
    MultiViewData('data': 2 items; text 2 float64; no labels; items text)
    """

    items: Mapping[str, Array]
    ids: Array
    labels: Matrix | None = None
    label_names: tuple[str, ...] = ()
    splits: Mapping[str, Ints] = field(default_factory=dict)
    name: str = "data"

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        labels = "no labels" if self.labels is None else f"{len(self.label_names)} labels"
        columns = ", ".join(self.items) or "none"
        return f"Manifest({self.name!r}: {len(self):,} items; {labels}; items {columns})"

    def with_views(
        self, views: Mapping[str, Any], *, present: Mapping[str, Any] | None = None
    ) -> MultiViewData:
        """Return the items with views, one row per item.

        Parameters
        ----------
        views : mapping of str to array-like or sparse, (n_items, n_features)
        present : mapping of str to bool, (n_items,), optional
            For a view that some items lack: which have it.

        Returns
        -------
        MultiViewData

        Raises
        ------
        ViewError
            A view has another number of rows, or values that cannot be used.
        """
        for name, view in views.items():
            n_rows = view.shape[0] if hasattr(view, "shape") else len(view)
            if n_rows != len(self):
                raise ViewError(
                    f"view {name!r} has {n_rows} rows, but the manifest has {len(self)} items"
                )
        return MultiViewData(
            views,
            self.labels,
            ids=self.ids,
            items=self.items,
            label_names=None if self.labels is None else self.label_names,
            present=present,
            splits=self.splits,
            name=self.name,
        )
