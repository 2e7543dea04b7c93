"""What a fit gives, whatever its targets."""

from dataclasses import dataclass
from typing import Any

from acqh._core.arrays import Floats
from acqh.methods.acqh._label_space import LabelSpace
from acqh.methods.acqh._space import TargetSpace


@dataclass(frozen=True)
class Fitted:
    """A fitted model without names and types."""

    space: LabelSpace | TargetSpace
    projections: dict[str, Floats]  # each (n_features, n_components)
    intercepts: dict[str, Floats]  # each (n_components,): from features to query vectors
    # each (n_features, n_components): from features scaled to unit length, added; only
    # for views that need it.
    units: dict[str, Floats]
    codebooks: Floats  # (n_codebooks, codebook_size, n_components)
    # (n_components, n_components): the metric in which a code vector is to be near its target.
    metric: Floats
    objective: list[float]  # at the start and after each step
    lower_bound: float
    ridges: dict[str, Any]
    query_share: float  # share of the real queries in the metric
