"""From parts of data, through feature maps, to sufficient statistics."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from acqh._core.arrays import (
    CHUNK_ROWS,
    Floats,
    Matrix,
    is_sparse,
    map_features,
    unit_rows,
    upcast_half,
)
from acqh._core.device import MAX_MEMORY, Tensor, to_tensor
from acqh._core.linalg import centering_offset
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.features import Condition, KernelMap, RowSpace, make_feature_map
from acqh.stats import Statistics, StatisticsConfig
from acqh.stats.sample import row_keys

# Rows by which the size of a view's numbers is judged.
CONDITION_ROWS = 4_096
# What follows the name of a view in the name of its rows scaled to unit length.
_UNIT = ":unit"
# Narrower views are solved as they are, however few items there are.
_WIDE = 2048
# What regressions on labels alone need.
NO_SAMPLE = StatisticsConfig(frozenset(), 0)


def unit_name(view: str) -> str:
    """Return the name that statistics have for the rows of a view scaled to unit length."""
    return view + _UNIT


@dataclass(frozen=True)
class MappedStatistics:
    """The sums over all chunks and what they are sums of."""

    statistics: Statistics  # of the mapped features
    feature_maps: dict[str, Any]  # fitted on the first chunk
    widths: dict[str, int]  # width of each view before its feature map
    label_names: tuple[str, ...]
    dtype: np.dtype[Any]  # float32 if it holds the numbers of all views, otherwise float64
    units: tuple[str, ...] = ()  # views that are also summed with their rows scaled to unit length
    # each (n_items, n_features): features of the part that the maps were fitted to, by
    # maps that saw what it is to be predicted as: each row as if they had not seen it.
    left_out: Mapping[str, Matrix] = field(default_factory=dict)

    @classmethod
    def of_sums(cls, stats: Statistics, label_names: Any = None) -> "MappedStatistics":
        """Return what sums alone say of the data.

        `label_names`: sequence of str; their numbers by default. Raises LabelError: another number
        of names than of label columns.
        """
        names = label_names or [str(column) for column in range(stats.n_labels)]
        if len(names) != stats.n_labels:
            raise LabelError(f"{len(names)} label names for {stats.n_labels} label columns")
        units = tuple(name for name in stats.widths if unit_name(name) in stats.widths)
        derived = {unit_name(name) for name in units}
        widths = {name: width for name, width in stats.widths.items() if name not in derived}
        return cls(stats, {}, widths, tuple(map(str, names)), np.dtype(np.float64), units)

    @property
    def spanned(self) -> tuple[str, ...]:
        """Views that are known only in the space that the items fitted first span."""
        return self._mapped_by(RowSpace)

    @property
    def anchored(self) -> tuple[str, ...]:
        """Views whose feature map holds training rows that taught it."""
        return self._mapped_by(KernelMap)

    def _mapped_by(self, kind: type[Any]) -> tuple[str, ...]:
        return tuple(
            view
            for view, own in self.feature_maps.items()
            if any(isinstance(step, kind) for step in steps_of(own))
        )

    @property
    def taught(self) -> tuple[str, ...]:
        """Views whose kernel map predicts label embeddings: its coefficients are float32."""
        return tuple(
            view
            for view in self.anchored
            if steps_of(self.feature_maps[view])[-1].coefficients_.dtype == np.float32
        )

    def empty_statistics(self) -> Statistics:
        """Return statistics of the same features over no items, to be added to."""
        own = self.statistics
        return Statistics(own.widths, own.n_labels, own.config)

    def map_rows(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """Return rows through their feature maps, and those of unit length if views need them."""
        mapped = {view: map_features(self.feature_maps, rows, view) for view, rows in views.items()}
        units = {unit_name(view): unit_rows(mapped[view]) for view in self.units if view in mapped}
        return mapped | units

    def map_sample(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """Return sampled rows through their feature maps; those of taught views are mapped."""
        maps = {view: own for view, own in self.feature_maps.items() if view not in self.taught}
        return {view: map_features(maps, rows, view) for view, rows in views.items()}


def collect(
    parts: Iterable[MultiViewData],
    known: MappedStatistics | Callable[[MultiViewData], MappedStatistics],
) -> MappedStatistics:
    """Sum over all parts of the training data, in one pass.

    Parameters
    ----------
    parts : iterable of MultiViewData
        At least one; with the same views, widths and label names.
    known : MappedStatistics or callable
        What the data must be like: feature maps are used as they are, and the same is kept. Or a
        function that says so of the first part, such as `describe`.

    Returns
    -------
    MappedStatistics
        Of these parts alone, also where `known` is given.

    Raises
    ------
    LabelError
        Other label names.
    ViewError
        A part has other views or widths.
    """
    statistics = None
    for part in parts:
        if not isinstance(known, MappedStatistics):
            known = known(part)
        if statistics is None:
            statistics = known.empty_statistics()
        add_part(part, known, statistics)
        known = replace(known, left_out={})
        # The next part may be as large as memory allows: this one must be gone when it is read.
        del part
    if not isinstance(known, MappedStatistics) or statistics is None:
        raise InvalidInputError("there is no data: no part was given")
    return replace(known, statistics=statistics)


def describe(
    part: MultiViewData,
    feature_maps: Any = None,
    config: StatisticsConfig = NO_SAMPLE,
    *,
    units: tuple[str, ...] = (),
    responses: Floats | None = None,
    rng: np.random.Generator | None = None,
    is_whole: bool = False,
    device: Any = None,
    max_memory: int = MAX_MEMORY,
) -> MappedStatistics:
    """Fit the feature maps to a part; return what all parts must be like, with sums of none.

    Parameters
    ----------
    part : MultiViewData
    feature_maps : mapping of str to feature map, one for all views, or None
    config : StatisticsConfig
        Default: no cross products, no sample.
    units : tuple of str
        Views whose rows, scaled to unit length, are summed as views of their own.
    responses : (n_items, n_dimensions), optional
        What kernel maps learn to predict; a row of NaN where it is not known.
    rng : Generator, optional
        Seeds feature maps that draw at random and bring no seed of their own.
    is_whole : bool
        Whether the part is all there is. Views with more features than it has items are then summed
        in the space that the items span.
    device : torch device, optional
        Where kernel maps are learnt; on the host by default.
    max_memory : int
        Bytes that maps may take on a device.
    """
    kinds = [matrix.dtype for matrix in part.views.values()]
    left_out: dict[str, Floats] = {}
    maps = fit_feature_maps(
        feature_maps,
        part,
        rng=rng,
        responses=responses,
        left_out=left_out,
        device=device,
        max_memory=max_memory,
    )
    known = MappedStatistics(
        statistics=Statistics({}, len(part.label_names)),
        feature_maps=_narrowed(maps, part, left_out) if is_whole else maps,
        widths={view: matrix.shape[1] for view, matrix in part.views.items()},
        label_names=part.label_names,
        dtype=np.result_type(np.float32, *kinds),
        units=units,
        left_out=left_out,
    )
    others = {view: matrix[:1] for view, matrix in part.views.items() if view not in left_out}
    first = known.map_rows(others) | left_out
    widths = {view: matrix.shape[1] for view, matrix in first.items()}
    return replace(known, statistics=Statistics(widths, len(part.label_names), config))


def _narrowed(maps: dict[str, Any], part: MultiViewData, narrow: Collection[str]) -> dict[str, Any]:
    """Put a `RowSpace` behind the maps of views with more features than items."""
    found = dict(maps)
    for view, matrix in part.views.items():
        if view in narrow:
            continue
        rows = np.flatnonzero(part.present[view])
        first = map_features(maps, matrix[rows[:1]], view)
        if first.shape[1] > max(_WIDE, rows.size):
            space = RowSpace().fit(map_features(maps, matrix[rows], view))
            found[view] = as_step([*steps_of(maps.get(view)), space])
    return found


def add_part(part: MultiViewData, known: MappedStatistics, statistics: Statistics) -> None:
    """Add the items of one part to statistics, in place.

    `part`: none of its items need have a label. `known`: what the part must be like, and the
    feature maps to use; where it brings features that were left out, the part is the one that its
    maps were fitted to. `statistics`: as `MappedStatistics.empty_statistics` gives them, or those
    of parts before. Raises LabelError, ViewError: as `collect` does.
    """
    check_same(part, known)
    start, keys = 0, []
    # The sample holds predictions that never saw the row, instead of the row itself.
    predictions: dict[str, list[Matrix]] = {view: [] for view in known.taught}
    for chunk in part.chunks(CHUNK_ROWS):
        here = slice(start, start + len(chunk))
        start = here.stop
        ready = {view: rows[here] for view, rows in known.left_out.items()}
        others = {view: rows for view, rows in chunk.views.items() if view not in ready}
        present = dict(chunk.present)
        present |= {unit_name(view): present[view] for view in known.units}
        mapped = known.map_rows(others) | ready
        statistics.update(mapped, chunk.labels, present, rows={})
        if statistics.config.sample_size:
            keys.append(row_keys(chunk.views, chunk.labels, chunk.present))
            for view, blocks in predictions.items():
                blocks.append(mapped[view])
    if keys:
        # Of the whole part, so that its rows are copied once.
        rows = {**part.views} | {view: np.concatenate(it) for view, it in predictions.items()}
        statistics.add_rows(rows, part.labels, part.present, np.concatenate(keys))


def takes_tensors(feature_maps: Mapping[str, Any], view: str) -> bool:
    """Whether rows of a view have a map, and can go through it as tensors."""
    steps = steps_of(feature_maps.get(view))
    return bool(steps) and all(getattr(step, "takes_tensors", False) for step in steps)


def map_tensors(feature_maps: Mapping[str, Any], views: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return rows of views through their feature maps.

    Raises InvalidInputError: a feature map takes arrays only.
    """
    for name in views:
        if name in feature_maps and not takes_tensors(feature_maps, name):
            raise InvalidInputError(
                f"the feature map of view '{name}' takes arrays only, got a tensor; give arrays"
            )
    return {
        name: feature_maps[name].transform(rows) if name in feature_maps else rows
        for name, rows in views.items()
    }


def check_same(part: Any, known: MappedStatistics) -> None:
    """Refuse a part of other views, widths or labels than those before."""
    widths = {view: matrix.shape[1] for view, matrix in part.views.items()}
    if widths != known.widths:
        raise ViewError(f"views and widths were {known.widths} before, now they are {widths}")
    if part.labels is not None and part.label_names != known.label_names:
        raise LabelError(
            "label names differ from those before; give label_names= to every part, so that a "
            "column means the same label everywhere"
        )


def fit_feature_maps(
    feature_maps: Any,
    data: MultiViewData,
    *,
    rng: np.random.Generator | None = None,
    n_anchors: int | None = None,
    responses: Floats | None = None,
    left_out: dict[str, Floats] | None = None,
    device: Any = None,
    max_memory: int = MAX_MEMORY,
) -> dict[str, Any]:
    """Return fitted feature maps by view; each sees only the rows that have the view.

    A view whose numbers, as mapped, are too large, too small or too far from zero for sums of
    squares also gets an `acqh.features.Condition`.

    Parameters
    ----------
    feature_maps : mapping of str to feature map, one feature map for all views, or None
    data : MultiViewData
    rng : Generator, optional
        Seeds every map that draws at random and brings no seed of its own.
    n_anchors : int, optional
        Anchors of maps that are given by the name of an RBF variant.
    responses : (n_items, n_dimensions), optional
        What kernel maps learn to predict; a row of NaN where it is not known.
    left_out : dict, optional
        Gets, for each view with such a map, the features of the items as they are predicted when
        each is left out; zeros where the view is missing.
    device : torch device, optional
        Where such maps of dense views are learnt; on the host by default.
    max_memory : int
        Bytes on a device, of which half is for kernels.

    Raises
    ------
    ViewError
        A map is given for a view that there is not.
    """
    feature_maps = maps_by_view(feature_maps, data.views)
    found: dict[str, Any] = {}
    for view, matrix in data.views.items():
        here, kind = data.present[view], feature_maps.get(view)
        if not here.any():
            continue
        if responses is not None and left_out is not None and is_kernel(kind):
            here = here & np.isfinite(responses).all(axis=1)
            place = None if device is None or is_sparse(matrix) else (device, max_memory)
            found[view], features = _fit_kernel(kind, matrix[here], responses[here], rng, place)
            left_out[view] = np.zeros((len(here), features.shape[1]), features.dtype)
            left_out[view][here] = features
            others = data.present[view] & ~here
            if others.any():
                left_out[view][others] = found[view].transform(upcast_half(matrix[others]))
        else:
            # Rows that are all wanted are not copied: they may be most of what memory holds.
            rows = matrix if here.all() else matrix[here]
            found[view] = _fit_steps(kind, rows, rng, n_anchors)
    return {view: fitted for view, fitted in found.items() if fitted is not None}


def maps_by_view(feature_maps: Any, views: Collection[str]) -> Mapping[str, Any]:
    """Return the feature map of every view that has one.

    Raises ViewError: a map is given for a view that there is not.
    """
    if not isinstance(feature_maps, Mapping):
        return {} if feature_maps is None else dict.fromkeys(views, feature_maps)
    unknown = set(feature_maps) - set(views)
    if unknown:
        raise ViewError(
            f"feature maps are given for {sorted(unknown)}, but the views are {sorted(views)}"
        )
    return feature_maps


def has_kernel(feature_maps: Any) -> bool:
    """Whether the feature map of a view is one that learns from what is to be predicted."""
    own = feature_maps.values() if isinstance(feature_maps, Mapping) else [feature_maps]
    return any(map(is_kernel, own))


def is_kernel(kind: Any) -> bool:
    """Whether a feature map is one that learns from what is to be predicted."""
    if isinstance(kind, str):
        return kind == "kernel"
    return isinstance(kind, KernelMap | Pipeline) and isinstance(steps_of(kind)[-1], KernelMap)


def _fit_kernel(
    kind: Any,
    rows: Matrix,
    responses: Floats,
    rng: np.random.Generator | None,
    place: tuple[Any, int] | None,
) -> tuple[Any, Floats]:
    """Fit a kernel map, and what comes before it, to responses; return it with its features."""
    *before, own = steps_of(make_map(kind, rng, None))
    if not before and (needed := _condition(rows)) is not None:
        before = [needed]
    rows = upcast_half(rows)
    for step in before:
        rows = step.fit(rows).transform(rows)
    if place is None:
        features = own.fit_to(rows, responses)
    else:
        device, max_memory = place
        features = bounded(own, max_memory).fit_to(to_tensor(rows, device), responses)
        features = features.cpu().numpy()
    return as_step([*before, own]), features


def bounded(own: KernelMap, max_memory: int) -> KernelMap:
    """Let the kernels of a map take at most half of the memory on a device."""
    own.max_memory = min(own.max_memory, max(max_memory // 2, 1))
    return own


def _fit_steps(
    kind: Any, rows: Matrix, rng: np.random.Generator | None, n_anchors: int | None
) -> Any:
    """Fit a view's own map, and beside it the conditions that its numbers need."""
    steps = [_condition(rows)] if kind is None or isinstance(kind, str) else []
    if kind is not None:
        for step in filter(None, steps):
            rows = step.transform(rows)
        steps.append(make_map(kind, rng, n_anchors).fit(upcast_half(rows)))
        steps.append(_condition(rows, steps[-1]))
    needed = [step for step in steps if step is not None]
    return as_step(needed) if needed else None


def as_step(steps: list[Any]) -> Any:
    """Return several maps as one."""
    if len(steps) == 1:
        return steps[0]
    return Pipeline([(str(number), step) for number, step in enumerate(steps)])


def steps_of(own: Any) -> list[Any]:
    """Return the maps that a view's own consists of; none where it has none."""
    if isinstance(own, Pipeline):
        return [step for _, step in own.steps]
    return [] if own is None else [own]


def _condition(rows: Matrix, own: Any = None) -> Condition | None:
    """Return what rows, as mapped, need before their squares are summed."""
    some = upcast_half(rows[:: max(1, rows.shape[0] // CONDITION_ROWS)])
    mapped = some if own is None else own.transform(some)
    return Condition().fit(mapped) if centering_offset(mapped).any() else None


def make_map(
    kind: Any, rng: np.random.Generator | None = None, n_anchors: int | None = None
) -> Any:
    """Return an unfitted map of a name or of one like it, seeded where it brings no seed."""
    made = make_feature_map(kind)
    if not hasattr(made, "get_params"):
        return made
    params = made.get_params(deep=True)
    if isinstance(kind, str) and n_anchors is not None and "n_anchors" in params:
        made.set_params(n_anchors=n_anchors)
    if rng is not None:
        unset = [
            key
            for key, value in sorted(params.items())
            if value is None and key.rpartition("__")[2] == "random_state"
        ]
        made.set_params(**{key: int(rng.integers(2**31)) for key in unset})
    return made
