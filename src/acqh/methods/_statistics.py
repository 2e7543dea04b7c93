"""From chunks of data, through feature maps, to statistics."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from acqh.data import MultiViewData
from acqh.errors import LabelError, ViewError
from acqh.methods._base import CHUNK_ROWS, fit_feature_maps, map_features
from acqh.stats import Statistics


@dataclass(frozen=True)
class MappedStatistics:
    """The sums over all chunks and what they are sums of.

    Attributes
    ----------
    statistics : Statistics
        Of the mapped features.
    feature_maps : dict of str to transformer
        Fitted on the first chunk.
    widths : dict of str to int
        Width of each view before its feature map.
    label_names : tuple of str
    dtype : numpy dtype
        float32 if no view has more, otherwise float64.
    """

    statistics: Statistics
    feature_maps: dict[str, Any]
    widths: dict[str, int]
    label_names: tuple[str, ...]
    dtype: np.dtype[Any]

    def sums_of_none(self) -> Statistics:
        """Return sums of the same features over no items, to be added to."""
        widths = {view: sums.n_features for view, sums in self.statistics.views.items()}
        return Statistics(widths, self.statistics.n_labels)


def collect(
    parts: Iterable[MultiViewData], feature_maps: Any, known: MappedStatistics | None = None
) -> MappedStatistics:
    """Sum over all parts of the training data, in one pass.

    Parameters
    ----------
    parts : iterable of MultiViewData
        With the same views, widths and label names.
    feature_maps : mapping of str to feature map, one for all views, or None
        Fitted on the first part.
    known : MappedStatistics, optional
        What later data must fit: its feature maps are used as they are.

    Returns
    -------
    MappedStatistics
        Of these parts alone, also where `known` is given.

    Raises
    ------
    LabelError
        A part has no labels, or other label names; or no item has a label.
    ViewError
        A part has other views or widths.
    """
    statistics = None
    for part in parts:
        if known is None:
            known = describe(part, feature_maps)
        if statistics is None:
            statistics = known.sums_of_none()
        add_part(part, known, statistics)
        # The next part may be as large as memory allows: this one must be gone when it is read.
        del part
    if known is None or statistics is None or statistics.n_items == 0:
        raise LabelError("no item has a label, so there is nothing to learn from")
    return replace(known, statistics=statistics)


def describe(part: MultiViewData, feature_maps: Any) -> MappedStatistics:
    """Fit the feature maps to a part; return what all parts must be like, with sums of none."""
    _check_labelled(part)
    kinds = [matrix.dtype for matrix in part.views.values()]
    is_single = all(kind in (np.float32, np.float16, np.uint8, np.bool_) for kind in kinds)
    fitted = fit_feature_maps(feature_maps, part)
    widths = {
        view: map_features(fitted, matrix[:1], view).shape[1] for view, matrix in part.views.items()
    }
    return MappedStatistics(
        statistics=Statistics(widths, len(part.label_names)),
        feature_maps=fitted,
        widths={view: matrix.shape[1] for view, matrix in part.views.items()},
        label_names=part.label_names,
        dtype=np.dtype(np.float32 if is_single else np.float64),
    )


def add_part(part: MultiViewData, known: MappedStatistics, statistics: Statistics) -> None:
    """Add the items of one part to sums, in place.

    Parameters
    ----------
    part : MultiViewData
        None of its items need have a label.
    known : MappedStatistics
        What the part must be like, and the feature maps to use.
    statistics : Statistics
        As `MappedStatistics.sums_of_none` gives them, or those of parts before.

    Raises
    ------
    LabelError, ViewError
        As `collect` does.
    """
    _check_labelled(part)
    _check_same(part, known)
    for chunk in part.chunks(CHUNK_ROWS):
        views = {
            view: map_features(known.feature_maps, matrix, view)
            for view, matrix in chunk.views.items()
        }
        statistics.update(views, chunk.labels, chunk.present)


def _check_labelled(part: MultiViewData) -> None:
    if part.labels is None:
        raise LabelError("labels are needed to fit; give labels with the views")


def _check_same(part: MultiViewData, known: MappedStatistics) -> None:
    widths = {view: matrix.shape[1] for view, matrix in part.views.items()}
    if widths != known.widths:
        raise ViewError(f"views and widths were {known.widths} before, now they are {widths}")
    if part.label_names != known.label_names:
        raise LabelError(
            "label names differ from those before; give label_names= to every part, so that a "
            "column means the same label everywhere"
        )
