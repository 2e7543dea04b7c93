"""Drift: quantization error of items added after training."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Floats

# Retraining is recommended above this ratio; docs/benchmarks/compression.md has its measurement.
DUE_RATIO = 1.5
# With fewer added or training items, no drift is reported.
MIN_ADDED = 32
MIN_LEARNT = 64
# Relative errors below this do not change results.
_LEAST_ERROR = 1e-3
_SUMS = ("n_added", "error", "energy")


@dataclass(frozen=True)
class Drift:
    """Quantization error of added items, compared with held-out training items.

    Parameters
    ----------
    expected : float or None
        Relative error of held-out training items; None if unknown.
    n_added : int
        Number of items added since training.
    error, energy : float
        Their squared errors and squared lengths, summed.

    Examples
    --------
    >>> import numpy as np
    >>> drift = Drift(expected=0.1).after(np.ones((50, 2)), np.full((50, 2), 0.5))
    >>> drift.ratio, drift.retraining_recommended
    (2.5, True)
    """

    expected: float | None
    n_added: int = 0
    error: float = 0.0
    energy: float = 0.0

    def after(self, vectors: Floats, decoded: Floats) -> Self:
        """Return the drift after adding items: their vectors and reconstructions."""
        errors = vectors - decoded
        error, energy = (float(np.vdot(rows, rows)) for rows in (errors, vectors))
        return self.plus(Drift(None, len(vectors), error, energy))

    def plus(self, other: "Drift") -> Self:
        """Return the drift with the added items of both."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return replace(self, **sums)

    @property
    def relative_error(self) -> float:
        """Squared errors over squared lengths of added items."""
        return self.error / self.energy if self.energy else 0.0

    @property
    def ratio(self) -> float | None:
        """Relative error of added items over the expected one; None if there are too few."""
        if self.expected is None or self.n_added < MIN_ADDED:
            return None
        return self.relative_error / max(self.expected, _LEAST_ERROR)

    @property
    def retraining_recommended(self) -> bool:
        """Whether retraining the codebooks is recommended."""
        return (self.ratio or 0.0) > DUE_RATIO

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with `ratio` and `retraining_recommended`."""
        derived = ("ratio", "retraining_recommended")
        return asdict(self) | {name: getattr(self, name) for name in derived}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the drift of `to_dict`; raises TypeError, KeyError or ValueError."""
        expected = values["expected"]
        sums = int(values["n_added"]), float(values["error"]), float(values["energy"])
        drift = cls(None if expected is None else float(expected), *sums)
        numbers = [drift.expected or 0.0, *sums]
        if not all(np.isfinite(value) and value >= 0 for value in numbers):
            raise ValueError(f"drift has a negative or non-finite number: {dict(values)}")
        return drift

    def __str__(self) -> str:
        if self.ratio is None:
            return f"{self.n_added:,} items added since training"
        due = "retraining is recommended" if self.retraining_recommended else "the codebooks fit"
        return (
            f"{self.n_added:,} items added since training have {self.ratio:.2f} times the error "
            f"of items like the training items: {due}"
        )
