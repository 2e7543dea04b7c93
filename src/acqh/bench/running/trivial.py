"""Trivial baselines that only the bench has: canonical correlation analysis, random codes."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg

from acqh._core.arrays import Array, Floats, Matrix, is_sparse, unit_rows
from acqh._core.linalg import mean_diagonal
from acqh._core.runtime import RandomState
from acqh.methods import BaseMethod
from acqh.methods.base import as_parts
from acqh.methods.baselines.binary import BinaryMethod
from acqh.methods.baselines.label_ridge import RealMethod
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import Training
from acqh.methods.registry import DatabaseMode, MethodInfo


class CanonicalCorrelation(RealMethod):
    """Regularized canonical correlation analysis of two views; real vectors of unit length.

    A database item is the vector of its searched view, or the mean over its views.

    Parameters
    ----------
    n_components : int
    ridge : float
        Relative to the mean variance of a view; fixed beforehand, never tuned.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> cca = CanonicalCorrelation(8).fit(data.views)
    >>> cca.project(data.views["image"][:3], view="image").shape
    (3, 8)
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="cca",
        title="Canonical correlation analysis (trivial baseline)",
        reference="Hotelling, Relations between two sets of variates, Biometrika 1936",
        supervised=False,
        code="real",
        modes=("single", "fused"),
        status="paper",
    )
    view_range: ClassVar[tuple[int, int | None]] = (2, 2)

    def __init__(self, n_components: int = 32, ridge: float = 0.1) -> None:
        self.n_components = n_components
        self.ridge = ridge

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn the maps from the pairs; labels are not used."""
        (data,) = as_parts(views, labels)
        self.n_features_in_ = {name: view.shape[1] for name, view in data.views.items()}
        rows = [Rows(view.astype(np.float64), centre=True) for view in data.views.values()]
        roots = [_inverse_root(view_rows.gram(), self.ridge) for view_rows in rows]
        cross = roots[0] @ rows[0].cross(rows[1]) @ roots[1]
        left, correlations, right = scipy.linalg.svd(cross, full_matrices=False)
        # Directions count by their correlation, so those of noise add little to a score.
        scale = np.sqrt(correlations[: self.n_components])
        sides = (side[:, : self.n_components] * scale for side in (left, right.T))
        maps = (root @ side for root, side in zip(roots, sides, strict=True))
        self.means_ = {name: view.mean for name, view in zip(data.views, rows, strict=True)}
        self.projections_ = dict(zip(data.views, maps, strict=True))
        return self

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Return the canonical variates of queries, (n_queries, n_components) float32."""
        projection = self.projections_[view]
        vectors = self._check_view(X, view) @ projection - self.means_[view] @ projection
        return np.asarray(unit_rows(vectors), dtype=np.float32)


def _inverse_root(gram: Floats, ridge: float) -> Floats:
    """Return the inverse square root of a Gram matrix, regularized."""
    values, vectors = scipy.linalg.eigh(gram)
    values = np.maximum(values, 0.0) + ridge * max(mean_diagonal(gram), 1e-300)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


@dataclass(eq=False, repr=False)
class RandomCodes(BinaryMethod):
    """Random bits seeded by the checksum of an item's features: the chance level.

    Equal items have equal codes, so results do not depend on the order of calls.

    Examples
    --------
    >>> codes = RandomCodes(16).fit({"image": np.eye(3), "text": np.eye(3)})
    >>> codes.encode({"image": np.eye(3)}).shape
    (3, 2)
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="random",
        title="Random codes (trivial baseline)",
        reference="",
        supervised=False,
        code="binary",
        modes=("single", "fused"),
    )
    _: KW_ONLY
    feature_maps: Any = field(default=None, init=False)
    random_state: RandomState = 0

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Store the widths of the views."""
        self._check_parameters()
        first = next(as_parts(views, labels))
        self.n_features_in_ = {name: view.shape[1] for name, view in first.views.items()}
        self.n_bits_ = self.n_bits
        return self

    def _learn(self, data: Training) -> dict[str, Any]:
        raise NotImplementedError  # not called by `fit`

    def _project(self, matrix: Matrix, view: str) -> Floats:
        return self.decode(self._code({view: matrix}, "single"))

    def _code(self, views: Mapping[str, Matrix], mode: DatabaseMode) -> Array:  # noqa: ARG002
        start = f"{self.random_state} {len(views)} ".encode()
        digests = [
            hashlib.shake_128(start + b"".join(rows)).digest(self.bytes_per_item)
            for rows in zip(*(_row_bytes(X) for _, X in sorted(views.items())), strict=True)
        ]
        return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, self.bytes_per_item)


# Trivial baselines that only the bench knows; label-ridge is a registered method.
TRIVIAL: Mapping[str, type[BaseMethod]] = {
    cls.info.name: cls for cls in (CanonicalCorrelation, RandomCodes)
}


def _row_bytes(matrix: Matrix) -> Iterable[bytes]:
    if not is_sparse(matrix):
        return (row.tobytes() for row in matrix)
    spans = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    return (
        matrix.indices[start:end].tobytes() + matrix.data[start:end].tobytes()
        for start, end in spans
    )
