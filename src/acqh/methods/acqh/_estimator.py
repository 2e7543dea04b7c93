"""The estimator: statistics in, maps and codebooks out."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np

from acqh._core.random import RandomState, check_rng
from acqh._core.tensors import MAX_MEMORY, check_device
from acqh._core.threads import one_blas_thread
from acqh._core.validation import Interval, StrOptions
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError
from acqh.methods._base import as_parts, has_kernel
from acqh.methods._statistics import MappedStatistics, collect, unit_name
from acqh.methods._tensors import collect_tensors, has_tensors, read_tensors
from acqh.methods.acqh._coding import CodingMethod
from acqh.methods.acqh._fitted import Fitted
from acqh.methods.acqh._queries import check_queries
from acqh.methods.acqh._similarity import SIMILARITIES, Similarity, embed_items
from acqh.methods.acqh._solve import Settings
from acqh.methods.acqh._solve_labels import solve_labels
from acqh.methods.acqh._solve_space import solve_space
from acqh.methods.acqh._targets import LABELS, Target, Wanted, check_solvable, read_targets
from acqh.methods.registry import register
from acqh.stats import RowSample, Statistics

# From this width on, threads of BLAS gain more than they cost once the sums are there.
_WIDE = 2048

REFERENCE = (
    "Wang and Yang, Asymmetric Correlation Quantization Hashing for Cross-modal Retrieval, 2020"
)


@register(
    name="acqh",
    title="Asymmetric correlation quantization hashing",
    reference=REFERENCE,
    year=2020,
    supervised=True,
    label_free=True,
    code="additive",
    modes=("learnt", "hashed", "unified"),
)
class ACQH(CodingMethod):
    """Asymmetric correlation quantization hashing.

    A query of any view becomes a real vector, an item becomes one byte per codebook, and their
    score, the inner product of the query vector and the sum of the item's codewords, is close
    to their similarity: of their labels [1]_, of what they show or say, or of vectors that a
    teacher gives them. One pass over the data collects sums; the rest is closed form but for the
    quantization.

    Parameters
    ----------
    n_components : int
        Length of query vectors and codewords. Not storage: an item takes `n_codebooks` bytes
        whatever this is. Components beyond the rank of the label similarities are zero.
    n_codebooks : int
        Bytes per item, 1 to 16.
    codebook_size : int
        Words per codebook, 2 to 256.
    similarity : {"shared", "dot", "cosine", "jaccard"} or callable
        What a score should be: 1 if a label is shared, the number of shared labels (the
        paper's), their cosine, their Jaccard index; or a function of two 0/1 matrices
        (n, n_labels) and (m, n_labels) that gives (n, m). Can be changed after the pass, with
        `fit_stats`.
    solver : {"spectral", "alternating"}
        The closed form, or the paper's Algorithm 1 (corrected).
    label_weight : float
        The paper's lambda: weight of the label regression.
    label_ridge : float
        The paper's mu: ridge of the label regression.
    ridge : float or "auto"
        Strength of the penalty on the maps from features, relative to the mean diagonal of
        the Gram matrix; ``"auto"`` chooses one per view by generalised cross-validation, with
        other targets than labels alone by the error on rows of the sample left out in turn.
    fit_intercept : bool
        Whether the maps from features have an intercept, which no ridge touches.
    feature_maps : mapping of str to feature map, one feature map, or None
        For some views, or for all; fitted on the training rows (of an iterable, on its first
        chunk). Any scikit-learn transformer, or a name of `acqh.features`, such as ``"kernel"``
        for kernel ridge regression (`acqh.features.KernelMap`).
    codebooks_from : {"both", "labels", "predictions"}
        What the codebooks of the spectral solver are learnt from: the code vectors of label
        sets, those that will be predicted for items without labels, or both.
    max_iter : int, optional
        Sweeps at most; by default 40 of Algorithm 1, or 4 over the spectral solver's codes.
    tol : float, optional
        Stop when a sweep lowers what it minimises by less than this share: by default 1e-5 of
        the objective (alternating), 1e-3 of the quantization error (spectral).
    targets : mapping of str to float or Target, optional
        What scores should be: weights of ``"labels"`` and of views, or `acqh.Target`. By default
        labels where they are given, otherwise the content of all views with equal weights. A
        target may be a view that is there for training only: a teacher.
    normalize : bool, optional
        Whether items are coded with the length that known ones have, so that those of which more
        is known do not lead every list. By default not with labels alone, otherwise yes.
    keep : {"needed", "all"}
        Which products of views the statistics keep: those that the targets need, or all, so that
        targets can be changed after the pass, with `fit_stats`.
    sample_size : int
        Rows at most that the statistics keep to learn codebooks from, chosen by a hash of the row;
        none with labels alone.
    random_state : int, Generator or None

    Attributes
    ----------
    projections_ : dict of str to (n_features, n_components)
        After the view's feature map, if it has one.
    intercepts_ : dict of str to (n_components,)
    codebooks_ : (n_codebooks, codebook_size, n_components)
    objective_ : list of float
        With labels alone, the paper's objective (6) after each sweep, with all its terms;
        otherwise the mean squared error of item vectors in the metric of queries.
    lower_bound_ : float
        No codes of this many components can have a lower objective.
    optimality_gap_ : float
        How far the objective is above the bound, as a share of the bound.
    n_iter_ : int
        Sweeps made.
    ridges_ : dict
        The strength used for each view; with other targets than labels alone, by view (or
        ``"labels"``) and then by target.
    targets_ : dict of str to Target
        What was used, with weights and ranks.
    stats_ : Statistics
        All that is kept of the data.
    label_codes_ : uint8 (n_sets, n_codebooks)
        The codes of the distinct label sets; with labels alone.
    query_share_ : float
        Share of the real queries in the metric; without any, zero.

    References
    ----------
    .. [1] L. Wang, J. Yang, "Asymmetric Correlation Quantization Hashing for Cross-modal
       Retrieval", 2020.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(300, n_labels=5, random_state=0)
    >>> train, query = data.split(test_size=20, random_state=0)
    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(train.views, train.labels)
    >>> codes = model.encode(labels=train.labels)
    >>> codes.shape, codes.dtype
    ((280, 2), dtype('uint8'))
    >>> scores = model.project(query.views["text"], view="text") @ model.decode(codes).T
    >>> scores.shape
    (20, 280)

    Without labels, by the content of both views:

    >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(train.views)
    >>> model.encode(train.views).shape
    (280, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_codebooks": [Interval(Integral, 1, 16, closed="both")],
        "codebook_size": [Interval(Integral, 2, 256, closed="both")],
        "similarity": [StrOptions(set(SIMILARITIES)), callable],
        "solver": [StrOptions({"spectral", "alternating"})],
        "label_weight": [Interval(Real, 0, None, closed="left")],
        "label_ridge": [Interval(Real, 0, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "fit_intercept": ["boolean"],
        "codebooks_from": [StrOptions({"both", "labels", "predictions"})],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "normalize": ["boolean", None],
        "keep": [StrOptions({"needed", "all"})],
        "sample_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 32,
        *,
        n_codebooks: int = 4,
        codebook_size: int = 256,
        similarity: str | Similarity = "shared",
        solver: Literal["spectral", "alternating"] = "spectral",
        label_weight: float = 1e-4,
        label_ridge: float = 1e-2,
        ridge: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        feature_maps: Any = None,
        codebooks_from: Literal["both", "labels", "predictions"] = "both",
        targets: Mapping[str, float | Target] | None = None,
        normalize: bool | None = None,
        keep: Literal["needed", "all"] = "needed",
        sample_size: int = 65_536,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.n_codebooks = n_codebooks
        self.codebook_size = codebook_size
        self.similarity = similarity
        self.solver = solver
        self.label_weight = label_weight
        self.label_ridge = label_ridge
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.feature_maps = feature_maps
        self.codebooks_from = codebooks_from
        self.targets = targets
        self.normalize = normalize
        self.keep = keep
        self.sample_size = sample_size
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

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
            With a mapping of views only: a 0/1 matrix, class ids, or sets of names.
        queries : mapping of str to (n_queries, n_features), optional
            A sample of real queries of some views. Codes are then most exact where these look.
        device : str, optional
            Where sums and eigenvalues are computed, such as ``"cuda"``; by default where tensors
            lie, and on the host for arrays. What is learnt are arrays in either case.
        max_memory : int
            Bytes of working memory on a device.

        Returns
        -------
        self

        Raises
        ------
        DeviceError
            The device is not there.
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
        needs = self.wanted(has_queries)
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
        if not hasattr(self, "stats_"):
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
        if hasattr(self, "stats_") and label_names is None:
            return self._solve(replace(self._collected(), statistics=stats), queries)
        return self._solve(MappedStatistics.of_sums(stats, label_names), queries)

    def _collected(self) -> MappedStatistics:
        self._check_fitted()
        if self.refitted_:
            raise InvalidInputError(
                f"queries of {sorted(self.refitted_)} have another encoder now, and the sums are "
                "of the one before; fit a new model"
            )
        return MappedStatistics(
            self.stats_,
            self.feature_maps_,
            self.n_features_in_,
            self.label_names_,
            self.codebooks_.dtype,
            tuple(view for view in self.n_features_in_ if unit_name(view) in self.stats_.views),
        )

    def _solve(
        self, collected: MappedStatistics, queries: dict[str, RowSample], device: Any = None
    ) -> Self:
        """Solve for the sums collected and set every fitted attribute, or none."""
        stats = collected.statistics
        targets = read_targets(self.targets, collected.widths, stats.n_labels > 0)
        is_plain = [*targets] == [LABELS] and not self.normalize and not queries
        check_solvable(targets, stats, self.solver, is_plain)
        widest = max(view.n_features for view in stats.views.values())
        with one_blas_thread() if widest < _WIDE else nullcontext():
            if is_plain:
                fitted = self._solve_labels(stats, device)
            else:
                fitted = self._solve_space(collected, targets, queries, device)
        self._keep(collected, queries, fitted)
        return self

    def _settings(self, device: Any) -> Settings:
        max_iter, tol = (4, 1e-3) if self.solver == "spectral" else (40, 1e-5)
        return Settings(
            self.n_components,
            self.n_codebooks,
            self.codebook_size,
            self.codebooks_from,
            max_iter if self.max_iter is None else self.max_iter,
            tol if self.tol is None else self.tol,
            device,
        )

    def _solve_labels(self, stats: Statistics, device: Any) -> Fitted:
        return solve_labels(
            stats,
            similarity=self.similarity,
            solver=self.solver,
            ridge=self.ridge,
            fit_intercept=self.fit_intercept,
            label_weight=self.label_weight,
            label_ridge=self.label_ridge,
            settings=self._settings(device),
            rng=check_rng(self.random_state),
        )

    def _solve_space(
        self,
        collected: MappedStatistics,
        targets: Mapping[str, Target],
        queries: Mapping[str, RowSample],
        device: Any,
    ) -> Fitted:
        return solve_space(
            collected,
            targets,
            similarity=self.similarity,
            ridge=self.ridge,
            fit_intercept=self.fit_intercept,
            is_normalized=self.normalize is not False,
            queries=queries,
            settings=self._settings(device),
            rng=check_rng(self.random_state),
        )

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
        self.optimality_gap_ = (fitted.objective[-1] - fitted.lower_bound) / max(
            abs(fitted.lower_bound), np.finfo(float).tiny
        )
        self.n_iter_ = len(fitted.objective) - 1
        self.ridges_ = fitted.ridges
        self.query_share_ = fitted.query_share
        self.refitted_ = ()
