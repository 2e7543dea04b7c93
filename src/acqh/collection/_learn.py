"""What a collection learns: labels and content, from its own items and from the general model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from acqh._core.arrays import Bools, Floats
from acqh.collection._coder import Encoders, Features
from acqh.collection._feature_table import FeatureTable
from acqh.collection._stage import CHUNK_ROWS, BuildSettings, Learnt
from acqh.data import MultiViewData
from acqh.errors import CollectionError
from acqh.features import EfficientNetLite0, GeneralMap, SignedRoot, general_model
from acqh.methods import general_statistics
from acqh.methods._statistics import collect
from acqh.methods.acqh import ACQH

# Whether any label is shared, the usual relevance of the literature, favours items with many
# labels. For 20 label names as queries over 4,000 photographs, 6.8 of the best ten had the label
# with it, 9.5 with this.
_SIMILARITY = "jaccard"
# Half for labels costs 0.03 of the label similarity of the best ten where all items have labels,
# and gains where few have; and items find themselves by what they show and say.
_LABEL_WEIGHT = 0.5
# Of content where images lack texts: words are to find them. On 2,000 photographs 0.75 found a
# little more by words and by images than 0.5 or 1.
_TEXT_SHARE = 0.75
# Rows that codebooks are learnt from, held in memory: 109 MB of the usual features.
_SAMPLE_ROWS = 16_384
# Pairs of image and text that say for how many of them the general model counts.
_MAX_PAIRS = 2_000

_LABELS = "labels"


def usual_targets(
    views: Sequence[str], has_labels: bool, text_share: float | None = None
) -> dict[str, float]:
    """Return what a collection learns where nobody says it.

    Parameters
    ----------
    views : sequence of str
    has_labels : bool
        Whether any item has labels.
    text_share : float, optional
        How much of the content of images and texts is that of texts; all views count alike by
        default.

    Returns
    -------
    dict of str to float
        Weights of labels, if there are any, and of the content of the views.

    Examples
    --------
    >>> usual_targets(["image", "text"], has_labels=True)
    {'labels': 0.5, 'image': 0.25, 'text': 0.25}
    """
    labels = {_LABELS: _LABEL_WEIGHT} if has_labels else {}
    rest = 1 - sum(labels.values())
    shares = dict.fromkeys(views, 1 / len(views))
    if text_share is not None:
        shares = {"image": 1 - text_share, "text": text_share}
    return labels | {view: rest * share for view, share in shares.items()}


def learn(
    table: FeatureTable,
    labels: Sequence[tuple[str, ...]],
    encoders: Encoders,
    settings: BuildSettings,
) -> Learnt:
    """Learn to code the items of a collection, and queries of each view.

    Where the encoders are those of the general model and some image has no text, learning begins
    with that model's sums.

    Parameters
    ----------
    table : FeatureTable
    labels : sequence of n_items tuples of str
    encoders : Encoders
    settings : BuildSettings

    Raises
    ------
    CollectionError
        No item has anything to learn from.
    InvalidInputError, LabelError, ViewError
        Targets that there are not.
    """
    rows = _Rows(table, labels, sorted({name for row in labels for name in row}))
    n_having = rows.count()
    is_general = encoders.fit_general_model and rows.any_lacks_text()
    views = [view for view, n in n_having.items() if n or is_general]
    if not any(n_having.values()):
        raise CollectionError("no item has an image or a text that can be described")
    text_share = _TEXT_SHARE if is_general else None
    targets = settings.targets or usual_targets(views, bool(rows.names), text_share)
    model = ACQH(
        settings.n_components,
        n_codebooks=settings.n_codebooks,
        similarity=_SIMILARITY,
        targets=targets,
        feature_maps=_feature_maps(encoders, views, is_general),
        sample_size=_SAMPLE_ROWS,
        random_state=settings.random_state,
    )
    worth = _worth(rows) if is_general else 0.0
    if worth:
        general = general_statistics(worth, label_names=rows.names, sample_size=_SAMPLE_ROWS)
        own = collect(rows.chunks(views), None, general)
        model.fit_stats(replace(own, statistics=general.statistics + own.statistics))
    else:
        model.fit(rows.chunks(views))
    # Nothing is learnt later, and sums and samples would take more room than the items.
    del model.stats_
    trained_on = ", ".join(f"{name} {target.weight:.3g}" for name, target in model.targets_.items())
    if worth:
        trained_on += f", and the general model, which counts as {worth:,.0f} pairs"
    return Learnt(encoders, model, trained_on, rows.n_learnt(views))


@dataclass(frozen=True, eq=False)
class _Rows:
    """The items to learn from.

    Attributes
    ----------
    table : FeatureTable
    labels : sequence of n_items tuples of str
    names : list of str
        All labels.
    """

    table: FeatureTable
    labels: Sequence[tuple[str, ...]]
    names: list[str]

    def parts(self) -> Iterator[tuple[int, Features]]:
        """Yield the features of all items, and the number of the first of them."""
        for start in range(0, len(self.labels), CHUNK_ROWS):
            yield start, self.table.chunk(start, start + CHUNK_ROWS)

    def count(self) -> dict[str, int]:
        """Return how many items have each view."""
        found: dict[str, int] = {}
        for _, part in self.parts():
            for view, present in part.present.items():
                found[view] = found.get(view, 0) + int(present.sum())
        return found

    def n_learnt(self, views: Sequence[str]) -> int:
        """Return how many items have any of the views."""
        return sum(int(_any_of(part, views).sum()) for _, part in self.parts())

    def any_lacks_text(self) -> bool:
        """Whether an image has no text."""
        return any(
            (part.present["image"] & ~part.present["text"]).any() for _, part in self.parts()
        )

    def pairs(self, n_most: int) -> tuple[Floats, Floats]:
        """Return images and texts of the first items that have both."""
        images, texts = [], []
        for _, part in self.parts():
            rows = np.flatnonzero(part.present["image"] & part.present["text"])[:n_most]
            images.append(np.asarray(part.views["image"][rows]))
            texts.append(np.asarray(part.views["text"][rows]))
            n_most -= len(rows)
            if n_most == 0:
                break
        return np.concatenate(images), np.concatenate(texts)

    def chunks(self, views: Sequence[str]) -> Iterator[MultiViewData]:
        """Yield all items that have any of the views, with labels where there are any."""
        numbers = {name: number for number, name in enumerate(self.names)}
        for start, part in self.parts():
            rows = np.flatnonzero(_any_of(part, views))
            if rows.size == 0:
                continue
            named = [
                [numbers[name] for name in {*self.labels[start + row]}] for row in rows.tolist()
            ]
            bounds = np.cumsum([0, *map(len, named)])
            columns = np.array([number for row in named for number in row], dtype=np.int64)
            ones = np.ones(len(columns), dtype=np.uint8)
            shape = (len(rows), len(numbers))
            yield MultiViewData(
                {view: part.views[view][rows] for view in views},
                sp.csr_array((ones, columns, bounds), shape=shape) if numbers else None,
                label_names=self.names or None,
                present={view: part.present[view][rows] for view in views},
            )


def _any_of(part: Features, views: Sequence[str]) -> Bools:
    return np.asarray(np.any([part.present[view] for view in views], axis=0))


def _feature_maps(encoders: Encoders, views: Sequence[str], is_general: bool) -> dict[str, Any]:
    if is_general:
        return {view: GeneralMap(view) for view in views}
    rooted = [v for v in views if isinstance(encoders.by_view.get(v), EfficientNetLite0)]
    return {view: make_pipeline(SignedRoot(), Normalizer()) for view in rooted}


def _worth(rows: _Rows) -> float:
    """Return for how many pairs of these items the general model counts, by cross-validation."""
    refined = general_model().refine(*rows.pairs(_MAX_PAIRS))
    return refined.sums.n - refined.n_own
