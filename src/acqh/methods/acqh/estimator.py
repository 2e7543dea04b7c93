"""The estimator: its parameters, how it learns, and what a fitted model does."""

# So that `help` names types as they are written here.
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
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
    has_tensors,
    is_tensor,
    map_features,
)
from acqh._core.device import MAX_MEMORY, Tensor, check_device, row_blocks, tensor_dtype, to_tensor
from acqh._core.imports import require
from acqh._core.runtime import Interval, RandomState, check_rng, one_blas_thread
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.solve import solve_labels, solve_targets
from acqh.methods.acqh.space import SIMILARITIES, ItemMaps, Items, Similarity, Space, embed_items
from acqh.methods.acqh.targets import LABELS, Target, read_targets
from acqh.methods.base import CONSTRAINTS, COUNT, NOT_NEGATIVE, BaseMethod, as_parts, labelled
from acqh.methods.collect import (
    MappedStatistics,
    collect,
    describe,
    has_kernel,
    map_tensors,
    unit_name,
)
from acqh.methods.on_device import (
    TensorData,
    check_finite,
    collect_tensors,
    describe_tensors,
    project_tensor,
    read_tensors,
)
from acqh.methods.query_maps import QueryMaps
from acqh.methods.registry import DatabaseMode, register
from acqh.quantize import decode, search_codes
from acqh.quantize.code_search import code_tables
from acqh.quantize.codebooks import check_codes
from acqh.stats import Keep, Statistics
from acqh.stats.moments import pair_of
from acqh.stats.ridge import regress_rows

REFERENCE = (
    "Wang and Yang, Asymmetric Correlation Quantization Hashing for Cross-modal Retrieval, 2020"
)
# From this width on, threads of BLAS gain more than they cost once the sums are there.
_WIDE = 2048


class FittedACQH(BaseMethod):
    """What a fit gives, by attribute; not part of a dataclass, whose fields are parameters."""

    # Where queries and items of any kind meet.
    space_: Space
    stats_: Statistics
    projections_: dict[str, Floats]
    intercepts_: dict[str, Floats]
    unit_projections_: dict[str, Floats]
    codebooks_: Floats
    # In which a code vector is to be near its target; None: the identity.
    code_metric_: Floats | None
    objective_: list[float]
    lower_bound_: float
    optimality_gap_: float
    n_iter_: int
    ridges_: dict[str, Any]
    refitted_: tuple[str, ...]


@register(
    name="acqh",
    title="Asymmetric correlation quantization hashing",
    status="paper",
    reference=REFERENCE,
    supervised=True,
    label_free=True,
    code="additive",
    modes=("learnt", "hashed", "unified"),
)
@dataclass(eq=False, repr=False)
class ACQH(FittedACQH):
    """Search across views by a few bytes per item: asymmetric correlation quantization hashing.

    A query of any view becomes a vector, an item one byte per codebook. Their score, an inner
    product, is close to their similarity: of their labels (the paper's, by Wang and Yang, 2020), of
    what they show or say, or of vectors that a teacher gives them. One pass over the data collects
    sums; the rest is closed form but for the quantization.

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
    equal_lengths : bool, optional
        Whether items get the length that known ones have, so that those of which more is known do
        not lead every list. By default not with labels alone, otherwise yes.
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
    ridges_ : dict
        By view; with other targets than labels alone, by view (or ``"labels"``) and target.
    objective_ : list of float
        After each sweep. With labels alone: the squared error of the scores of all pairs of
        training items, plus the ridge penalty ``rho ||W b||^2``; kernel maps leave each query out,
        and have a penalty only if it pulls towards zero. Otherwise: the mean squared error of
        items, as queries see it.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "n_components": COUNT,
        "n_codebooks": [Interval(Integral, 1, 16, closed="both")],
        "similarity": [SIMILARITIES, "callable"],
        "ridge": [*NOT_NEGATIVE, ("auto",)],
        "equal_lengths": ["boolean", None],
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
    equal_lengths: bool | None = None
    complete_share: float | None = None
    random_state: RandomState = None

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
            With labels as the only target, items without labels are passed over.
        labels : optional
            Of data that bring none of their own: a 0/1 matrix, class ids, or sets of names.
        device : str, optional
            Where to compute, such as ``"cuda"``; by default where tensors lie, and on the host for
            arrays. What is learnt are arrays in either case.
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
        known: MappedStatistics | None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> tuple[MappedStatistics, Any]:
        """Sum over items, on the host or a device; return the sums, and the device or None."""
        how: dict[str, Any] = {"max_memory": max_memory}
        if has_tensors(views, labels):
            names = None if known is None else known.label_names
            data = read_tensors(views, labels, device=device, names=names)
            known = known or self._describe(data, **how)
            return collect_tensors(data, known, max_memory), data.device
        where = None if device is None else check_device(device)
        how |= {"is_whole": isinstance(views, Mapping | MultiViewData), "device": where}
        parts = as_parts(views, labels)
        return collect(parts, known or partial(self._describe, **how), device=where), where

    def _describe(self, part: Any, **how: Any) -> MappedStatistics:
        """Fit the feature maps to the first part of the data; return what all must be like.

        What is kept of the data follows from the targets. `how`: see
        `acqh.methods.collect.describe`.
        """
        targets = read_targets(self.targets, part.views, part.labels is not None)
        keep, responses = None, None
        units: tuple[str, ...] = ()
        if not self._is_plain(targets):
            keys = {
                name: unit_name(name) if target.similarity == "cosine" else name
                for name, target in targets.items()
                if name != LABELS
            }
            pairs = [
                pair_of(view, key)
                for name, key in keys.items()
                for view in part.views
                if view != name
            ]
            keep, units = Keep(frozenset(pairs)), tuple(n for n, key in keys.items() if key != n)
        elif has_kernel(self.feature_maps):
            responses = embed_items(self.similarity, part.labels, check_rng(self.random_state))
        make = describe_tensors if isinstance(part, TensorData) else describe
        rng = check_rng(self.random_state)
        return make(part, self.feature_maps, keep, units=units, responses=responses, rng=rng, **how)

    def _is_plain(self, targets: Mapping[str, Target]) -> bool:
        """Whether labels are the only target, and nothing else is asked for."""
        return [*targets] == [LABELS] and not self.equal_lengths

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
        known = self._collected()
        if known.spanned:
            raise InvalidInputError(
                f"{', '.join(map(repr, known.spanned))} had more features than items, so the model "
                "knows only the space of those items; fit a new model on all items together, or "
                "give a feature map that makes fewer features"
            )
        more, where = self._collect(views, labels, known, device, max_memory)
        return self._solve(replace(more, statistics=self.stats_ + more.statistics), where)

    def forget(self, views: Any, labels: Any = None) -> Self:
        """Take items back: the result is that of a fit that never saw them.

        `views`, `labels`: the items as they were given to `fit` or `partial_fit`. Raises
        InvalidInputError: more of a label set than were fitted, or all items.
        """
        known = self._collected()
        if known.anchored:
            raise InvalidInputError(
                f"the kernel maps of {', '.join(map(repr, known.anchored))} hold training items "
                "and what was learnt from them; fit a new model without those to be forgotten"
            )
        gone, where = self._collect(views, labels, known)
        left = self.stats_ - gone.statistics
        if left.n_items == 0:
            raise InvalidInputError("no item would be left; fit a new model instead")
        return self._solve(replace(gone, statistics=left), where)

    def fit_stats(self, stats: Statistics | MappedStatistics, label_names: Any = None) -> Self:
        """Learn from sums collected before, such as those of another fit.

        A fitted model keeps its feature maps and label names, so another similarity is
        ``model.set_params(similarity="jaccard").fit_stats(model.stats_)``; so are other weights of
        the same targets. `stats`: Statistics, or what `acqh.methods.collect.collect` gives.
        `label_names`: of the label columns of Statistics; their numbers by default.
        """
        self._check_parameters()
        if isinstance(stats, MappedStatistics) and stats.statistics.n_items > 0:
            return self._solve(stats)
        if not isinstance(stats, Statistics) or stats.n_items == 0:
            raise InvalidInputError("stats must be a Statistics of at least one labelled item")
        if hasattr(self, "n_features_in_") and label_names is None:
            return self._solve(self._collected(stats))
        return self._solve(MappedStatistics.of_sums(stats, label_names))

    def _collected(self, stats: Statistics | None = None) -> MappedStatistics:
        """Return sums, by default the model's own, and what they are sums of."""
        self._check_fitted()
        stats = getattr(self, "stats_", None) if stats is None else stats
        if stats is None:
            raise InvalidInputError(
                "this model was kept without its sums, so no item can be added to them or taken "
                "out; fit a new model on all items"
            )
        if self.refitted_:
            raise InvalidInputError(
                f"queries of {sorted(self.refitted_)} have another encoder now, and the sums are "
                "of the one before; fit a new model"
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
        """Solve for the sums collected and set every fitted attribute, or none."""
        stats, dtype = collected.statistics, collected.dtype
        targets = read_targets(self.targets, collected.widths, stats.n_labels > 0)
        if stats.counts.sum() == 0 and LABELS in targets:
            raise LabelError("no item has a label, so there is nothing to learn from")
        widest = max(stats.widths.values())
        with one_blas_thread() if widest < _WIDE else nullcontext():
            learnt = self._learn(collected, targets, device)
        for name in ("projections_", "intercepts_", "unit_projections_"):
            learnt[name] = {view: it.astype(dtype) for view, it in learnt[name].items()}
        learnt |= {
            "codebooks_": learnt["codebooks_"].astype(dtype),
            "stats_": stats,
            "feature_maps_": collected.feature_maps,
            "n_features_in_": collected.widths,
            "label_names_": collected.label_names,
            "refitted_": (),
        }
        for name, value in learnt.items():
            setattr(self, name, value)
        return self

    def _learn(
        self, collected: MappedStatistics, targets: Mapping[str, Target], device: Any
    ) -> dict[str, Any]:
        """Return what is learnt, by attribute."""
        rng = check_rng(self.random_state)
        if self._is_plain(targets):
            return solve_labels(self, collected, rng, device)
        if collected.statistics.keep is None:
            raise InvalidInputError(
                f"the targets {[*targets]} need products of views and a sample of rows, but the "
                "statistics keep sums over labelled items only; collect them with these targets"
            )
        return solve_targets(self, collected, targets, rng, device)

    def refit_queries(self, views: Any, targets_or_codes: Any) -> Self:
        """Take another encoder for the queries of some views; codes stay as they are.

        Only the maps from the new features are learnt, from items of which something else is known.
        Items can be coded by the new features too; what the old ones said is then predicted.

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
        wanted = self._query_targets(targets_or_codes)
        for name, matrix in matrices.items():
            if matrix.shape[0] != len(wanted):
                raise ViewError(
                    f"view '{name}' has {matrix.shape[0]} rows for {len(wanted)} items; they are "
                    "paired by row"
                )
        space = self.space_
        for name, matrix in matrices.items():
            learn = partial(regress_rows, matrix, ridge=self.ridge)
            space = space.refitted(name, wanted, learn)
        dtype = self.codebooks_.dtype
        folded = {
            name: [it.astype(dtype) for it in space.fold_query(name)[:2]] for name in matrices
        }
        # Nothing is set before everything is learnt.
        self.space_ = space
        self.projections_ = self.projections_ | {name: own[0] for name, own in folded.items()}
        self.intercepts_ = self.intercepts_ | {name: own[1] for name, own in folded.items()}
        self.unit_projections_ = _without(self.unit_projections_, matrices)
        self.feature_maps_ = _without(self.feature_maps_, matrices)
        widths = {name: matrix.shape[1] for name, matrix in matrices.items()}
        self.n_features_in_ = self.n_features_in_ | widths
        self.refitted_ = tuple(sorted({*self.refitted_, *matrices}))
        return self

    def _query_targets(self, given: Any) -> Floats:
        """Return what the new features are to predict: blocks of the items."""
        if not isinstance(given, Mapping | MultiViewData):
            return self.space_.described_by(self.decode(given).astype(np.float64))
        labels = None
        if isinstance(given, Mapping):
            labels = given.get(LABELS) if self.space_.knows_labels else None
            given = {name: rows for name, rows in given.items() if name != LABELS}
        items, _ = self._items(given, labels, None)
        parts = [*self.space_.describe(items, self._map_rows)]
        found = np.empty((items.n_items, parts[0][1].shape[1]))
        for rows, block in parts:
            found[rows] = block
        return found

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
        if device is not None or is_tensor(X):
            data = self._read_tensors({view: X}, None, device)
            found: Any = project_tensor(data, view, QueryMaps.of(self), max_memory)
            return cast(Floats, found if is_tensor(X) else found.cpu().numpy())
        self._check_fitted()
        return QueryMaps.of(self).project(X, view=view)

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
            Any of the fitted views, one or several. What a view says of a target is taken as it is;
            the other targets are predicted, each view weighted by how well it does.
        labels : optional
            As `fit` takes them, by default those that a MultiViewData brings; a row without any is
            one whose labels are not known. With labels as the only target, items that have labels
            are coded by these alone.
        mode : {"learnt", "hashed", "unified"}, optional
            By labels (and views), by one view, or by all views given; by default as the arguments
            suggest.
        device, max_memory
            See `fit`.

        Raises
        ------
        DeviceError, InvalidInputError, LabelError, ViewError
            The device is not there; neither views nor labels, or not what the mode needs; an item
            with neither; an unknown view, different lengths, another width than fitted, NaN.
        """
        items, where = self._items(views, labels, mode, device)
        codes = _empty(items, where, len(self.codebooks_), np.dtype(np.uint8))
        search = self._searcher(where, max_memory)
        for place, vectors in self._vectors(items, where, max_memory, by_sets=False):
            codes[place] = search(vectors)
        by_labels = np.flatnonzero(items.numbers >= 0)
        if self.space_.is_plain and by_labels.size:
            own = self._codes_of_sets(items.sets)[items.numbers[by_labels]]
            codes[by_labels] = own if where is None else to_tensor(own, where)
        return cast(Array, _as_given(codes, views, labels))

    def embed(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Floats:
        """Return the vectors that `encode` puts into bytes: scores without quantization.

        Takes and raises what `encode` does; gives (n_items, n_components).
        """
        items, where = self._items(views, labels, mode)
        found = _empty(items, where, self.codebooks_.shape[2], self.codebooks_.dtype)
        for place, vectors in self._vectors(items, where, MAX_MEMORY):
            found[place] = vectors
        return cast(Floats, _as_given(found, views, labels))

    def _items(
        self, views: Any, labels: Any, mode: DatabaseMode | None, device: str | None = None
    ) -> tuple[Items, Any]:
        """Check items of any form; return them, and the device that they are coded on or None."""
        views, labels, present = self._given(views, labels, mode)
        mode = self._check_given(views, labels, mode)
        labels = labels if mode == "learnt" and self.space_.knows_labels else None
        if device is None and not has_tensors(views, labels):
            matrices = {name: self._check_view(X, name) for name, X in (views or {}).items()}
            known = None if labels is None else self._check_labels(labels)
            return Items.of(matrices, present, known), None
        if not all(mask.all() for mask in present.values()):
            raise ViewError(
                "some items lack a view, which is not known on a device; leave device out"
            )
        data = self._read_tensors(views or {}, labels, device)
        return Items.of(data.views, {}, data.labels), data.device

    def _vectors(
        self, items: Items, device: Any, max_memory: int, *, by_sets: bool = True
    ) -> Iterator[tuple[Any, Any]]:
        """Yield code vectors of items, some rows at a time.

        `by_sets`: also of items whose labels say what their code is.
        """
        space, n_rows, map_rows = self.space_, CHUNK_ROWS, self._map_rows
        if device is not None:
            widths = [len(self.projections_[view]) for view in items.views]
            brought = [8 * it.shape[1] for it in items.views.values() if not is_tensor(it)]
            per_row = max(16 * sum(widths), sum(brought), 1)
            n_rows = next(row_blocks(items.n_items, per_row, max_memory // 2)).stop
            map_rows = partial(self._map_tensors, device)
        folded: dict[tuple[str, ...], ItemMaps] = {}
        for place, known in items.known(space, map_rows, n_rows, device, by_sets=by_sets):
            sources = tuple(known)
            if sources not in folded:
                maps = space.fold_items(sources)
                folded[sources] = maps if device is None else maps.on(device)
            yield place, folded[sources].apply(known)

    def _map_rows(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        return {view: map_features(self.feature_maps_, rows, view) for view, rows in views.items()}

    def _map_tensors(self, device: Any, views: Mapping[str, Any]) -> dict[str, Tensor]:
        there = {name: to_tensor(rows, device) for name, rows in views.items()}
        return map_tensors(self.feature_maps_, there)

    def _searcher(self, device: Any = None, max_memory: int = MAX_MEMORY) -> Callable[[Any], Any]:
        """Return what finds the codes of code vectors."""
        codebooks: Any = self.codebooks_
        metric: Any = self.code_metric_
        more: dict[str, Any] = {}
        if device is not None:
            codebooks = to_tensor(codebooks, device)
            metric = None if metric is None else to_tensor(metric, device)
            more["max_memory"] = max_memory // 2

        def search(vectors: Any) -> Any:
            if device is None and not more:  # once, and not where label sets say all codes
                more["tables"] = code_tables(codebooks, metric)
            # In the metric G, the code nearest to a target y minimises b^T G b - 2 b^T (G y).
            linear = vectors if metric is None else vectors @ metric
            return search_codes(linear, codebooks, metric=metric, **more)

        return search

    def _codes_of_sets(self, sets: Array) -> Array:
        """Return the codes of label sets, 0/1 (n_sets, n_labels).

        A set that was fitted has its code; a new one is encoded like any vector.
        """
        numbers = self.space_.fitted_sets.number(sets, add=False)
        codes, is_new = self.label_codes_[numbers], numbers < 0
        if is_new.any():
            features = self.space_.label_features(sets[is_new])
            vectors = self.space_.fold_items([LABELS]).apply({LABELS: features})
            codes[is_new] = self._searcher()(vectors)
        return codes

    def _read_tensors(self, views: Any, labels: Any, device: str | None) -> TensorData:
        """Check tensors against the fitted views and labels."""
        self._check_fitted()
        data = read_tensors(views, labels, device=device, names=self.label_names_)
        for name, matrix in data.views.items():
            self._check_shape(matrix, name)
            check_finite(matrix, name)
        return data

    def _given(
        self, views: Any, labels: Any, mode: DatabaseMode | None
    ) -> tuple[Any, Any, Mapping[str, Array]]:
        """Return views, labels and which items have a view, of items in any form."""
        self._check_fitted()
        if not isinstance(views, MultiViewData):
            return views, labels, {}
        if views.labels is not None:
            own = labelled(views, labels).labels
            by_labels = mode in (None, "learnt") and self.space_.knows_labels
            if by_labels and views.label_names != self.label_names_:
                raise LabelError(
                    "label names differ from those fitted; give label_names= to all data, so that "
                    "a column means the same label everywhere, or data without_labels()"
                )
            labels = own if by_labels else None
        return views.views, labels, views.present

    def _check_given(self, views: Any, labels: Any, mode: DatabaseMode | None) -> DatabaseMode:
        """Check that there is what a mode needs; return the mode."""
        mode = self._check_mode(views, labels, mode)
        if mode == "hashed" and len(views) != 1:
            raise InvalidInputError(f"mode 'hashed' takes one view, got {sorted(views)}")
        if mode == "learnt" and labels is None:
            raise InvalidInputError("give labels, or views as a mapping of names to matrices")
        if not views and not self.space_.knows_labels:
            raise InvalidInputError(
                f"labels are no target of this model, but {[*self.targets_]}; give views of the "
                "items"
            )
        return mode

    def decode(self, codes: Array) -> Floats:
        """Return the vectors that codes stand for, (n_items, n_components): sums of codewords.

        `codes`: uint8 (n_items, n_codebooks), array or tensor. Raises InvalidInputError: another
        width, or a word that there is not.
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
        """What scores stand for, with the weights and ranks used."""
        self._check_fitted()
        return self.space_.targets

    @property
    def label_codes_(self) -> Array:
        """Codes of the fitted label sets, uint8 (n_sets, n_codebooks); with labels alone."""
        if self.space_.label_codes is None:
            raise AttributeError("label sets have codes of their own with labels alone")
        return self.space_.label_codes


def _without(by_view: Mapping[str, Any], views: Collection[str]) -> dict[str, Any]:
    return {name: it for name, it in by_view.items() if name not in views}


def _empty(items: Items, device: Any, width: int, dtype: Any) -> Any:
    """Return room for numbers of items, on the host or a device."""
    if device is None:
        return np.empty((items.n_items, width), dtype)
    kind = tensor_dtype(dtype)
    return require("torch").empty((items.n_items, width), dtype=kind, device=device)


def _as_given(found: Any, views: Any, labels: Any) -> Any:
    """Return a tensor as an array where items were none."""
    return found.cpu().numpy() if is_tensor(found) and not has_tensors(views, labels) else found
