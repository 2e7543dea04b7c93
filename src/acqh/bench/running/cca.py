"""Canonical correlation analysis, a trivial baseline without codes and without labels."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg

from acqh._core.arrays import Array, Floats, Matrix, is_sparse
from acqh.methods import BaseMethod
from acqh.methods.base import as_parts
from acqh.methods.registry import DatabaseMode, MethodInfo


class CanonicalCorrelation(BaseMethod):
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
        names = list(data.views)
        dense = {name: _dense(view) for name, view in data.views.items()}
        self.means_ = {name: rows.mean(axis=0) for name, rows in dense.items()}
        centred = {name: rows - self.means_[name] for name, rows in dense.items()}
        roots = {name: _inverse_root(rows, self.ridge) for name, rows in centred.items()}
        first, second = (centred[name] @ roots[name] for name in names)
        left, correlations, right = scipy.linalg.svd(first.T @ second, full_matrices=False)
        n_components = min(self.n_components, len(correlations))
        # Directions count by their correlation, so those of noise add little to a score.
        scale = np.sqrt(correlations[:n_components])
        sides = (left[:, :n_components] * scale, right[:n_components].T * scale)
        self.projections_ = {
            name: roots[name] @ side for name, side in zip(names, sides, strict=True)
        }
        return self

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Return the canonical variates of queries, (n_queries, n_components) float32."""
        rows = _dense(self._check_view(X, view)) - self.means_[view]
        vectors = rows @ self.projections_[view]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(norms, np.finfo(float).tiny), dtype=np.float32)

    def encode(
        self,
        views: Mapping[str, Matrix] | None = None,
        *,
        labels: Any = None,
        mode: DatabaseMode | None = None,
    ) -> Array:
        """Return the mean of the views' vectors."""
        self._check_mode(views, labels, mode)
        vectors = [self.project(X, view=view) for view, X in (views or {}).items()]
        return np.asarray(np.mean(vectors, axis=0, dtype=np.float32))

    def decode(self, codes: Array) -> Floats:
        """Return the vectors themselves."""
        return np.asarray(codes, dtype=np.float32)

    @property
    def bytes_per_item(self) -> int:
        """Four bytes per dimension."""
        self._check_fitted()
        return 4 * int(next(iter(self.projections_.values())).shape[1])


def _dense(matrix: Matrix) -> Floats:
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix, dtype=np.float64)


def _inverse_root(rows: Floats, ridge: float) -> Floats:
    """Return the inverse square root of the covariance, regularized."""
    gram = rows.T @ rows
    values, vectors = scipy.linalg.eigh(gram)
    values = np.maximum(values, 0.0) + ridge * max(float(np.trace(gram)) / len(gram), 1e-300)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)
