"""How well items that come later fit codebooks that were learnt before."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Floats

# Retraining is recommended above this ratio; docs/guide/compress.md has its measurement.
DUE_RATIO = 1.5
# Fewer items that were added, or of which some were held out, say nothing.
MIN_ADDED = 32
MIN_LEARNT = 64
# Relative errors below this change no answer.
_LEAST_ERROR = 1e-3
_SUMS = ("n_added", "error", "energy")


@dataclass(frozen=True)
class Drift:
    """How well items that were added fit the codebooks, beside items like those learnt from.

    Parameters
    ----------
    expected : float or None
        Relative error of items like those learnt from, but held out; None where it is not known.
    n_added : int
        Items that were added since the codebooks were learnt.
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
        """Return what it is once items were added: vectors, and what their codes stand for."""
        errors = vectors - decoded
        error, energy = (float(np.vdot(rows, rows)) for rows in (errors, vectors))
        return self.plus(Drift(None, len(vectors), error, energy))

    def plus(self, other: "Drift") -> Self:
        """Return what it is with what was added elsewhere."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return replace(self, **sums)

    @property
    def relative_error(self) -> float:
        """Of what was added: squared errors over squared lengths."""
        return self.error / self.energy if self.energy else 0.0

    @property
    def ratio(self) -> float | None:
        """Error of what was added over what is expected; None where too few say so."""
        if self.expected is None or self.n_added < MIN_ADDED:
            return None
        return self.relative_error / max(self.expected, _LEAST_ERROR)

    @property
    def retraining_recommended(self) -> bool:
        """Whether retraining the codebooks is recommended."""
        return (self.ratio or 0.0) > DUE_RATIO

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it, with `ratio` and `retraining_recommended`."""
        derived = ("ratio", "retraining_recommended")
        return asdict(self) | {name: getattr(self, name) for name in derived}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Take back what `to_dict` gave; raises TypeError, KeyError or ValueError."""
        expected = values["expected"]
        sums = int(values["n_added"]), float(values["error"]), float(values["energy"])
        drift = cls(None if expected is None else float(expected), *sums)
        known = [drift.expected or 0.0, *sums]
        if not all(np.isfinite(value) and value >= 0 for value in known):
            raise ValueError(f"drift has a number that cannot be: {dict(values)}")
        return drift

    def __str__(self) -> str:
        if self.ratio is None:
            return f"{self.n_added:,} items added since learning"
        due = "retraining is recommended" if self.retraining_recommended else "the codebooks fit"
        return (
            f"{self.n_added:,} items added since learning have {self.ratio:.2f} times the error "
            f"of items like those learnt from: {due}"
        )
