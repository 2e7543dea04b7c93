"""Methods that see all items at once: how they are fitted, and what codes their items."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix, count_paired, map_features
from acqh._core.runtime import RandomState, check_rng
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.base import CONSTRAINTS, BaseMethod, as_parts
from acqh.methods.baselines.rows import Rows
from acqh.methods.collect import fit_feature_maps
from acqh.methods.registry import DatabaseMode


@dataclass(frozen=True)
class Training:
    """Training data of a method."""

    # each (n_items, n_features) float64, dense or CSR: every view through its feature
    # map.
    features: dict[str, Matrix]
    # each (n_items, n_raw_features), dense or CSR: as they were given.
    views: Mapping[str, Matrix]
    # (n_items, n_labels) float64, dense or CSR: 0/1, at least one per row; of no columns where the
    # method needs no labels.
    labels: Matrix
    feature_maps: dict[str, Any]  # fitted on these items
    label_names: tuple[str, ...]
    rng: np.random.Generator  # where all that is random comes from

    @property
    def n_items(self) -> int:
        """The number of training items."""
        return int(self.labels.shape[0])

    def rows(self, *, centre: bool = False) -> dict[str, Rows]:
        """Return the features of every view, with or without their means."""
        return {view: Rows(matrix, centre=centre) for view, matrix in self.features.items()}


class TrainedMethod(BaseMethod):
    """A method that learns from all items at once, and codes new ones view by view.

    A subclass is a dataclass of its parameters, and says by `_learn` what is learnt, by
    `_project` what a view's rows become, and by `_code` how checked views become codes. Views
    are checked once, here.

    Parameters
    ----------
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.

    Attributes
    ----------
    training_codes_ : uint8 (n_train, bytes_per_item)
        The codes learnt for the training items; by view where each has its own.
    objective_ : list of float
        What is minimised, after each sweep; never rises. Of methods that sweep, like `n_iter_`.
    n_iter_ : int
        Sweeps done.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    # Parameters that `fit` reads, as they are where a method has no such parameter.
    feature_maps: Any = None
    n_anchors: int | None = None
    max_train: int | None = None
    random_state: RandomState = None

    training_codes_: Array | dict[str, Array]

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn from paired views and, where the method uses them, labels.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
            Every item needs every view; chunks are put under one another.
        labels : optional
            With a mapping of views only; of every item. Ignored by methods without labels.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A parameter is out of range, or the data are of no accepted form.
        LabelError
            Labels are needed, and there are none or an item has none.
        ViewError
            Too few or too many views, or an item lacks one.
        """
        self._check_parameters()
        training = self._read(views, labels)
        learnt = self._learn(training)
        if "objective_" in learnt:
            learnt["n_iter_"] = len(learnt["objective_"])
        learnt |= {
            "n_features_in_": {view: raw.shape[1] for view, raw in training.views.items()},
            "label_names_": training.label_names,
            "feature_maps_": training.feature_maps,
        }
        for name, value in learnt.items():
            setattr(self, name, value)
        return self

    @abstractmethod
    def _learn(self, data: Training) -> dict[str, Any]:
        """Return the fitted attributes by name, those that end in an underscore."""

    @abstractmethod
    def _project(self, matrix: Matrix, view: str) -> Floats:
        """Return what the rows of a checked view become as queries."""

    @abstractmethod
    def _code(self, views: Mapping[str, Matrix], mode: DatabaseMode) -> Array:
        """Return the codes of items from checked views: one if hashed, any number if unified."""

    def _read(self, views: Any, labels: Any) -> Training:
        """Check what was given to `fit`, draw `max_train` items of more, and map the views."""
        rng = check_rng(self.random_state)
        needs_labels = self.info.supervised
        parts = [*as_parts(views, labels if needs_labels else None)]
        # Chunks may number their items from zero each; only the order counts here.
        ids = np.arange(sum(map(len, parts)))
        data = parts[0] if len(parts) == 1 else MultiViewData.concat(parts, ids=ids)
        _check_views(self, data)
        matrix = _check_all_labelled(self, data) if needs_labels else np.zeros((len(data), 0))
        if self.max_train is not None and len(data) > self.max_train:
            rows = np.sort(rng.choice(len(data), self.max_train, replace=False))
            data, matrix = data.subset(rows), matrix[rows]
        maps = fit_feature_maps(self.feature_maps, data, rng=rng, n_anchors=self.n_anchors)
        return Training(
            features={
                view: map_features(maps, raw, view).astype(np.float64)
                for view, raw in data.views.items()
            },
            views=data.views,
            labels=matrix,
            feature_maps=maps,
            label_names=data.label_names if needs_labels else (),
            rng=rng,
        )

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Turn queries of one view into real vectors; of binary methods, the signs are the bits.

        Parameters
        ----------
        X : (n_items, n_features)
        view : str

        Returns
        -------
        (n_items, n_components)

        Raises
        ------
        NotFittedError, ViewError
        """
        return self._project(self._check_view(X, view), view)

    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Return the codes of a database.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), optional
        labels : optional
            Not used: the codes of labelled items are those learnt in training.
        mode : {"training", "single", "fused"}, optional
            ``"training"``: the codes of the training items, as the optimiser left them (the view
            named in `views`, where each view has its own). ``"single"``: of the one view given.
            ``"fused"``: of all views given, combined.

        Returns
        -------
        uint8 (n_items, bytes_per_item)

        Raises
        ------
        InvalidInputError
            The method does not code a database that way, or what it needs is not given.
        ViewError
            Views of different numbers of rows, or others than fitted.
        """
        mode = self._check_mode(views, labels, mode)
        if mode == "training":
            return self._learnt_codes(views)
        if mode == "single" and len(views) != 1:
            raise InvalidInputError(f"mode 'single' takes one view, got {sorted(views)}")
        checked = {view: self._check_view(X, view) for view, X in views.items()}
        count_paired(checked)
        return self._code(checked, mode)

    def _learnt_codes(self, views: Any) -> Array:
        codes = self.training_codes_
        if not isinstance(codes, dict):
            return codes
        names = sorted(views) if isinstance(views, Mapping) else []
        if len(names) != 1 or names[0] not in codes:
            raise InvalidInputError(
                f"each view has separate training codes; pass one of {sorted(codes)} in views"
            )
        return codes[names[0]]


def choose_view(parameter: str, requested: str | None, views: Collection[str], default: int) -> str:
    """Return the view that a parameter names; where it is None, the one at a place.

    Raises ViewError: there is no such view.

    Examples
    --------
    >>> choose_view("base_view", None, ["image", "text"], -1)
    'text'
    """
    if requested is not None and requested not in views:
        raise ViewError(f"{parameter} is {requested!r}, but the views are {sorted(views)}")
    return list(views)[default] if requested is None else requested


def share_weights(
    requested: Mapping[str, float] | None, views: Collection[str]
) -> dict[str, float]:
    """Return the weight of every view; they sum to one.

    `given`: positive, one for every view; None: all the same. Raises InvalidInputError: a view has
    no weight, a weight no view, or a weight is not positive.

    Examples
    --------
    >>> share_weights({"image": 3, "text": 1}, ["image", "text"])
    {'image': 0.75, 'text': 0.25}
    """
    if requested is None:
        requested = dict.fromkeys(views, 1.0)
    if set(requested) != set(views) or not all(
        np.isfinite(value) and value > 0 for value in requested.values()
    ):
        raise InvalidInputError(
            f"view_weights must be a positive number for each of {sorted(views)}, got {requested}"
        )
    total = sum(requested.values())
    return {view: float(requested[view] / total) for view in views}


def _check_views(method: BaseMethod, data: MultiViewData) -> None:
    fewest, most = method.view_range
    n_views = len(data.views)
    if n_views < fewest or (most is not None and n_views > most):
        required = f"{fewest} views" if most == fewest else f"at least {fewest} views"
        if most is not None and most != fewest:
            required = f"{fewest} to {most} views"
        raise ViewError(f"{method.info.name} takes {required}, got {n_views}: {sorted(data.views)}")
    for view, present in data.present.items():
        if not present.all():
            raise ViewError(
                f"view {view!r} is absent in {np.count_nonzero(~present)} items, and "
                f"{method.info.name} learns from items that have every view; leave those out"
            )


def _check_all_labelled(method: BaseMethod, data: MultiViewData) -> Matrix:
    if data.labels is None:
        raise LabelError("labels are needed to fit; give labels with the views")
    labelled = np.asarray(data.labels.sum(axis=1)).ravel() > 0
    if not labelled.any():
        raise LabelError("no item has a label, so there is nothing to learn from")
    if not labelled.all():
        raise LabelError(
            f"{np.count_nonzero(~labelled)} items have no label, the first in row "
            f"{np.argmin(labelled)}; {method.info.name} needs one of every item: leave those out"
        )
    return data.labels.astype(np.float64)
