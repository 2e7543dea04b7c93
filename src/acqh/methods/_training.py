"""Training data of methods that see all items at once: checked, mapped, in float64."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from acqh._core.arrays import Matrix
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods._base import BaseMethod, as_parts, fit_feature_maps, map_features


@dataclass(frozen=True)
class Training:
    """What a method learns from.

    Attributes
    ----------
    features : dict of str to (n_items, n_features) float64, dense or CSR
        Every view through its feature map.
    views : mapping of str to (n_items, n_raw_features), dense or CSR
        As they were given.
    labels : (n_items, n_labels) float64, dense or CSR
        0/1, at least one a row; of no columns where the method needs no labels.
    feature_maps : dict of str to transformer
        Fitted on these items.
    widths : dict of str to int
        Width of each view before its feature map.
    label_names : tuple of str
    """

    features: dict[str, Matrix]
    views: Mapping[str, Matrix]
    labels: Matrix
    feature_maps: dict[str, Any]
    widths: dict[str, int]
    label_names: tuple[str, ...]

    @property
    def n_items(self) -> int:
        """The number of training items."""
        return int(self.labels.shape[0])

    def keep_in(self, method: BaseMethod) -> None:
        """Set the fitted attributes that every method has."""
        method.n_features_in_ = self.widths
        method.label_names_ = self.label_names
        method.feature_maps_ = self.feature_maps


def read_training(
    method: BaseMethod,
    views: Any,
    labels: Any,
    rng: np.random.Generator,
    *,
    needs_labels: bool | None = None,
    max_items: int | None = None,
) -> Training:
    """Read what was given to ``fit`` and map it; chunks are put under one another.

    Parameters
    ----------
    method : BaseMethod
        Its parameter `feature_maps` says how views are mapped, `n_anchors` (if it has one) with
        how many anchors where a map is given by name, its `view_range` how many views it takes,
        and its info whether it needs labels.
    views, labels
        As `acqh.methods.BaseMethod.fit` takes them.
    rng : Generator
        Seeds the feature maps that have no seed of their own.
    needs_labels : bool, optional
        By default as the method's info says; labels that are not needed are ignored.
    max_items : int, optional
        Where there are more items, as many are drawn, and only those are seen by the maps.

    Raises
    ------
    LabelError
        Labels are needed, and there are none or an item has none.
    ViewError
        Too few or too many views, or an item lacks one.
    """
    if needs_labels is None:
        needs_labels = method.info.supervised
    data = _as_one(views, labels if needs_labels else None)
    _check_views(method, data)
    matrix = _check_all_labelled(method, data) if needs_labels else np.zeros((len(data), 0))
    if max_items is not None and len(data) > max_items:
        rows = np.sort(rng.choice(len(data), max_items, replace=False))
        data, matrix = data.subset(rows), matrix[rows]
    return _map_views(method, data, matrix, data.label_names if needs_labels else (), rng)


def _map_views(
    method: BaseMethod,
    data: MultiViewData,
    labels: Matrix,
    label_names: tuple[str, ...],
    rng: np.random.Generator,
) -> Training:
    params = method.get_params(deep=False)
    maps = fit_feature_maps(
        params["feature_maps"], data, rng=rng, n_anchors=params.get("n_anchors")
    )
    return Training(
        features={
            view: map_features(maps, raw, view).astype(np.float64)
            for view, raw in data.views.items()
        },
        views=data.views,
        labels=labels,
        feature_maps=maps,
        widths={view: raw.shape[1] for view, raw in data.views.items()},
        label_names=label_names,
    )


def share_weights(given: Mapping[str, float] | None, views: Collection[str]) -> dict[str, float]:
    """Return the weight of every view; they sum to one.

    Parameters
    ----------
    given : mapping of str to float, or None
        Positive, one for every view; None: all the same.
    views : collection of str

    Raises
    ------
    InvalidInputError
        A view has no weight, a weight no view, or a weight is not positive.

    Examples
    --------
    >>> share_weights({"image": 3, "text": 1}, ["image", "text"])
    {'image': 0.75, 'text': 0.25}
    """
    if given is None:
        given = dict.fromkeys(views, 1.0)
    if set(given) != set(views) or not all(
        np.isfinite(value) and value > 0 for value in given.values()
    ):
        raise InvalidInputError(
            f"view_weights must give every one of {sorted(views)} a positive number, got {given}"
        )
    total = sum(given.values())
    return {view: float(given[view] / total) for view in views}


def _as_one(views: Any, labels: Any) -> MultiViewData:
    parts = [*as_parts(views, labels)]
    if len(parts) == 1:
        return parts[0]
    # Chunks may number their items from zero each; only the order counts here.
    return MultiViewData.concat(parts, ids=np.arange(sum(map(len, parts))))


def _check_views(method: BaseMethod, data: MultiViewData) -> None:
    fewest, most = method.view_range
    n_views = len(data.views)
    if n_views < fewest or (most is not None and n_views > most):
        wanted = f"{fewest} views" if most == fewest else f"at least {fewest} views"
        if most is not None and most != fewest:
            wanted = f"{fewest} to {most} views"
        raise ViewError(f"{method.info.name} takes {wanted}, got {n_views}: {sorted(data.views)}")
    for view, present in data.present.items():
        if not present.all():
            raise ViewError(
                f"view {view!r} is absent in {np.count_nonzero(~present)} items, and "
                f"{method.info.name} learns from items that have every view; leave those out"
            )


def _check_all_labelled(method: BaseMethod, data: MultiViewData) -> Matrix:
    if data.labels is None:
        raise LabelError("labels are needed to fit; give labels with the views")
    labelled = np.asarray(data.labels.sum(axis=1)).ravel() > 0
    if not labelled.any():
        raise LabelError("no item has a label, so there is nothing to learn from")
    if not labelled.all():
        raise LabelError(
            f"{np.count_nonzero(~labelled)} items have no label, the first in row "
            f"{np.argmin(labelled)}; {method.info.name} needs one of every item: leave those out"
        )
    return data.labels.astype(np.float64)
