"""The estimator: statistics in, maps and codebooks out."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh._core.random import RandomState, check_rng
from acqh._core.threads import one_blas_thread
from acqh._core.validation import Interval, StrOptions
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods._base import CHUNK_ROWS, BaseMethod, as_parts, map_features
from acqh.methods._statistics import MappedStatistics, collect
from acqh.methods.acqh._items import Items
from acqh.methods.acqh._predictions import Predictor, fuse
from acqh.methods.acqh._problem import Problem
from acqh.methods.acqh._similarity import SIMILARITIES, LabelEmbedding, Similarity, embed
from acqh.methods.acqh._solve import Settings, Solution, solve
from acqh.methods.registry import DatabaseMode, register
from acqh.quantize import decode, search_codes
from acqh.stats import Regression, Statistics, regress

# From this width on, threads of BLAS gain more than they cost once the sums are there.
_WIDE = 2048

_REFERENCE = (
    "Wang and Yang, Asymmetric Correlation Quantization Hashing for Cross-modal Retrieval, 2020"
)


def paper_settings() -> dict[str, Any]:
    """Return the arguments of `ACQH` with which it is the paper's own method.

    Algorithm 1 with its errors corrected, similarity ``L L^T``, linear maps without intercept
    or ridge, random start, codebooks learnt from labels alone.

    Examples
    --------
    >>> import acqh
    >>> acqh.ACQH(16, **acqh.paper_settings()).solver
    'alternating'
    """
    return {
        "similarity": "dot",
        "solver": "alternating",
        "label_weight": 1e-4,
        "label_ridge": 1e-2,
        "ridge": 0.0,
        "fit_intercept": False,
        "codebooks_from": "labels",
    }


@register(
    name="acqh",
    title="Asymmetric correlation quantization hashing",
    reference=_REFERENCE,
    year=2020,
    supervised=True,
    code="additive",
    modes=("learnt", "hashed", "unified"),
)
class ACQH(BaseMethod):
    """Asymmetric correlation quantization hashing.

    A query of any view becomes a real vector, an item becomes one byte a codebook, and their
    score, the inner product of the query vector and the sum of the item's codewords, is close
    to the similarity of their labels [1]_. One pass over the data collects sums; the rest is
    closed form but for the quantization of one vector a distinct label set.

    Parameters
    ----------
    n_components : int
        Length of query vectors and codewords. Not storage: an item takes `n_codebooks` bytes
        whatever this is. Components beyond the rank of the label similarities are zero.
    n_codebooks : int
        Bytes an item, 1 to 16.
    codebook_size : int
        Words a codebook, 2 to 256.
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
        the Gram matrix; ``"auto"`` chooses one a view by generalised cross-validation.
    fit_intercept : bool
        Whether the maps from features have an intercept, which no ridge touches.
    feature_maps : mapping of str to feature map, one feature map, or None
        For some views, or for all; fitted on the training rows (of an iterable, on its first
        chunk). Any scikit-learn transformer, or a name of `acqh.features`.
    codebooks_from : {"both", "labels", "predictions"}
        What the codebooks of the spectral solver are learnt from: the code vectors of label
        sets, those that will be predicted for items without labels, or both.
    max_iter : int, optional
        Sweeps at most; by default 40 of Algorithm 1, or 4 over the spectral solver's codes.
    tol : float, optional
        Stop when a sweep lowers what it minimises by less than this share: by default 1e-5 of
        the objective (alternating), 1e-3 of the quantization error (spectral).
    random_state : int, Generator or None

    Attributes
    ----------
    projections_ : dict of str to (n_features, n_components)
        After the view's feature map, if it has one.
    intercepts_ : dict of str to (n_components,)
    codebooks_ : (n_codebooks, codebook_size, n_components)
    objective_ : list of float
        The paper's objective (6) after each sweep, with all its terms.
    lower_bound_ : float
        No codes of this many components can have a lower objective.
    optimality_gap_ : float
        How far the objective is above the bound, as a share of the bound.
    n_iter_ : int
        Sweeps made.
    ridges_ : dict of str to float
        The strength used for each view.
    stats_ : Statistics
        All that is kept of the data.
    label_codes_ : uint8 (n_sets, n_codebooks)
        The codes of the distinct label sets.

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
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, views: Any, labels: Any = None) -> Self:
        """Learn from paired views and labels, in one pass.

        Parameters
        ----------
        views : mapping of str to matrix, MultiViewData, or iterable of MultiViewData
            Items without labels are passed over.
        labels : optional
            With a mapping of views only: a 0/1 matrix, class ids, or sets of names.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A constructor argument is out of range, or the data are of no accepted form.
        LabelError
            Labels are missing or cannot be read.
        ViewError
            Views are not paired, or hold NaN.
        """
        self._check_parameters()
        return self._solve(collect(as_parts(views, labels), self.feature_maps))

    def partial_fit(self, views: Any, labels: Any = None) -> Self:
        """Learn from more items: the result is that of a fit on all items so far.

        Feature maps stay as they were first fitted. Takes and raises what `fit` does.
        """
        if not hasattr(self, "stats_"):
            return self.fit(views, labels)
        self._check_parameters()
        more = collect(as_parts(views, labels), None, self._collected())
        return self._solve(replace(more, statistics=self.stats_ + more.statistics))

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
        self._check_fitted()
        gone = collect(as_parts(views, labels), None, self._collected())
        left = self.stats_ - gone.statistics
        if left.n_items == 0:
            raise InvalidInputError("no item would be left; fit a new model instead")
        return self._solve(replace(gone, statistics=left))

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
        ``model.set_params(similarity="jaccard").fit_stats(model.stats_)``.
        """
        self._check_parameters()
        if isinstance(stats, MappedStatistics) and stats.statistics.n_items > 0:
            return self._solve(stats)
        if not isinstance(stats, Statistics) or stats.n_items == 0:
            raise InvalidInputError("stats must be a Statistics of at least one labelled item")
        if hasattr(self, "stats_") and label_names is None:
            return self._solve(replace(self._collected(), statistics=stats))
        names = label_names or [str(column) for column in range(stats.n_labels)]
        if len(names) != stats.n_labels:
            raise LabelError(f"{len(names)} label names for {stats.n_labels} label columns")
        widths = {name: view.n_features for name, view in stats.views.items()}
        return self._solve(
            MappedStatistics(stats, {}, widths, tuple(map(str, names)), np.dtype(np.float64))
        )

    def _collected(self) -> MappedStatistics:
        return MappedStatistics(
            self.stats_,
            self.feature_maps_,
            self.n_features_in_,
            self.label_names_,
            self.codebooks_.dtype,
        )

    def _solve(self, collected: MappedStatistics) -> Self:
        """Solve for the sums collected and set every fitted attribute, or none."""
        stats = collected.statistics.compact()
        for name, view in stats.views.items():
            if view.n_items == 0:
                raise ViewError(f"no labelled item has view '{name}', so it cannot be learnt")
        widest = max(view.n_features for view in stats.views.values())
        with one_blas_thread() if widest < _WIDE else nullcontext():
            embedding, regressions, solution = self._solve_sums(stats)
        self._keep(collected, stats, embedding, solution)
        self.ridges_ = {name: found.ridge for name, found in regressions.items()}
        return self

    def _solve_sums(
        self, stats: Statistics
    ) -> tuple[LabelEmbedding, dict[str, Regression], Solution]:
        rng = check_rng(self.random_state)
        sets = stats.label_sets.matrix()
        embedding = embed(self.similarity, sets, stats.counts, rng)
        vectors = embedding.transform(sets)
        regressions = {
            name: regress(view, vectors, self.ridge, fit_intercept=self.fit_intercept)
            for name, view in stats.views.items()
        }
        problem = self._pose(stats, sets, vectors, regressions)
        max_iter, tol = (4, 1e-3) if self.solver == "spectral" else (40, 1e-5)
        settings = Settings(
            self.n_components,
            self.n_codebooks,
            self.codebook_size,
            self.codebooks_from,
            max_iter if self.max_iter is None else self.max_iter,
            tol if self.tol is None else self.tol,
        )
        solution = solve(self.solver, problem, stats.views, regressions, settings, rng)
        return embedding, regressions, solution

    def _pose(self, stats: Statistics, sets: Array, vectors: Floats, regressions: Any) -> Problem:
        everyone = (vectors.T * stats.counts) @ vectors
        constant = sum(
            np.sum(((vectors.T * view.counts) @ vectors) * everyone)
            for view in stats.views.values()
        )
        return Problem(
            embeddings=vectors,
            labels=sets.astype(np.float64),
            counts=stats.counts,
            agreement=np.sum([found.agreement for found in regressions.values()], axis=0),
            constant=float(constant),
            label_weight=float(self.label_weight),
            label_ridge=float(self.label_ridge),
        )

    def _keep(
        self,
        collected: MappedStatistics,
        stats: Statistics,
        embedding: LabelEmbedding,
        solution: Solution,
    ) -> None:
        dtype = collected.dtype
        self.stats_ = collected.statistics
        self.feature_maps_ = collected.feature_maps
        self.n_features_in_ = collected.widths
        self.label_names_ = collected.label_names
        self.label_sets_ = stats.label_sets.packed()
        self.label_codes_ = solution.label_codes
        self.landmarks_ = embedding.landmarks
        self.landmark_map_ = embedding.map
        self.query_map_ = solution.query_map
        self.target_map_ = solution.target_map
        self.projections_ = {k: v.astype(dtype) for k, v in solution.projections.items()}
        self.intercepts_ = {k: v.astype(dtype) for k, v in solution.intercepts.items()}
        self.predictors_ = {k: v.coefficients for k, v in solution.predictors.items()}
        self.predictor_intercepts_ = {k: v.intercept for k, v in solution.predictors.items()}
        self.predictor_precisions_ = {k: v.precision for k, v in solution.predictors.items()}
        self.codebooks_ = solution.codebooks.astype(dtype)
        self.code_metric_ = solution.metric
        self.objective_ = solution.objective
        self.lower_bound_ = solution.lower_bound
        self.optimality_gap_ = (solution.objective[-1] - solution.lower_bound) / max(
            abs(solution.lower_bound), np.finfo(float).tiny
        )
        self.n_iter_ = len(solution.objective) - 1

    def project(self, X: Matrix, *, view: str) -> Floats:
        """Turn queries of one view into real vectors.

        Parameters
        ----------
        X : (n_queries, n_features), dense or CSR
        view : str

        Returns
        -------
        (n_queries, n_components)
            float32 where the model was fitted on nothing wider, otherwise float64.

        Raises
        ------
        ViewError
            An unknown view, another width than fitted, or a value that is not finite.
        """
        matrix = self._check_view(X, view)
        out = np.empty((matrix.shape[0], self.codebooks_.shape[2]), self.codebooks_.dtype)
        for rows, block in self._mapped_blocks(matrix, view):
            out[rows] = block @ self.projections_[view] + self.intercepts_[view]
        return out

    def encode(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Array:
        """Turn items into codes, by their labels or by whatever views they have.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), or MultiViewData, optional
            Any of the fitted views, one or several. Several are combined, each weighted by how
            well it predicts.
        labels : optional
            Of any form that `fit` takes. Items with labels are coded by them; a row without
            labels is coded by its views, which must be given then.
        mode : {"learnt", "hashed", "unified"}, optional
            By labels, by one view, or by all views given; as the arguments suggest by default.

        Returns
        -------
        uint8 (n_items, n_codebooks)

        Raises
        ------
        InvalidInputError
            Neither views nor labels are given, or not what the mode needs.
        LabelError
            An item has neither labels nor views.
        ViewError
            An unknown view, views of different lengths, a width that was not fitted, NaN.
        """
        items = self._check_items(views, labels, mode)
        codes = np.empty((items.n_items, self.n_codebooks), dtype=np.uint8)
        for rows, vectors in self._vectors_by_views(items):
            codes[rows] = self._search(vectors)
        rows, sets, numbers = items.labelled(self.label_sets_)
        # A set that was fitted has its code; a new one is coded like any vector.
        known = self.label_codes_
        if len(sets) > len(known):
            known = np.concatenate([known, self._search(self._label_vectors(sets[len(known) :]))])
        codes[rows] = known[numbers]
        return codes

    def embed(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Floats:
        """Return the vectors that `encode` puts into bytes: scores without quantization.

        Takes and raises what `encode` does.

        Returns
        -------
        (n_items, n_components)
        """
        items = self._check_items(views, labels, mode)
        found = np.empty((items.n_items, self.codebooks_.shape[2]), dtype=self.codebooks_.dtype)
        for rows, vectors in self._vectors_by_views(items):
            found[rows] = vectors
        rows, sets, numbers = items.labelled(self.label_sets_)
        if rows.size:
            # Of the sets that were fitted, few may be among these items.
            used, places = np.unique(numbers, return_inverse=True)
            found[rows] = self._label_vectors(sets[used])[places]
        return found

    def _check_items(self, views: Any, labels: Any, mode: DatabaseMode | None) -> Items:
        present: Mapping[str, Array] = {}
        if isinstance(views, MultiViewData):
            views, present = views.views, views.present
        mode = self._check_mode(views, labels, mode)
        if mode == "hashed" and len(views) != 1:
            raise InvalidInputError(f"mode 'hashed' takes one view, got {sorted(views)}")
        if mode == "learnt" and labels is None:
            raise InvalidInputError("give labels, or views as a mapping of names to matrices")
        matrices = {name: self._check_view(X, name) for name, X in (views or {}).items()}
        matrix = self._check_labels(labels) if mode == "learnt" else None
        return Items.of(matrices, present, matrix)

    def _vectors_by_views(self, items: Items) -> Iterator[tuple[Array, Floats]]:
        """Yield the predicted vectors of items without labels, in blocks of rows."""
        predictors = self._predictors()
        for names, rows in items.unlabelled():
            for start in range(0, len(rows), CHUNK_ROWS):
                part = rows[start : start + CHUNK_ROWS]
                yield (
                    part,
                    fuse(
                        {name: self._predict(items.views[name], part, name) for name in names},
                        predictors,
                    ),
                )

    def _label_vectors(self, sets: Array) -> Floats:
        embedding = LabelEmbedding(self.similarity, self.landmarks_, self.landmark_map_)
        return embedding.transform(sets) @ self.target_map_

    def _predict(self, matrix: Matrix, rows: Array, view: str) -> Floats:
        # A slice is a view of the rows; an index array would copy them.
        whole = len(rows) == rows[-1] - rows[0] + 1
        block = matrix[rows[0] : rows[-1] + 1] if whole else matrix[rows]
        mapped = map_features(self.feature_maps_, block, view)
        return np.asarray(mapped @ self.predictors_[view] + self.predictor_intercepts_[view])

    def _predictors(self) -> dict[str, Predictor]:
        return {
            view: Predictor(
                self.predictors_[view],
                self.predictor_intercepts_[view],
                self.predictor_precisions_[view],
            )
            for view in self.predictors_
        }

    def _search(self, targets: Floats) -> Array:
        # In the metric G, the code nearest to a target y minimises b^T G b - 2 b^T (G y).
        return search_codes(
            targets @ self.code_metric_, self.codebooks_, metric=self.code_metric_, n_threads=None
        )

    def decode(self, codes: Array) -> Floats:
        """Return the vectors that codes stand for: the sums of their codewords.

        Parameters
        ----------
        codes : uint8 (n_items, n_codebooks)

        Returns
        -------
        (n_items, n_components)

        Raises
        ------
        InvalidInputError
            Codes of another width, or a word that there is not.
        """
        self._check_fitted()
        codes = np.asarray(codes)
        if (
            codes.ndim != 2
            or codes.shape[1] != len(self.codebooks_)
            or codes.dtype.kind not in "iu"
        ):
            raise InvalidInputError(
                f"codes must be whole numbers of shape (n_items, {len(self.codebooks_)}), got "
                f"{codes.dtype} of shape {codes.shape}"
            )
        if codes.size and not (codes.min() >= 0 and codes.max() < self.codebooks_.shape[1]):
            raise InvalidInputError(f"codes must be 0 to {self.codebooks_.shape[1] - 1}")
        return decode(codes, self.codebooks_)

    def project_codes(self, codes: Array) -> Floats:
        """Turn stored items into query vectors, to find others like them.

        A code vector b stands for the label embedding ``J b``, whose query vector is
        ``J^T J b``. Scores of code vectors themselves would weigh components by their spread.

        Parameters
        ----------
        codes : uint8 (n_items, n_codebooks)

        Returns
        -------
        (n_items, n_components)

        Raises
        ------
        InvalidInputError
            Codes of another width, or a word that there is not.
        """
        metric = (self.query_map_.T @ self.query_map_).astype(self.codebooks_.dtype)
        return np.asarray(self.decode(codes) @ metric)

    @property
    def bytes_per_item(self) -> int:
        """One byte a codebook."""
        return int(self.n_codebooks)


@register(
    name="acqh-paper",
    title="ACQH as in the paper (Algorithm 1, corrected)",
    reference=_REFERENCE,
    year=2020,
    supervised=True,
    code="additive",
    modes=("learnt", "hashed", "unified"),
)
class ACQHPaper(ACQH):
    """ACQH with the paper's own settings: `ACQH` with `paper_settings`.

    Parameters
    ----------
    n_components : int
        The paper's K.
    n_codebooks : int
        The paper's m: bytes an item.
    codebook_size : int
        The paper's n.
    label_weight : float
        The paper's lambda.
    label_ridge : float
        The paper's mu.
    feature_maps : mapping of str to feature map, one feature map, or None
    max_iter : int
        The paper's T.
    tol : float
        Stop when a sweep lowers the objective by less than this share.
    random_state : int, Generator or None

    Examples
    --------
    >>> import acqh
    >>> acqh.methods.get("acqh-paper")(16).similarity
    'dot'
    """

    similarity = "dot"
    solver = "alternating"
    ridge = 0.0
    fit_intercept = False
    codebooks_from = "labels"

    def __init__(
        self,
        n_components: int = 32,
        *,
        n_codebooks: int = 4,
        codebook_size: int = 256,
        label_weight: float = 1e-4,
        label_ridge: float = 1e-2,
        feature_maps: Any = None,
        max_iter: int = 40,
        tol: float = 1e-5,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.n_codebooks = n_codebooks
        self.codebook_size = codebook_size
        self.label_weight = label_weight
        self.label_ridge = label_ridge
        self.feature_maps = feature_maps
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
