"""Feature maps of views: made, fitted and applied by name of the view."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from acqh._core.arrays import Floats, Matrix, is_sparse
from acqh._core.device import MAX_MEMORY, to_tensor
from acqh.data import MultiViewData
from acqh.errors import ViewError
from acqh.features import Condition, KernelMap, make_feature_map
from acqh.methods.query_maps import widened

# Rows by which the size of a view's numbers is judged.
CONDITION_ROWS = 4_096


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
        each is left out; zeros where the view or the response is missing.
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
    rows = widened(rows)
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
        steps.append(make_map(kind, rng, n_anchors).fit(widened(rows)))
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
    some = widened(rows[:: max(1, rows.shape[0] // CONDITION_ROWS)])
    fitted = Condition().fit(some if own is None else own.transform(some))
    return fitted if fitted.is_needed else None


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
