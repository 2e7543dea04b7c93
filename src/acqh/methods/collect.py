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
from acqh._core.linalg import centering_offset
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.features import ConditionalCentering, KernelMap, RowSpace, make_feature_map
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
    """Statistics of all chunks, with the feature maps, widths and labels of the data."""

    statistics: Statistics  # of the mapped features
    feature_maps: dict[str, Any]  # fitted on the first chunk
    widths: dict[str, int]  # width of each view before its feature map
    label_names: tuple[str, ...]
    dtype: np.dtype[Any]  # float32 if it holds the numbers of all views, otherwise float64
    units: tuple[str, ...] = ()  # views that also have statistics of rows scaled to unit length
    # Each (n_items, n_features): leave-one-out features of the training part of kernel maps.
    held_out: Mapping[str, Matrix] = field(default_factory=dict)

    @classmethod
    def of_statistics(cls, stats: Statistics, label_names: Any = None) -> "MappedStatistics":
        """Wrap statistics of unmapped features.

        `label_names`: sequence of str; by default their numbers. Raises LabelError if the number of
        names differs from that of label columns.
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
        """Views that are projected on the span of the first items."""
        return self._mapped_by(RowSpace)

    @property
    def anchored(self) -> tuple[str, ...]:
        """Views whose feature map stores training rows."""
        return self._mapped_by(KernelMap)

    def _mapped_by(self, kind: type[Any]) -> tuple[str, ...]:
        return tuple(
            view
            for view, feature_map in self.feature_maps.items()
            if any(isinstance(step, kind) for step in steps_of(feature_map))
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
        """Return empty statistics of the same features."""
        stats = self.statistics
        return Statistics(stats.widths, stats.n_labels, stats.config)

    def map_rows(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """Return mapped rows, and those scaled to unit length if views need them."""
        mapped = {view: map_features(self.feature_maps, rows, view) for view, rows in views.items()}
        units = {unit_name(view): unit_rows(mapped[view]) for view in self.units if view in mapped}
        return mapped | units

    def map_sample(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        """Return mapped sampled rows; rows of taught views are already mapped."""
        maps = {
            view: feature_map
            for view, feature_map in self.feature_maps.items()
            if view not in self.taught
        }
        return {view: map_features(maps, rows, view) for view, rows in views.items()}


def collect(
    parts: Iterable[MultiViewData],
    schema: MappedStatistics | Callable[[MultiViewData], MappedStatistics],
) -> MappedStatistics:
    """Collect the statistics of all parts of the training data in one pass.

    Parameters
    ----------
    parts : iterable of MultiViewData
        At least one; with the same views, widths and label names.
    schema : MappedStatistics or callable
        Feature maps, views, labels and config of the data; or a function that returns them for
        the first part, such as `fit_schema`.

    Returns
    -------
    MappedStatistics
        Statistics of these parts only.

    Raises
    ------
    LabelError
        A part has other label names.
    ViewError
        A part has other views or widths.
    """
    statistics = None
    for part in parts:
        if not isinstance(schema, MappedStatistics):
            schema = schema(part)
        if statistics is None:
            statistics = schema.empty_statistics()
        add_part(part, schema, statistics)
        schema = replace(schema, held_out={})
        # Free this part before the next one is read: a part may fill the memory.
        del part
    if not isinstance(schema, MappedStatistics) or statistics is None:
        raise InvalidInputError("the training data are empty; pass at least one part")
    return replace(schema, statistics=statistics)


def fit_schema(
    part: MultiViewData,
    feature_maps: Any = None,
    config: StatisticsConfig = NO_SAMPLE,
    *,
    units: tuple[str, ...] = (),
    responses: Floats | None = None,
    rng: np.random.Generator | None = None,
    is_whole: bool = False,
    max_memory: int | None = None,
) -> MappedStatistics:
    """Fit the feature maps on a part; return the schema of all parts, with empty statistics.

    Parameters
    ----------
    part : MultiViewData
    feature_maps : mapping of str to feature map, one for all views, or None
    config : StatisticsConfig
        Default: no cross products, no sample.
    units : tuple of str
        Views that also have statistics of their rows scaled to unit length.
    responses : (n_items, n_dimensions), optional
        Targets of kernel maps; rows of NaN are missing.
    rng : Generator, optional
        Seeds random feature maps without a seed.
    is_whole : bool
        Whether the part is all data. Views with more features than items are then projected on the
        span of the items.
    max_memory : int, optional
        Memory limit in bytes of kernel maps on a device. Default: that of the map.
    """
    kinds = [matrix.dtype for matrix in part.views.values()]
    held_out: dict[str, Floats] = {}
    maps = fit_feature_maps(
        feature_maps,
        part,
        rng=rng,
        responses=responses,
        held_out=held_out,
        max_memory=max_memory,
    )
    schema = MappedStatistics(
        statistics=Statistics({}, len(part.label_names)),
        feature_maps=_narrowed(maps, part, held_out) if is_whole else maps,
        widths={view: matrix.shape[1] for view, matrix in part.views.items()},
        label_names=part.label_names,
        dtype=np.result_type(np.float32, *kinds),
        units=units,
        held_out=held_out,
    )
    others = {view: matrix[:1] for view, matrix in part.views.items() if view not in held_out}
    first = schema.map_rows(others) | held_out
    widths = {view: matrix.shape[1] for view, matrix in first.items()}
    return replace(schema, statistics=Statistics(widths, len(part.label_names), config))


def _narrowed(maps: dict[str, Any], part: MultiViewData, narrow: Collection[str]) -> dict[str, Any]:
    """Append a `RowSpace` to the maps of views with more features than items."""
    narrowed = dict(maps)
    for view, matrix in part.views.items():
        if view in narrow:
            continue
        rows = np.flatnonzero(part.present[view])
        first = map_features(maps, matrix[rows[:1]], view)
        if first.shape[1] > max(_WIDE, rows.size):
            space = RowSpace().fit(map_features(maps, matrix[rows], view))
            narrowed[view] = as_step([*steps_of(maps.get(view)), space])
    return narrowed


def add_part(part: MultiViewData, schema: MappedStatistics, statistics: Statistics) -> None:
    """Add the items of one part to statistics, in place.

    `part`: with or without labels. `schema`: the feature maps, and the expected views and labels.
    With held-out features, the part must be the one that its maps were fitted on. `statistics`:
    from `MappedStatistics.empty_statistics`, or with earlier parts. Raises the errors of `collect`.
    """
    check_same(part, schema)
    start, keys = 0, []
    # For taught views the sample stores leave-one-out predictions instead of rows.
    predictions: dict[str, list[Matrix]] = {view: [] for view in schema.taught}
    for chunk in part.chunks(CHUNK_ROWS):
        chunk_rows = slice(start, start + len(chunk))
        start = chunk_rows.stop
        ready = {view: rows[chunk_rows] for view, rows in schema.held_out.items()}
        others = {view: rows for view, rows in chunk.views.items() if view not in ready}
        present = dict(chunk.present)
        present |= {unit_name(view): present[view] for view in schema.units}
        mapped = schema.map_rows(others) | ready
        statistics.update(mapped, chunk.labels, present, rows={})
        if statistics.config.sample_size:
            keys.append(row_keys(chunk.views, chunk.labels, chunk.present))
            for view, blocks in predictions.items():
                blocks.append(mapped[view])
    if keys:
        # Once per part, so that its rows are copied once.
        rows = {**part.views} | {
            view: np.concatenate(blocks) for view, blocks in predictions.items()
        }
        statistics.add_rows(rows, part.labels, part.present, np.concatenate(keys))


def check_same(part: Any, schema: MappedStatistics) -> None:
    """Raise ViewError or LabelError for a part with other views, widths or labels than before."""
    widths = {view: matrix.shape[1] for view, matrix in part.views.items()}
    if widths != schema.widths:
        raise ViewError(f"views and widths must be {schema.widths} as before, got {widths}")
    if part.labels is not None and part.label_names != schema.label_names:
        raise LabelError(
            "label names differ from those of earlier parts; pass the same label_names= with every "
            "part"
        )


def fit_feature_maps(
    feature_maps: Any,
    data: MultiViewData,
    *,
    rng: np.random.Generator | None = None,
    n_anchors: int | None = None,
    responses: Floats | None = None,
    held_out: dict[str, Floats] | None = None,
    max_memory: int | None = None,
) -> dict[str, Any]:
    """Return fitted feature maps by view; each is fitted on the rows that have the view.

    If the squares of mapped numbers would overflow, underflow or lose precision, the view also
    gets an `acqh.features.ConditionalCentering`.

    Parameters
    ----------
    feature_maps : mapping of str to feature map, one feature map for all views, or None
    data : MultiViewData
    rng : Generator, optional
        Seeds random feature maps without a seed.
    n_anchors : int, optional
        Anchors of RBF maps that are selected by name.
    responses : (n_items, n_dimensions), optional
        Targets of kernel maps; rows of NaN are missing.
    held_out : dict, optional
        Output: for each view with such a map, the leave-one-out features of the items; zeros if
        the view is missing.
    max_memory : int, optional
        Memory limit in bytes of such maps of dense views on a device; kernels use half of it.

    Raises
    ------
    ViewError
        A feature map for an unknown view.
    """
    feature_maps = maps_by_view(feature_maps, data.views)
    fitted_maps: dict[str, Any] = {}
    for view, matrix in data.views.items():
        rows_present, kind = data.present[view], feature_maps.get(view)
        if not rows_present.any():
            continue
        if responses is not None and held_out is not None and is_kernel(kind):
            rows_present = rows_present & np.isfinite(responses).all(axis=1)
            limit = None if is_sparse(matrix) else max_memory
            fitted_maps[view], features = _fit_kernel(
                kind, matrix[rows_present], responses[rows_present], rng, limit
            )
            held_out[view] = np.zeros((len(rows_present), features.shape[1]), features.dtype)
            held_out[view][rows_present] = features
            others = data.present[view] & ~rows_present
            if others.any():
                held_out[view][others] = fitted_maps[view].transform(upcast_half(matrix[others]))
        else:
            # Do not copy if all rows are present: they may fill most of the memory.
            rows = matrix if rows_present.all() else matrix[rows_present]
            fitted_maps[view] = _fit_steps(kind, rows, rng, n_anchors)
    return {view: fitted for view, fitted in fitted_maps.items() if fitted is not None}


def maps_by_view(feature_maps: Any, views: Collection[str]) -> Mapping[str, Any]:
    """Return the feature map of every view that has one.

    Raises ViewError for a feature map of an unknown view.
    """
    if not isinstance(feature_maps, Mapping):
        return {} if feature_maps is None else dict.fromkeys(views, feature_maps)
    unknown = set(feature_maps) - set(views)
    if unknown:
        raise ViewError(
            f"feature maps for unknown views {sorted(unknown)}; the views are {sorted(views)}"
        )
    return feature_maps


def has_kernel(feature_maps: Any) -> bool:
    """Whether a view has a kernel map, which is fitted to targets."""
    maps = feature_maps.values() if isinstance(feature_maps, Mapping) else [feature_maps]
    return any(map(is_kernel, maps))


def is_kernel(kind: Any) -> bool:
    """Whether a feature map is a kernel map, which is fitted to targets."""
    if isinstance(kind, str):
        return kind == "kernel"
    return isinstance(kind, KernelMap | Pipeline) and isinstance(steps_of(kind)[-1], KernelMap)


def _fit_kernel(
    kind: Any,
    rows: Matrix,
    responses: Floats,
    rng: np.random.Generator | None,
    max_memory: int | None,
) -> tuple[Any, Floats]:
    """Fit a kernel map and its preceding steps to responses; return it with its features."""
    *before, kernel_map = steps_of(make_map(kind, rng, None))
    if not before and (needed := _condition(rows)) is not None:
        before = [needed]
    rows = upcast_half(rows)
    for step in before:
        rows = step.fit(rows).transform(rows)
    if max_memory is not None:
        kernel_map.max_memory = min(kernel_map.max_memory, max(max_memory // 2, 1))
    return as_step([*before, kernel_map]), kernel_map.fit_to(rows, responses)


def _fit_steps(
    kind: Any, rows: Matrix, rng: np.random.Generator | None, n_anchors: int | None
) -> Any:
    """Fit the map of a view, with the conditions that its numbers need."""
    steps = [_condition(rows)] if kind is None or isinstance(kind, str) else []
    if kind is not None:
        for step in filter(None, steps):
            rows = step.transform(rows)
        steps.append(make_map(kind, rng, n_anchors).fit(upcast_half(rows)))
        steps.append(_condition(rows, steps[-1]))
    needed = [step for step in steps if step is not None]
    return as_step(needed) if needed else None


def as_step(steps: list[Any]) -> Any:
    """Return several maps as one pipeline."""
    if len(steps) == 1:
        return steps[0]
    return Pipeline([(str(number), step) for number, step in enumerate(steps)])


def steps_of(feature_map: Any) -> list[Any]:
    """Return the steps of a feature map; empty for None."""
    if isinstance(feature_map, Pipeline):
        return [step for _, step in feature_map.steps]
    return [] if feature_map is None else [feature_map]


def _condition(rows: Matrix, feature_map: Any = None) -> ConditionalCentering | None:
    """Return the conditioning that mapped rows need, or None."""
    some = upcast_half(rows[:: max(1, rows.shape[0] // CONDITION_ROWS)])
    mapped = some if feature_map is None else feature_map.transform(some)
    return ConditionalCentering().fit(mapped) if centering_offset(mapped).any() else None


def make_map(
    kind: Any, rng: np.random.Generator | None = None, n_anchors: int | None = None
) -> Any:
    """Return an unfitted feature map from a name or a template; set missing seeds."""
    feature_map = make_feature_map(kind)
    if not hasattr(feature_map, "get_params"):
        return feature_map
    params = feature_map.get_params(deep=True)
    if isinstance(kind, str) and n_anchors is not None and "n_anchors" in params:
        feature_map.set_params(n_anchors=n_anchors)
    if rng is not None:
        unset = [
            key
            for key, value in sorted(params.items())
            if value is None and key.rpartition("__")[2] == "random_state"
        ]
        feature_map.set_params(**{key: int(rng.integers(2**31)) for key in unset})
    return feature_map
