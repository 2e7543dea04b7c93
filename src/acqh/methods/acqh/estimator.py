"""The estimator: its parameters, and what they may be."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from acqh._core.runtime import RandomState
from acqh._core.validation import Interval, StrOptions
from acqh.methods.acqh.learning import LearningMethod
from acqh.methods.acqh.similarity import SIMILARITIES, Similarity
from acqh.methods.constraints import CONSTRAINTS, COUNT, NOT_NEGATIVE
from acqh.methods.registry import register
from acqh.methods.target import Target

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
@dataclass(eq=False, repr=False)
class ACQH(LearningMethod):
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
    ridge : float or "auto"
        Strength of the penalty on the maps from features, relative to the mean diagonal of
        the Gram matrix; no intercept is penalised. ``"auto"`` chooses one per view by generalised
        cross-validation, with other targets than labels alone by the error on rows of the sample
        left out in turn.
    feature_maps : mapping of str to feature map, one feature map, or None
        For some views, or for all; fitted on the training rows (of an iterable, on its first
        chunk). Any scikit-learn transformer, or a name of `acqh.features`, such as ``"kernel"``
        for kernel ridge regression (`acqh.features.KernelMap`).
    codebooks_from : float or {"both", "labels", "predictions"}
        What codebooks are learnt from: the share of the code vectors of
        items as they are known (with labels alone, of label sets), from 0 to 1; the rest are those
        that will be predicted for items of which only one view is known (without labels).
        ``"labels"`` stands for 1, ``"predictions"`` for 0, ``"both"`` for a half.
    targets : mapping of str to float or Target, optional
        What scores should be: weights of ``"labels"`` and of views, or `acqh.Target`. By default
        labels where they are given, otherwise the content of all views, with weights under which
        an item's views agree on what is similar. A target may be a view that is there for training
        only: a teacher.
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
        After each sweep: with labels alone, the squared error of all similarities, the first term
        of the paper's objective (6); otherwise the mean squared error of item vectors in the metric
        of queries.
    lower_bound_ : float
        No codes of this many components can have a lower objective.
    optimality_gap_ : float
        How far the objective is above the bound, as a share of the bound; where that is zero but
        for rounding, of the objective of codes that are all zero.
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
        **CONSTRAINTS,
        "n_components": COUNT,
        "n_codebooks": [Interval(Integral, 1, 16, closed="both")],
        "similarity": [StrOptions(set(SIMILARITIES)), callable],
        "ridge": [*NOT_NEGATIVE, StrOptions({"auto"})],
        "codebooks_from": [
            Interval(Real, 0, 1, closed="both"),
            StrOptions({"both", "labels", "predictions"}),
        ],
        "normalize": ["boolean", None],
        "keep": [StrOptions({"needed", "all"})],
        "sample_size": COUNT,
    }

    n_components: int = 32
    _: KW_ONLY
    n_codebooks: int = 4
    codebook_size: int = 256
    similarity: str | Similarity = "shared"
    ridge: float | Literal["auto"] = "auto"
    feature_maps: Any = None
    codebooks_from: float | Literal["both", "labels", "predictions"] = "both"
    targets: Mapping[str, float | Target] | None = None
    normalize: bool | None = None
    keep: Literal["needed", "all"] = "needed"
    sample_size: int = 65_536
    random_state: RandomState = None
