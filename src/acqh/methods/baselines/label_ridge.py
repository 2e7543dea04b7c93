"""Trivial baselines of real vectors: their base class, and ridge regression to the labels."""

from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix, is_sparse
from acqh.errors import InvalidInputError, LabelError
from acqh.methods.base import NOT_NEGATIVE, BaseMethod, as_parts
from acqh.methods.collect import collect, fit_schema
from acqh.methods.registry import DatabaseMode, register
from acqh.stats import regress


class RealMethod(BaseMethod):
    """A method whose items are real vectors: the mean of what their views become as queries."""

    projections_: dict[str, Floats]

    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Return the mean of the vectors of all views given, (n_items, n_components) float32."""
        self._check_mode(views, labels, mode)
        vectors = [self.project(X, view=view) for view, X in views.items()]
        return np.asarray(np.mean(vectors, axis=0, dtype=np.float32))

    def decode(self, codes: Array) -> Floats:
        """Return the vectors themselves."""
        return np.asarray(codes, dtype=np.float32)

    @property
    def bytes_per_item(self) -> int:
        """Four bytes per dimension."""
        self._check_fitted()
        return 4 * int(next(iter(self.projections_.values())).shape[1])


@register(name="label-ridge")
class LabelRidge(RealMethod):
    """Predict the labels of a query by ridge regression; score items by their labels.

    What a supervised method has to beat. A query becomes its predicted label scores. A database
    item with labels is its true label vector, one without is the mean of its views'
    predictions; both are stored as 32-bit floats, four bytes per label.

    Parameters
    ----------
    ridge : float or "auto"
        Strength of the penalty, relative to the mean diagonal of the centred Gram matrix;
        ``"auto"`` chooses it by generalised cross-validation.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.

    Attributes
    ----------
    projections_ : dict of str to (n_features, n_labels)
    intercepts_ : dict of str to (n_labels,)
    ridges_ : dict of str to float
        The strength used for each view.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> train, query = data.split(test_size=20, random_state=0)
    >>> control = acqh.methods.get("label-ridge")().fit(train.views, train.labels)
    >>> scores = control.project(query.views["image"], view="image") @ train.labels.T
    >>> scores.shape
    (20, 180)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"ridge": [*NOT_NEGATIVE, ("auto",)]}

    def __init__(self, ridge: float | Literal["auto"] = 1e-4, *, feature_maps: Any = None) -> None:
        self.ridge = ridge
        self.feature_maps = feature_maps

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn the maps from each view to the labels.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
        labels : optional
            With a mapping of views only.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, LabelError, ViewError
        """
        self._check_parameters()
        schema_of = partial(fit_schema, feature_maps=self.feature_maps)
        collected = collect(as_parts(views, labels), schema_of)
        stats = collected.statistics.compact()
        if not stats.counts.sum():
            raise LabelError(
                "labels are needed, but no item has a label; give labels with the views"
            )
        sets = stats.label_sets.matrix().astype(np.float64)
        regressions = {name: regress(view, sets, self.ridge) for name, view in stats.views.items()}
        self.n_features_in_ = collected.widths
        self.label_names_ = collected.label_names
        self.feature_maps_ = collected.feature_maps
        self.projections_ = {
            name: regression.coefficients for name, regression in regressions.items()
        }
        self.intercepts_ = {name: regression.intercept for name, regression in regressions.items()}
        self.ridges_ = {name: regression.ridge for name, regression in regressions.items()}
        return self

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Return the predicted label scores of queries.

        Parameters
        ----------
        X : (n_queries, n_features)
        view : str

        Returns
        -------
        (n_queries, n_labels) float32
        """
        matrix = self._check_view(X, view)
        maps = self.projections_[view], self.intercepts_[view]
        return self._map_linearly(matrix, view, *maps).astype(np.float32)

    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Return label vectors of items: the true ones, or the mean prediction of the views.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), optional
            Used where no labels are given.
        labels : optional
            Of any form that `fit` takes.
        mode : {"training", "single", "fused"}, optional
            By labels, by one view, or by all views given; as the arguments suggest by default.

        Returns
        -------
        (n_items, n_labels) float32

        Raises
        ------
        InvalidInputError
            What the mode needs is not given.
        LabelError
            An item has no labels.
        """
        if self._check_mode(views, labels, mode) == "training":
            if labels is None:
                raise InvalidInputError("give labels, or views as a mapping of names to matrices")
            matrix = self._check_labels(labels)
            dense = matrix.toarray() if is_sparse(matrix) else matrix
            if not dense.any(axis=1).all():
                raise LabelError("some items have no labels; encode those by their views")
            return np.asarray(dense, dtype=np.float32)
        return super().encode(views, labels=labels, mode=mode)
