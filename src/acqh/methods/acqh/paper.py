"""ACQH as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from acqh.methods.acqh.estimator import ACQH, REFERENCE
from acqh.methods.registry import register


@register(
    name="acqh-paper",
    title="ACQH as in the paper (Algorithm 1, corrected)",
    reference=REFERENCE,
    year=2020,
    supervised=True,
    code="additive",
    modes=("learnt", "hashed", "unified"),
)
@dataclass(eq=False, repr=False, kw_only=True)
class ACQHPaper(ACQH):
    """The paper's own method: Algorithm 1, with its errors corrected.

    Similarity ``L L^T``, linear maps without intercept or ridge, a random start, codebooks learnt
    from labels alone.

    Parameters
    ----------
    n_components : int
        The paper's K.
    n_codebooks : int
        The paper's m: bytes per item.
    codebook_size : int
        The paper's n.
    label_weight : float
        The paper's lambda: weight of the label regression.
    label_ridge : float
        The paper's mu: ridge of the label regression.
    feature_maps : mapping of str to feature map, one feature map, or None
    max_iter : int
        The paper's T.
    tol : float
        Stop when a sweep lowers the objective by less than this share.
    random_state : int, Generator or None

    Attributes
    ----------
    objective_ : list of float
        The paper's objective (6) after each sweep, with all its terms.

    Examples
    --------
    >>> import acqh
    >>> acqh.methods.get("acqh-paper")(16).similarity
    'dot'
    """

    targets: ClassVar[Mapping[str, float]] = {"labels": 1.0}  # type: ignore[misc]
    solver: ClassVar[Literal["spectral", "alternating"]] = "alternating"
    fit_intercept: ClassVar[bool] = False
    similarity: str = field(default="dot", init=False)
    label_weight: float = 1e-4
    label_ridge: float = 1e-2
    ridge: float = field(default=0.0, init=False)
    codebooks_from: float | Literal["both", "labels", "predictions"] = field(
        default="labels", init=False
    )
    normalize: bool = field(default=False, init=False)
    keep: Literal["needed", "all"] = field(default="needed", init=False)
    sample_size: int = field(default=65_536, init=False)
    max_iter: int = 40
    tol: float = 1e-5
