"""The estimator: its parameters, how it is fitted, and what a fitted model does."""

# So that `help` names types as they are written here.
from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np

from acqh._core.arrays import (
    CHUNK_ROWS,
    Array,
    Floats,
    Matrix,
    as_matrix,
    check_name,
    count_paired,
    device_of,
    is_tensor,
    map_features,
)
from acqh._core.device import (
    MAX_MEMORY,
    check_device,
    read_rows,
    row_blocks,
    tensor_dtype,
    to_tensor,
)
from acqh._core.imports import require
from acqh._core.runtime import Interval, RandomState, check_rng, one_blas_thread, suggest_keywords
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.solve import Solution, solve
from acqh.methods.acqh.space import SIMILARITIES, Similarity, Space, embed_items
from acqh.methods.acqh.targets import LABELS, Target, read_targets
from acqh.methods.base import CONSTRAINTS, COUNT, NOT_NEGATIVE, BaseMethod, as_parts, labelled
from acqh.methods.collect import (
    MappedStatistics,
    collect,
    fit_schema,
    has_kernel,
    unit_name,
)
from acqh.methods.query_maps import QueryMaps, map_tensors
from acqh.methods.registry import DatabaseMode, register
from acqh.quantize import decode, search_codes
from acqh.quantize.code_search import code_tables
from acqh.quantize.codebooks import check_codes
from acqh.stats import Statistics, StatisticsConfig
from acqh.stats.moments import pair_of
from acqh.stats.ridge import regress_rows

# From this width on, BLAS threads pay off in the solve.
_WIDE = 2048


@register(name="acqh")
@dataclass(eq=False, repr=False)
class ACQH(BaseMethod):
    """Search across views by a few bytes per item: asymmetric correlation quantization hashing.

    A query of any view becomes a vector, an item one byte per codebook. Their score, an inner
    product, approximates their similarity: of labels (as in the paper by Wang and Yang, 2020), of
    the content of views, or of the vectors of a teacher. One scan of the data collects sufficient
    statistics. Everything except the quantization has a closed form.

    >>> import acqh
    >>> train, query = acqh.make_multiview(300, random_state=0).split(20, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(train.views, train.labels)
    >>> index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=train.labels))
    >>> index.search(model.project(query.views["text"], view="text"), k=5).ids.shape
    (20, 5)

    Parameters
    ----------
    n_components : int
        Length of query vectors and codewords. Not storage, which is `n_codebooks` bytes.
        Components beyond the rank of the label similarities are zero.
    n_codebooks : int
        Bytes per item, 1 to 16.
    codebook_size : int
        Words per codebook, 2 to 256.
    similarity : {"shared", "dot", "cosine", "jaccard"} or callable
        Of labels: 1 if one is shared, how many are (the paper's), their cosine or Jaccard index;
        or a function of two 0/1 matrices (n, n_labels) and (m, n_labels) that gives (n, m).
    targets : mapping of str to float or Target, optional
        What scores should be: weights of ``"labels"`` and of views, or `acqh.Target`. By default
        labels where they are given, otherwise the content of all views, weighted so that an item's
        views agree on what is similar. A view that is there for training only is a teacher.
    feature_maps : mapping of str to feature map, one feature map, or None
        For some views, or for all: any scikit-learn transformer, or a name of `acqh.features`, such
        as ``"kernel"`` for kernel ridge regression. Fitted on the training rows (of an iterable, on
        its first part).
    ridge : float or "auto"
        Penalty on the maps from features, relative to the mean diagonal of the Gram matrix;
        ``"auto"`` chooses one per view by cross-validation.
    normalize_items : bool, optional
        Whether to scale item vectors to equal length, so that items with more views and labels do
        not dominate the results. Default: only if labels are not the only target.
    complete_share : float, optional
        Share of complete items in the training of codebooks; the rest are items as one view
        predicts them. Default: 1 if all items are complete and labels are not the only target,
        otherwise 0.5.
    random_state : int, Generator or None

    Attributes
    ----------
    n_features_in_ : dict of str to int
        Width of each view.
    label_names_ : tuple of str
    feature_maps_ : dict of str to transformer
        The fitted feature map of each view that has one.
    codebooks_ : (n_codebooks, codebook_size, n_components)
    projections_ : dict of str to (n_features, n_components)
        After the view's feature map, if it has one.
    intercepts_ : dict of str to (n_components,)
    ridges_ : dict of str to dict of str to float
        By view (or ``"labels"``) and target.
    objective_ : list of float
        After each sweep: the mean squared error of decoded sampled items, in the second moment of
        queries, scaled to a trace of one. Kernel maps enter by their leave-one-out features.
    lower_bound_ : float
        No codes of this many components can have a lower objective.
    optimality_gap_ : float
        How far the objective is above the bound, as a share of it (or, where it is zero, of the
        objective of codes that are all zero).
    n_iter_ : int
        Sweeps made.
    stats_ : Statistics
        All that is kept of the data.
    """

    _sample_size: ClassVar[int] = StatisticsConfig.sample_size
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "n_components": COUNT,
        "n_codebooks": [Interval(Integral, 1, 16, closed="both")],
        "similarity": [SIMILARITIES, "callable"],
        "ridge": [*NOT_NEGATIVE, ("auto",)],
        "normalize_items": ["boolean", None],
        "complete_share": [Interval(Real, 0, 1, closed="both"), None],
    }

    n_components: int = 32
    _: KW_ONLY
    n_codebooks: int = 4
    codebook_size: int = 256
    similarity: str | Similarity = "shared"
    targets: Mapping[str, float | Target] | None = None
    feature_maps: Any = None
    ridge: float | Literal["auto"] = "auto"
    normalize_items: bool | None = None
    complete_share: float | None = None
    random_state: RandomState = None
    space_: Space = field(init=False)
    stats_: Statistics = field(init=False)
    projections_: dict[str, Floats] = field(init=False)
    intercepts_: dict[str, Floats] = field(init=False)
    unit_projections_: dict[str, Floats] = field(init=False)
    ridges_: dict[str, dict[str, float]] = field(init=False)
    codebooks_: Floats = field(init=False)
    # In which code vectors are nearest to their targets; None: the identity.
    code_metric_: Floats | None = field(init=False)
    objective_: list[float] = field(init=False)
    lower_bound_: float = field(init=False)
    optimality_gap_: float = field(init=False)
    n_iter_: int = field(init=False)
    refitted_: tuple[str, ...] = field(init=False)

    def fit(
        self,
        views: Any,
        labels: Any = None,
        *,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> Self:
        """Learn from paired views, with labels or without, in one pass.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
            Tensors are summed as arrays.
        labels : optional
            Of data that bring none of their own: a 0/1 matrix, class ids, or sets of names.
        device : str, optional
            Where eigenvalues and codebooks are computed, such as ``"cuda"``. Default:
            that of tensors, the host for arrays. Fitted attributes are arrays in either case.
        max_memory : int
            Bytes of working memory on a device.

        Raises
        ------
        DeviceError, InvalidInputError, LabelError, ViewError
            The device is not there; a parameter is out of range; labels are a target but missing;
            views are not paired or hold NaN, or a target is none of them.

        Notes
        -----
        Sufficient statistics grow with distinct label sets, eight bytes per set and feature: if
        almost every item has its own, they are larger than the data. Leave rare labels out then.
        """
        self._check_parameters()
        return self._solve(*self._collect(views, labels, None, device, max_memory))

    def _collect(
        self,
        views: Any,
        labels: Any,
        schema: MappedStatistics | None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> tuple[MappedStatistics, Any]:
        """Sum over items; return the statistics, and the device to solve on, None for the host."""
        place = _place(device, views, labels)
        is_whole = isinstance(views, Mapping | MultiViewData)
        limit = None if place is None else max_memory
        make = partial(self._fit_schema, is_whole=is_whole, max_memory=limit)
        return collect(as_parts(views, labels), schema or make), place

    def _fit_schema(self, part: MultiViewData, **options: Any) -> MappedStatistics:
        """Fit the feature maps on the first part of the data; return the schema of all parts.

        The targets determine the products. `options`: see `acqh.methods.collect.fit_schema`.
        """
        targets = read_targets(self.targets, part.views, part.labels is not None)
        keys = {
            name: unit_name(name) if target.similarity == "cosine" else name
            for name, target in targets.items()
            if name != LABELS
        }
        pairs = [
            pair_of(view, key) for name, key in keys.items() for view in part.views if view != name
        ]
        responses = None
        if [*targets] == [LABELS] and has_kernel(self.feature_maps):
            rng = check_rng(self.random_state)
            responses = embed_items(self.similarity, cast(Matrix, part.labels), rng)
        return fit_schema(
            part,
            self.feature_maps,
            StatisticsConfig(frozenset(pairs), self._sample_size),
            units=tuple(name for name, key in keys.items() if key != name),
            responses=responses,
            rng=check_rng(self.random_state),
            **options,
        )

    def partial_fit(
        self,
        views: Any,
        labels: Any = None,
        *,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> Self:
        """Learn from more items: the result is that of a fit on all items so far.

        Feature maps stay as they were first fitted. Takes and raises what `fit` does.
        """
        if not hasattr(self, "n_features_in_"):
            return self.fit(views, labels, device=device, max_memory=max_memory)
        self._check_parameters()
        schema = self._collected()
        if schema.spanned:
            raise InvalidInputError(
                f"{', '.join(map(repr, schema.spanned))} had more features than items, so the "
                "model covers only the span of those items; fit a new model on all items, or pass "
                "a feature map with fewer features"
            )
        more, where = self._collect(views, labels, schema, device, max_memory)
        return self._solve(replace(more, statistics=self.stats_ + more.statistics), where)

    def forget(self, views: Any, labels: Any = None) -> Self:
        """Take items back: the result is that of a fit that never saw them.

        `views`, `labels`: the items as they were given to `fit` or `partial_fit`. Raises
        InvalidInputError: more of a label set than were fitted, or all items.
        """
        schema = self._collected()
        if schema.anchored:
            raise InvalidInputError(
                f"the kernel maps of {', '.join(map(repr, schema.anchored))} hold training items "
                "and what was learnt from them; fit a new model without those to be forgotten"
            )
        gone, where = self._collect(views, labels, schema)
        left = self.stats_ - gone.statistics
        if left.n_items == 0:
            raise InvalidInputError("no item would be left; fit a new model instead")
        return self._solve(replace(gone, statistics=left), where)

    def fit_stats(self, stats: Statistics | MappedStatistics, label_names: Any = None) -> Self:
        """Fit from statistics, such as those of another fit.

        A fitted model keeps its feature maps and label names, so another similarity is
        ``model.set_params(similarity="jaccard").fit_stats(model.stats_)``; so are other weights of
        the same targets. `stats`: Statistics, or the result of `acqh.methods.collect.collect`.
        `label_names`: of the label columns of Statistics; their numbers by default.
        """
        self._check_parameters()
        if isinstance(stats, MappedStatistics) and stats.statistics.n_items > 0:
            return self._solve(stats)
        if not isinstance(stats, Statistics) or stats.n_items == 0:
            raise InvalidInputError("stats must be a Statistics of at least one labelled item")
        if hasattr(self, "n_features_in_") and label_names is None:
            return self._solve(self._collected(stats))
        return self._solve(MappedStatistics.of_statistics(stats, label_names))

    def _collected(self, stats: Statistics | None = None) -> MappedStatistics:
        """Return statistics, by default those of the model, with its feature maps and labels."""
        self._check_fitted()
        stats = getattr(self, "stats_", None) if stats is None else stats
        if stats is None:
            raise InvalidInputError(
                "this model was saved without its statistics, so items cannot be added or removed; "
                "fit a new model on all items"
            )
        if self.refitted_:
            raise InvalidInputError(
                f"the statistics do not match the new query encoder of {sorted(self.refitted_)}; "
                "fit a new model"
            )
        return MappedStatistics(
            stats,
            self.feature_maps_,
            self.n_features_in_,
            self.label_names_,
            self.codebooks_.dtype,
            tuple(view for view in self.n_features_in_ if unit_name(view) in stats.widths),
        )

    def _solve(self, collected: MappedStatistics, device: Any = None) -> Self:
        """Solve for the statistics collected and set every fitted attribute, or none."""
        stats = collected.statistics
        targets = read_targets(self.targets, collected.widths, stats.n_labels > 0)
        if stats.counts.sum() == 0 and LABELS in targets:
            raise LabelError("no item has a label, so there is nothing to learn from")
        with one_blas_thread() if max(stats.widths.values()) < _WIDE else nullcontext():
            solution = self._learn(collected, targets, device)
        return self._set_solution(collected, solution)

    def _set_solution(self, collected: MappedStatistics, solution: Solution) -> Self:
        self.codebooks_ = solution.codebooks.astype(collected.dtype)
        self._set_space(solution.space)
        self.code_metric_ = solution.code_metric
        self.objective_ = solution.objective
        self.lower_bound_ = solution.lower_bound
        self.optimality_gap_ = solution.optimality_gap
        self.n_iter_ = len(solution.objective) - 1
        self.stats_ = collected.statistics
        self.feature_maps_ = collected.feature_maps
        self.n_features_in_ = collected.widths
        self.label_names_ = collected.label_names
        self.refitted_ = ()
        return self

    def _set_space(self, space: Space) -> None:
        """Set the space, and its maps of queries with all blocks in one."""
        dtype = self.codebooks_.dtype
        folded = {view: space.fold_query(view) for view in space.predictors if view != LABELS}
        self.space_ = space
        self.projections_ = {
            view: projection.astype(dtype) for view, (projection, _, _) in folded.items()
        }
        self.intercepts_ = {
            view: intercept.astype(dtype) for view, (_, intercept, _) in folded.items()
        }
        self.unit_projections_ = {
            view: unit.astype(dtype) for view, (_, _, unit) in folded.items() if unit is not None
        }
        self.ridges_ = {
            source: {name: predictor.ridge for name, predictor in predictors.items()}
            for source, predictors in space.predictors.items()
        }

    def _learn(
        self, collected: MappedStatistics, targets: Mapping[str, Target], device: Any
    ) -> Solution:
        rng = check_rng(self.random_state)
        return solve(collected, targets, self.get_params(deep=False), rng, device)

    def refit_queries(self, views: Any, targets_or_codes: Any) -> Self:
        """Take another encoder for the queries of some views; codes stay as they are.

        Fits only the maps of the new features, on items with other views, labels or codes. Items
        can be encoded from the new features too; the old features are then predicted.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features)
            New features, of a view that there was (which they replace) or of one more. They are
            used as they are, without a feature map.
        targets_or_codes : uint8 (n_items, n_codebooks), mapping of str to matrix, or MultiViewData
            Stored codes of the same items, or their views as before, ``"labels"`` among them.

        Raises
        ------
        InvalidInputError, ViewError
            No mapping of views, codes that cannot be; different numbers of rows, unknown views.

        Examples
        --------
        >>> import acqh
        >>> data = acqh.make_multiview(300, random_state=0)
        >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data.views)
        >>> newer = data.views["text"] @ np.random.default_rng(0).normal(size=(30, 40))
        >>> model = model.refit_queries({"text": newer}, model.encode(data.views))
        >>> model.project(newer, view="text").shape
        (300, 8)
        """
        self._check_fitted()
        if not isinstance(views, Mapping) or not views:
            raise InvalidInputError(
                "give the new features as a mapping of views to matrices, such as {'text': X}, got "
                f"{type(views).__name__}"
            )
        if LABELS in views:
            raise ViewError("a view cannot be called 'labels'; give the view another name")
        matrices = {name: as_matrix(rows, f"view '{name}'") for name, rows in views.items()}
        target_vectors = self._query_targets(targets_or_codes)
        for name, matrix in matrices.items():
            if matrix.shape[0] != len(target_vectors):
                raise ViewError(
                    f"view '{name}' has {matrix.shape[0]} rows for {len(target_vectors)} items; "
                    "views and targets are paired by row"
                )
        space = self.space_
        for name, matrix in matrices.items():
            space = space.refitted(
                name, target_vectors, partial(regress_rows, matrix, ridge=self.ridge)
            )
        # Nothing is set before everything is learnt.
        self._set_space(space)
        self.feature_maps_ = {
            name: feature_map
            for name, feature_map in self.feature_maps_.items()
            if name not in matrices
        }
        widths = {name: matrix.shape[1] for name, matrix in matrices.items()}
        self.n_features_in_ = self.n_features_in_ | widths
        self.refitted_ = tuple(sorted({*self.refitted_, *matrices}))
        return self

    def _query_targets(self, targets_or_codes: Any) -> Floats:
        """Return the blocks of items, which new features are to predict."""
        if not isinstance(targets_or_codes, Mapping | MultiViewData):
            return np.asarray(
                self.decode(targets_or_codes).astype(np.float64) @ self.space_.query_map.T
            )
        labels = None
        if isinstance(targets_or_codes, Mapping):
            labels = targets_or_codes.get(LABELS) if LABELS in self.space_.blocks else None
            targets_or_codes = {
                name: rows for name, rows in targets_or_codes.items() if name != LABELS
            }
        views, present, labels, _ = self._read_items(targets_or_codes, labels, None)
        target_vectors = np.empty((count_paired(views, labels), len(self.space_.query_map)))
        for place, features, inverse in self.space_.rows(views, present, labels, self._map_rows):
            target_vectors[place] = self.space_.join_blocks(features)[inverse]
        return target_vectors

    def project(
        self, X: Matrix, *, view: str, device: str | None = None, max_memory: int = MAX_MEMORY
    ) -> Floats:
        """Turn queries of one view into vectors, (n_queries, n_components).

        In float32 where the model was fitted on nothing wider, otherwise float64; a tensor on the
        same device where `X` is one.

        Parameters
        ----------
        X : (n_queries, n_features), dense or CSR, or tensor
        view : str
        device, max_memory
            See `fit`.

        Raises
        ------
        DeviceError, ViewError
            The device is not there; an unknown view, another width than fitted, NaN.
        """
        self._check_fitted()
        if device is None and not is_tensor(X):
            return QueryMaps.of(self).project(X, view=view)
        place = _place(device, {view: X})
        matrix = self._read_tensors({view: X}, place)[view]
        vectors = QueryMaps.of(self).project_tensor(matrix, view, place, max_memory)
        return cast(Floats, vectors if is_tensor(X) else vectors.cpu().numpy())

    def encode(
        self,
        views: Any = None,
        *,
        labels: Any = None,
        mode: DatabaseMode | None = None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> Array:
        """Turn items into codes, uint8 (n_items, n_codebooks), by whatever is known of them.

        A tensor on the device where views or labels are tensors.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), or MultiViewData, optional
            Any of the fitted views, one or several. A target whose view is present is exact; the
            other targets are predicted, with views weighted by their precision.
        labels : optional
            As in `fit`; default: those of a MultiViewData. A row without any means unknown labels.
            With labels as the only target, items with labels are encoded from these only.
        mode : {"training", "single", "fused"}, optional
            Encode from labels (and views), from one view, or from all views. Default: according to
            the arguments.
        device, max_memory
            See `fit`.

        Raises
        ------
        DeviceError, InvalidInputError, LabelError, ViewError
            The device is not there; neither views nor labels, or not what the mode needs; an item
            with neither; an unknown view, different lengths, another width than fitted, NaN.
        """
        return cast(Array, self._transform(views, labels, mode, device, max_memory, is_coded=True))

    def embed(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Floats:
        """Return the vectors that `encode` puts into bytes: scores without quantization.

        Takes and raises what `encode` does; gives (n_items, n_components).
        """
        vectors = self._transform(views, labels, mode, None, MAX_MEMORY, is_coded=False)
        return cast(Floats, vectors)

    def _transform(
        self,
        views: Any,
        labels: Any,
        mode: DatabaseMode | None,
        device: str | None,
        max_memory: int,
        *,
        is_coded: bool,
    ) -> Any:
        """Return the codes of items, or their vectors."""
        has_given_tensors = device_of(views, labels) is not None
        views, present, labels, place = self._read_items(views, labels, mode, device)
        n_items = count_paired(views, labels)
        codebooks: Any = self.codebooks_
        metric: Any = self.code_metric_
        tables = None
        shape = (n_items, len(codebooks) if is_coded else codebooks.shape[2])
        dtype = np.dtype(np.uint8) if is_coded else codebooks.dtype
        n_rows = CHUNK_ROWS
        results: Any
        if place is None:
            results = np.empty(shape, dtype)
        else:
            results = require("torch").empty(shape, dtype=tensor_dtype(dtype), device=place)
            widths = sum(len(self.projections_[view]) for view in views)
            brought = sum(8 * rows.shape[1] for rows in views.values() if not is_tensor(rows))
            per_row = max(16 * widths, brought, 1)
            n_rows = next(row_blocks(max(n_items, 1), per_row, max_memory // 2)).stop
            codebooks = to_tensor(codebooks, place)
            metric = None if metric is None else to_tensor(metric, place)
        map_rows = partial(self._map_rows, device=place)
        for rows, features, inverse in self.space_.rows(views, present, labels, map_rows, n_rows):
            if place is not None:
                features = {
                    source: to_tensor(rows_of_source, place)
                    for source, rows_of_source in features.items()
                }
            result = self.space_.embed(features)
            if is_coded:
                # In the metric G, the code nearest to a target y minimises b^T G b - 2 b^T (G y).
                linear = result if metric is None else result @ metric
                if place is None and tables is None:
                    tables = code_tables(codebooks, metric)
                how: dict[str, Any] = {"tables": tables, "max_memory": max_memory // 2}
                result = search_codes(linear, codebooks, metric=metric, **how)
            result = result[inverse]
            results[rows] = result if place is None else result.to(results.dtype)
        if is_coded and labels is not None:
            self._set_label_codes(results, labels)
        return results.cpu().numpy() if place is not None and not has_given_tensors else results

    def _set_label_codes(self, codes: Any, labels: Matrix) -> None:
        """Replace codes of fitted label sets, in place, if a method has its own."""

    def _read_items(
        self, views: Any, labels: Any, mode: DatabaseMode | None, device: str | None = None
    ) -> tuple[Mapping[str, Any], Mapping[str, Array], Matrix | None, Any]:
        """Check items of any form.

        Returns views, which items have a view, labels, and the device to encode on, None: the host.
        """
        self._check_fitted()
        has_block, present = LABELS in self.space_.blocks, dict[str, Array]()
        if isinstance(views, MultiViewData):
            data, views, present = views, views.views, views.present
            if data.labels is not None:
                by_labels = mode in (None, "training") and has_block
                label_matrix = labelled(data, labels).labels
                if by_labels and data.label_names != self.label_names_:
                    raise LabelError(
                        "label names differ from those fitted; give label_names= to all data, so "
                        "that a column means the same label everywhere, or data without_labels()"
                    )
                labels = label_matrix if by_labels else None
        mode = self._check_mode(views, labels, mode)
        if mode == "single" and len(views) != 1:
            raise InvalidInputError(f"mode 'single' takes one view, got {sorted(views)}")
        if mode == "training" and labels is None:
            raise InvalidInputError("give labels, or views as a mapping of names to matrices")
        if not views and not has_block:
            raise InvalidInputError(
                f"labels are no target of this model, but {[*self.targets_]}; give views of the "
                "items"
            )
        place = _place(device, views, labels)
        matrix = self._check_labels(labels) if mode == "training" and has_block else None
        if place is None:
            checked = {name: self._check_view(X, name) for name, X in (views or {}).items()}
            return checked, present, matrix, None
        if not all(mask.all() for mask in present.values()):
            raise ViewError(
                "some items lack a view, which devices do not support; leave device out"
            )
        return self._read_tensors(views or {}, place), {}, matrix, place

    def _map_rows(self, views: Mapping[str, Any], device: Any = None) -> dict[str, Any]:
        if device is not None:
            tensors = {name: to_tensor(rows, device) for name, rows in views.items()}
            return map_tensors(self.feature_maps_, tensors)
        return {view: map_features(self.feature_maps_, rows, view) for view, rows in views.items()}

    def _read_tensors(self, views: Mapping[str, Any], device: Any) -> dict[str, Any]:
        """Check tensors against the fitted views."""
        for name in views:
            check_name(self.n_features_in_, name)
        widths = self.n_features_in_
        return {
            name: read_rows(rows, f"view '{name}'", widths[name], device)
            for name, rows in views.items()
        }

    def decode(self, codes: Array) -> Floats:
        """Return the reconstructions of codes, (n_items, n_components): added codewords.

        `codes`: uint8 (n_items, n_codebooks), array or tensor. Raises InvalidInputError for another
        width or an unknown codeword.
        """
        self._check_fitted()
        checked = check_codes(codes, self.codebooks_)
        if is_tensor(checked):
            return decode(checked.long(), to_tensor(self.codebooks_, checked.device))
        return decode(checked, self.codebooks_)

    def project_codes(self, codes: Array) -> Floats:
        """Turn stored items into query vectors, (n_items, n_components), to find others like them.

        A code vector b stands for the target vector ``J b``, whose query vector is
        ``J^T J b``. Scores of code vectors themselves would weigh components by their spread.
        Takes and raises what `decode` does.
        """
        return np.asarray(self.decode(codes) @ self.space_.metric.astype(self.codebooks_.dtype))

    @property
    def bytes_per_item(self) -> int:
        """One byte per codebook."""
        return int(self.n_codebooks)

    @property
    def targets_(self) -> dict[str, Target]:
        """Targets of the scores, with the weights and ranks used."""
        self._check_fitted()
        return self.space_.targets


def _place(device: str | None, views: Any, labels: Any = None) -> Any:
    """Return the device to compute on: as named, that of tensors, or None for the host."""
    return device_of(views, labels) if device is None else check_device(device)


# The dataclass writes __init__, so the decorator is applied afterwards.
ACQH.__init__ = suggest_keywords(ACQH.__init__)  # type: ignore[method-assign]
