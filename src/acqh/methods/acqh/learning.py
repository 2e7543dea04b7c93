"""How a model is learnt: statistics in, maps and codebooks out."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

from acqh._core.device import MAX_MEMORY, check_device
from acqh._core.linalg import RANK_TOLERANCE
from acqh._core.runtime import RandomState, check_rng, one_blas_thread
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError
from acqh.methods.acqh.queries import check_queries
from acqh.methods.acqh.refit import RefittableMethod
from acqh.methods.acqh.similarity import embed_items
from acqh.methods.acqh.solve import Fitted, Settings
from acqh.methods.acqh.solve_labels import solve_labels
from acqh.methods.acqh.solve_space import solve_space
from acqh.methods.acqh.targets import LABELS, Wanted, check_solvable, read_targets
from acqh.methods.base import as_parts
from acqh.methods.collect import MappedStatistics, collect, unit_name
from acqh.methods.feature_maps import has_kernel
from acqh.methods.target import Target
from acqh.methods.tensors import collect_tensors, has_tensors, read_tensors
from acqh.stats import RowSample, Statistics

# From this width on, threads of BLAS gain more than they cost once the sums are there.
_WIDE = 2048


class LearningMethod(RefittableMethod):
    """A model learnt from sums over items; `acqh.ACQH` says by which parameters."""

    # What `ACQHPaper` has otherwise.
    solver: ClassVar[Literal["spectral", "alternating"]] = "spectral"
    label_weight: float = 0.0
    label_ridge: float = 0.0
    fit_intercept: ClassVar[bool] = True
    max_iter: int = 4
    tol: float = 1e-3
    targets: Mapping[str, float | Target] | None
    normalize: bool | None
    keep: Literal["needed", "all"]
    sample_size: int
    random_state: RandomState

    def fit(
        self,
        views: Any,
        labels: Any = None,
        *,
        queries: Any = None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> Self:
        """Learn from paired views, with labels or without, in one pass.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
            With labels as the only target, items without labels are passed over.
        labels : optional
            Of data that bring none of their own, or the same: a 0/1 matrix, class ids, or sets of
            names.
        queries : mapping of str to (n_queries, n_features), optional
            A sample of real queries of some views. Codes are then most exact where these look.
        device : str, optional
            Where kernel maps, sums and eigenvalues are computed, such as ``"cuda"``; by default
            where tensors lie, and on the host for arrays. What is learnt are arrays in either case.
        max_memory : int
            Bytes of working memory on a device.

        Returns
        -------
        self

        Raises
        ------
        DeviceError
            The device is not available.
        InvalidInputError
            A constructor argument is out of range, or the data are of no accepted form.
        LabelError
            Labels are a target but missing, or cannot be read.
        ViewError
            Views are not paired, or hold NaN; a target or queries of an unknown view.
        """
        self._check_parameters()
        collected, where = self._collect(
            views, labels, None, device, max_memory, has_queries=queries is not None
        )
        return self._solve(collected, check_queries(queries, collected.widths), where)

    def _collect(
        self,
        views: Any,
        labels: Any,
        known: MappedStatistics | None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
        *,
        has_queries: bool = False,
    ) -> tuple[MappedStatistics, Any]:
        """Sum over items, on the host or a device; return the sums, and the device or None."""
        maps = self.feature_maps if known is None else None
        needs = replace(self.wanted(has_queries), max_memory=max_memory)
        if has_tensors(views, labels):
            names = None if known is None else known.label_names
            data = read_tensors(views, labels, device=device, names=names)
            return collect_tensors(data, maps, known, needs, max_memory), data.device
        where = None if device is None else check_device(device)
        is_whole = known is None and isinstance(views, Mapping | MultiViewData)
        parts = as_parts(views, labels)
        return collect(parts, maps, known, needs, is_whole=is_whole, device=where), where

    def wanted(self, has_queries: bool = False) -> Wanted:
        """Return what a fit with these parameters asks to be kept of the data."""
        respond = None
        if has_kernel(self.feature_maps):
            respond = partial(embed_items, self.similarity, rng=check_rng(self.random_state))
        only_sums = not self.normalize and not has_queries
        return Wanted(
            self.targets, self.keep, self.sample_size, only_sums, respond, self.random_state
        )

    def partial_fit(
        self,
        views: Any,
        labels: Any = None,
        *,
        queries: Any = None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> Self:
        """Learn from more items: the result is that of a fit on all items so far.

        Feature maps stay as they were first fitted. Takes and raises what `fit` does.
        """
        if not hasattr(self, "n_features_in_"):
            return self.fit(views, labels, queries=queries, device=device, max_memory=max_memory)
        self._check_parameters()
        known = self._collected()
        if known.spanned:
            raise InvalidInputError(
                f"{', '.join(map(repr, known.spanned))} had more features than items, so the model "
                "knows only the space of those items; fit a new model on all items together, or "
                "give a feature map that makes fewer features"
            )
        more, where = self._collect(views, labels, known, device, max_memory)
        asked = check_queries(queries, known.widths, self.queries_)
        return self._solve(replace(more, statistics=self.stats_ + more.statistics), asked, where)

    def forget(self, views: Any, labels: Any = None) -> Self:
        """Take items back: the result is that of a fit that never saw them.

        Parameters
        ----------
        views, labels
            The items as they were given to `fit` or `partial_fit`.

        Raises
        ------
        InvalidInputError
            More items of a label set would be forgotten than were fitted, or all of them.
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
        return self._solve(replace(gone, statistics=left), self.queries_, where)

    def fit_stats(self, stats: Statistics | MappedStatistics, label_names: Any = None) -> Self:
        """Learn from sums collected before, such as those of another fit.

        Parameters
        ----------
        stats : Statistics or MappedStatistics
            The latter also say which feature maps and label names they are of.
        label_names : sequence of str, optional
            Names of the label columns; their numbers by default. Not used with MappedStatistics.

        Returns
        -------
        self

        Notes
        -----
        A fitted model keeps its feature maps and label names, so another similarity is
        ``model.set_params(similarity="jaccard").fit_stats(model.stats_)``; so are other targets or
        weights, where what they need was kept.
        """
        self._check_parameters()
        queries = getattr(self, "queries_", {})
        if isinstance(stats, MappedStatistics) and stats.statistics.n_items > 0:
            return self._solve(stats, queries)
        if not isinstance(stats, Statistics) or stats.n_items == 0:
            raise InvalidInputError("stats must be a Statistics of at least one labelled item")
        if hasattr(self, "n_features_in_") and label_names is None:
            return self._solve(self._collected(stats), queries)
        return self._solve(MappedStatistics.of_sums(stats, label_names), queries)

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
            tuple(view for view in self.n_features_in_ if unit_name(view) in stats.views),
        )

    def _solve(
        self, collected: MappedStatistics, queries: dict[str, RowSample], device: Any = None
    ) -> Self:
        """Solve for the sums collected and set every fitted attribute, or none."""
        stats = collected.statistics
        targets = read_targets(self.targets, collected.widths, stats.n_labels > 0)
        is_plain = [*targets] == [LABELS] and not self.normalize and not queries
        check_solvable(targets, stats, self.solver, is_plain)
        settings, rng = Settings.of(self, device), check_rng(self.random_state)
        widest = max(view.n_features for view in stats.views.values())
        with one_blas_thread() if widest < _WIDE else nullcontext():
            if is_plain:
                fitted = solve_labels(stats, settings, rng, collected.anchored)
            else:
                is_weighed = self.targets is None
                fitted = solve_space(
                    collected, targets, queries, settings, rng, is_weighed=is_weighed
                )
        self._keep(collected, queries, fitted)
        return self

    def _keep(
        self, collected: MappedStatistics, queries: dict[str, RowSample], fitted: Fitted
    ) -> None:
        dtype = collected.dtype
        self.stats_ = collected.statistics
        self.queries_ = queries
        self.feature_maps_ = collected.feature_maps
        self.n_features_in_ = collected.widths
        self.label_names_ = collected.label_names
        self.space_ = fitted.space
        self.projections_ = {k: v.astype(dtype) for k, v in fitted.projections.items()}
        self.intercepts_ = {k: v.astype(dtype) for k, v in fitted.intercepts.items()}
        self.unit_projections_ = {k: v.astype(dtype) for k, v in fitted.units.items()}
        self.codebooks_ = fitted.codebooks.astype(dtype)
        self.code_metric_ = fitted.metric
        self.objective_ = fitted.objective
        self.lower_bound_ = fitted.lower_bound
        is_zero = abs(fitted.lower_bound) <= RANK_TOLERANCE * fitted.of_nothing
        share_of = fitted.of_nothing if is_zero else abs(fitted.lower_bound)
        gap = max(fitted.objective[-1] - fitted.lower_bound, 0.0)
        self.optimality_gap_ = gap / share_of if share_of else 0.0
        self.n_iter_ = len(fitted.objective) - 1
        self.ridges_ = fitted.ridges
        self.query_share_ = fitted.query_share
        self.refitted_ = ()
