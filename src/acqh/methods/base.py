"""The one API of all methods."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import (
    Array,
    Floats,
    Matrix,
    check_view,
    mapped_blocks,
    slices,
)
from acqh._core.labels import as_label_matrix
from acqh._core.runtime import Interval, check_parameters
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, NotFittedError
from acqh.methods.registry import DatabaseMode, MethodInfo, save_method

COUNT: list[Any] = [Interval(Integral, 1, None, closed="left")]
NOT_NEGATIVE: list[Any] = [Interval(Real, 0, None, closed="left")]
POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]

_COUNTS = (
    *("n_bits", "n_anchors", "n_atoms", "n_neighbors", "n_labelled", "max_train", "max_iter"),
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
    "search": [("greedy", "beam", "icm", "beam+icm")],
    "stop_at_rise": ["boolean"],
    "base_view": [str, None],
    "sparse_view": [str, None],
    "view_weights": [Mapping, None],
    "device": [str],
}
# Queries a view at most that a score is of: enough for the third digit.
_MAX_QUERIES = 2_000
# Scores at most that are in memory at a time: 16 MB in float64.
_MAX_SCORES = 1 << 21

if TYPE_CHECKING:

    class BaseEstimator:
        """As in scikit-learn, whose untyped class would make all methods untyped."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the constructor's arguments."""

        def set_params(self, **params: Any) -> Self:
            """Change some of them."""
else:
    from sklearn.base import BaseEstimator


class BaseMethod(BaseEstimator, ABC):
    """A cross-modal method: fit on paired views, project queries, encode a database.

    A subclass stores its constructor arguments, checks them and the data in `fit`, and sets
    attributes that end in an underscore. Queries of any view become real vectors by `project`;
    items become codes by `encode`, and `decode` returns their reconstructions. The score of a
    query and an item is an inner product.

    Attributes
    ----------
    n_features_in_ : dict of str to int
        Width of each view.
    label_names_ : tuple of str
    feature_maps_ : dict of str to transformer
        The fitted feature map of each view that has one.

    Examples
    --------
    >>> from acqh.methods import BaseMethod, get
    >>> model = get("label-ridge")()
    >>> isinstance(model, BaseMethod), model.info.supervised
    (True, True)
    """

    info: ClassVar[MethodInfo]
    # The fewest and the most views that `fit` takes; None: any number.
    view_range: ClassVar[tuple[int, int | None]] = (1, None)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    feature_maps: Any
    n_features_in_: dict[str, int]
    label_names_: tuple[str, ...]
    feature_maps_: dict[str, Any]

    @abstractmethod
    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn from paired views and, where the method needs them, labels."""

    @abstractmethod
    def project(self, X: Matrix, *, view: str) -> Floats:
        """Turn queries of one view into real vectors."""

    @abstractmethod
    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Turn items, given by some of their views or by their labels, into codes."""

    @abstractmethod
    def decode(self, codes: Array) -> Floats:
        """Return the reconstructions of codes, one per row."""

    def embed_queries(self, X: Matrix, *, view: str) -> Floats:
        """Return the vectors that score items: of `project`, or of the query's own code.

        The score of a query and an item is the inner product of this and `decode`.
        """
        return self.project(X, view=view)

    def score(self, views: Any, labels: Any = None) -> float:
        """Return mean average precision across views on held-out items, from 0 to 1.

        So that ``GridSearchCV`` and ``cross_val_score`` of scikit-learn work: give them a
        MultiViewData with labels as ``X``; ``y`` may be the same labels, or omitted. Raises
        LabelError without labels, which define relevance.
        """
        return held_out_map(self, views, labels)

    @property
    @abstractmethod
    def bytes_per_item(self) -> int:
        """Bytes that a stored item takes."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted method to a bundle; `acqh.methods.load_method` reads it.

        `path`: a directory; created if it does not exist. Raises InvalidInputError, NotFittedError:
        a parameter that cannot be stored, such as a function; the method is not fitted.
        """
        save_method(self, path)

    def _check_parameters(self) -> None:
        check_parameters(self, self._parameter_constraints)

    def _check_mode(self, views: Any, labels: Any, mode: DatabaseMode | None) -> DatabaseMode:
        """Return how to encode a database: as requested, or as the input suggests."""
        self._check_fitted()
        if views is not None and not isinstance(views, Mapping):
            raise InvalidInputError(
                "give views as a mapping of names to matrices, such as {'image': X}, not "
                f"{type(views).__name__}"
            )
        if mode is None:
            if labels is not None or not views:
                mode = "training"
            else:
                mode = "single" if len(views) == 1 else "fused"
        if mode not in self.info.modes:
            raise InvalidInputError(
                f"{self.info.name} cannot code a database as {mode!r}, only as "
                f"{' or '.join(map(repr, self.info.modes))}"
            )
        if mode != "training" and not views:
            raise InvalidInputError("give views as a mapping of names to matrices, or labels")
        return mode

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit first")

    def _check_view(self, X: Any, view: str) -> Matrix:
        """Check a matrix against a fitted view."""
        self._check_fitted()
        return check_view(self.n_features_in_, X, view)

    def _mapped_blocks(self, matrix: Matrix, view: str) -> Iterator[tuple[slice, Matrix]]:
        """Yield rows of a checked view through its feature map, some at a time."""
        return mapped_blocks(self.feature_maps_, matrix, view)

    def _map_linearly(
        self, matrix: Matrix, view: str, coefficients: Floats, intercept: Floats | float = 0.0
    ) -> Floats:
        """Return a linear map of the mapped features of a checked view, in float64."""
        projected = np.empty((matrix.shape[0], coefficients.shape[1]))
        for rows, block in self._mapped_blocks(matrix, view):
            projected[rows] = block @ coefficients + intercept
        return projected

    def _check_labels(self, labels: Any) -> Matrix:
        """Read labels of any form as a matrix with the fitted columns."""
        self._check_fitted()
        if getattr(labels, "ndim", 1) == 2:
            matrix, _ = as_label_matrix(labels)
            if matrix.shape[1] != len(self.label_names_):
                fitted = len(self.label_names_)
                raise LabelError(f"labels have {matrix.shape[1]} columns, but {fitted} were fitted")
            return matrix
        return as_label_matrix(labels, self.label_names_)[0]


def labelled(views: Mapping[str, Any] | MultiViewData, labels: Any = None) -> MultiViewData:
    """Return data with labels: those given, or those that they bring.

    Raises InvalidInputError: data bring other labels than those given.
    """
    if not isinstance(views, MultiViewData):
        return MultiViewData(views, labels)
    if labels is None:
        return views
    if views.labels is None:
        return MultiViewData(views.views, labels, present=views.present)
    label_matrix = labels
    if getattr(labels, "ndim", 1) == 1:
        label_matrix = as_label_matrix(labels, views.label_names)[0]
    if label_matrix.shape != views.labels.shape or (label_matrix != views.labels).sum():
        raise InvalidInputError(
            "labels differ from those of the MultiViewData; pass a mapping of views with labels, "
            "or data without_labels()"
        )
    return views


def as_parts(views: Any, labels: Any = None) -> Iterator[MultiViewData]:
    """Read every accepted form of training data.

    `labels`: see `labelled`; each part of an iterable brings its own. Yields all of it at once, or
    what the iterable gives. Raises InvalidInputError: something else was given, or there is not a
    chunk.
    """
    if isinstance(views, Mapping | MultiViewData):
        yield labelled(views, labels)
        return
    required = (
        "views must be a mapping of names to matrices, such as {'image': X, 'text': Y}, a "
        "MultiViewData or an iterable of them, not"
    )
    if not isinstance(views, Iterable) or isinstance(views, np.ndarray | str):
        raise InvalidInputError(f"{required} {type(views).__name__}")
    is_empty = True
    for chunk in views:
        if not isinstance(chunk, MultiViewData):
            kind = type(views).__name__
            raise InvalidInputError(f"{required} {kind} of {type(chunk).__name__}")
        if labels is not None:
            raise InvalidInputError(
                "labels cannot be combined with an iterable; pass MultiViewData with labels"
            )
        is_empty = False
        yield chunk
        # Not to be kept while the next one is read.
        del chunk
    if is_empty:
        raise InvalidInputError("there is no data: the iterable of chunks is empty")


def held_out_map(method: BaseMethod, views: Any, labels: Any = None) -> float:
    """Return mean average precision across views, on items that `method` has not been fitted on.

    `method`: fitted. `labels`: with a mapping of views only. Returns a mean from
    0 to 1 over all pairs of a query view and an item view; items that share a label are relevant.
    Raises LabelError without labels.
    """
    from acqh.metrics import RetrievalMetrics, relevance

    data = labelled(views, labels)
    if data.labels is None:
        raise LabelError("a score needs labels, which define relevance; pass labels")
    names = list(data.views)
    rows = np.arange(len(data))[:: -(-len(data) // _MAX_QUERIES)]
    pairs = [(names[0], names[0])] if len(names) == 1 else list(permutations(names, 2))
    precisions = []
    for query, item_view in pairs:
        vectors = method.decode(_codes(method, data, item_view))
        queries = method.embed_queries(data.views[query][rows], view=query)
        metrics = RetrievalMetrics((None,))
        for block in slices(len(rows), max(1, _MAX_SCORES // len(data))):
            scores = queries[block] @ vectors.T
            relevant = relevance(data.labels[rows[block]], data.labels)
            if query == item_view:
                # Exclude the query itself.
                itself = np.arange(len(scores)), rows[block]
                scores[itself], relevant[itself] = -np.inf, False
            metrics.update(scores, relevant)
        precisions.append(metrics.result().mean_average_precision[None])
    return float(np.mean(precisions))


def _codes(method: BaseMethod, data: MultiViewData, view: str) -> Any:
    if "single" in method.info.modes:
        return method.encode({view: data.views[view]})
    return method.encode(labels=data.labels)
