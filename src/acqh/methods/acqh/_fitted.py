"""What a fit gives, whatever its targets."""

from dataclasses import dataclass
from typing import Any

from acqh._core.arrays import Floats
from acqh.methods.acqh._label_space import LabelSpace
from acqh.methods.acqh._space import TargetSpace


@dataclass(frozen=True)
class Fitted:
    """A fitted model without names and types.

    Attributes
    ----------
    space : LabelSpace or TargetSpace
    projections : dict of str to (n_features, n_components)
    intercepts : dict of str to (n_components,)
        From features to query vectors.
    units : dict of str to (n_features, n_components)
        From features scaled to unit length, added; only for views that need it.
    codebooks : (n_codebooks, codebook_size, n_components)
    metric : (n_components, n_components)
        The metric in which a code vector is to be near its target.
    objective : list of float
        At the start and after each step.
    lower_bound : float
    ridges : dict
    query_share : float
        Share of the real queries in the metric.
    """

    space: LabelSpace | TargetSpace
    projections: dict[str, Floats]
    intercepts: dict[str, Floats]
    units: dict[str, Floats]
    codebooks: Floats
    metric: Floats
    objective: list[float]
    lower_bound: float
    ridges: dict[str, Any]
    query_share: float
