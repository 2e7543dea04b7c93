"""What parameters may be: one name means one thing in all methods."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from acqh._core.validation import Interval, StrOptions

COUNT: list[Any] = [Interval(Integral, 1, None, closed="left")]
NOT_NEGATIVE: list[Any] = [Interval(Real, 0, None, closed="left")]
POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]

_COUNTS = (
    *("n_bits", "n_anchors", "n_atoms", "n_neighbours", "n_labelled", "max_train", "max_iter"),
    *("hidden", "max_epochs", "batch_size"),
)
_NOT_NEGATIVE = (
    *("ridge", "label_ridge", "feature_ridge", "label_weight", "feature_weight", "tol"),
    *("correlation_weight", "similarity_weight", "quantization_weight", "balance_weight"),
    *("gamma", "eta"),
)
_POSITIVE = (
    *("code_ridge", "penalty", "logistic_penalty", "projection_weight", "factor_weight"),
    *("link_weight", "learning_rate", "final_learning_rate"),
)

# A method adds its own, and those that it is stricter about.
CONSTRAINTS: dict[str, list[Any]] = {
    **dict.fromkeys(_COUNTS, COUNT),
    **dict.fromkeys(_NOT_NEGATIVE, NOT_NEGATIVE),
    **dict.fromkeys(_POSITIVE, POSITIVE),
    "n_components": [*COUNT, None],
    "n_codebooks": [Interval(Integral, 1, 15, closed="both")],
    "codebook_size": [Interval(Integral, 2, 256, closed="both")],
    "sparsity": [Interval(Real, 0, 1, closed="left")],
    "search": [StrOptions({"greedy", "beam", "icm", "beam+icm"})],
    "stop_at_rise": ["boolean"],
    "base_view": [str, None],
    "sparse_view": [str, None],
    "view_weights": [Mapping, None],
    "device": [str],
}
