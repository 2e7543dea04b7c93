"""ACQH with the paper's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from acqh.methods.acqh._estimator import ACQH, REFERENCE
from acqh.methods.registry import register


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
    """ACQH with the paper's own settings: `ACQH` with `paper_settings`.

    Parameters
    ----------
    n_components : int
        The paper's K.
    n_codebooks : int
        The paper's m: bytes per item.
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

    targets: ClassVar[Mapping[str, float]] = {"labels": 1.0}  # type: ignore[misc]
    similarity: str = field(default="dot", init=False)
    solver: Literal["spectral", "alternating"] = field(default="alternating", init=False)
    ridge: float = field(default=0.0, init=False)
    fit_intercept: bool = field(default=False, init=False)
    codebooks_from: float | Literal["both", "labels", "predictions"] = field(
        default="labels", init=False
    )
    normalize: bool = field(default=False, init=False)
    keep: Literal["needed", "all"] = field(default="needed", init=False)
    sample_size: int = field(default=65_536, init=False)
    max_iter: int = 40
    tol: float = 1e-5
