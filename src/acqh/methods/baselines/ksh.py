"""Kernel-based supervised hashing of one view, its codes predicted from the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import whiten
from acqh.errors import InvalidInputError
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.rows import Rows, dense
from acqh.methods.baselines.training import Training, choose_view
from acqh.methods.registry import register
from acqh.stats.moments import LabelSets

# Added to the diagonal of the kernel's Gram matrix.
_GRAM_RIDGE = 1e-8


@dataclass(frozen=True)
class Residual:
    """Residual of ``n_bits S`` after the bits so far, in parts: ``n_bits G P Gᵀ - Y Yᵀ``.

    S is one where two items share a label and minus one elsewhere, which depends on their label
    sets alone.
    """

    members: Matrix  # (n_items, n_sets) CSR: G: which label set an item has
    # (n_sets, n_sets): ``n_bits P``: of label sets, of plus and minus ``n_bits``.
    similarity: Floats
    signs: Floats  # (n_items, n_learnt): Y: the bits so far

    @classmethod
    def of(cls, labels: Matrix, n_bits: int) -> "Residual":
        """Return the whole of ``n_bits S``, before the first bit."""
        sets = LabelSets(labels.shape[1])
        numbers = sets.number(labels)
        n_items = len(numbers)
        members = sp.csr_array(
            (np.ones(n_items), (np.arange(n_items), numbers)), shape=(n_items, len(sets))
        )
        distinct = sets.matrix().astype(np.float64)
        similarity = np.where(distinct @ distinct.T > 0, 1.0, -1.0)
        return cls(members, n_bits * similarity, np.zeros((n_items, 0)))

    def __matmul__(self, right: Floats) -> Floats:
        """Return the residual times (n_items, k) or (n_items,)."""
        product = self.members @ (self.similarity @ (self.members.T @ right))
        return np.asarray(product - self.signs @ (self.signs.T @ right))

    def less(self, signs: Floats) -> "Residual":
        """Return what is left after one more bit, (n_items,)."""
        return Residual(self.members, self.similarity, np.column_stack([self.signs, signs]))


def start_bit(features: Floats, residual: Residual) -> Floats:
    """Maximise ``wᵀ Fᵀ R F w`` over w of squared norm N: the bit without its sign.

    Parameters
    ----------
    features : (n_items, n_features)
        F, whitened: ``Fᵀ F`` is the identity.
    residual : Residual
        R.
    """
    quadratic = features.T @ (residual @ features)
    last = len(quadratic) - 1
    _, vectors = scipy.linalg.eigh(quadratic, subset_by_index=(last, last), check_finite=False)
    return np.asarray(np.sqrt(len(features)) * vectors[:, 0])


def smooth_loss(w: Floats, features: Floats, residual: Residual) -> tuple[float, Floats]:
    """Return ``-φᵀ R φ`` for ``φ = 2 σ(F w) - 1`` in place of signs, and its gradient.

    The gradient is ``-Fᵀ ((R φ) ⊙ (1 - φ²))``: the derivative of φ is ``(1 - φ²) / 2``.
    """
    phi = np.tanh(features @ w / 2.0)
    image = residual @ phi
    return -float(phi @ image), -features.T @ (image * (1.0 - phi**2))


def learn_bit(features: Floats, residual: Residual, max_iter: int) -> tuple[Floats, Floats]:
    """Return the weights of one bit and its signs: the better of the start and its refinement."""
    start = start_bit(features, residual)
    solution = scipy.optimize.minimize(
        smooth_loss,
        start,
        args=(features, residual),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter},
    )
    candidates = [(w, np.where(features @ w >= 0, 1.0, -1.0)) for w in (solution.x, start)]
    return max(candidates, key=lambda candidate: float(candidate[1] @ (residual @ candidate[1])))


@register(name="ksh")
@dataclass(eq=False, repr=False, kw_only=True)
class KSH(LinearBinaryMethod):
    """Bits of one view whose agreement tells whether items share a label.

    Learns bits of one view, each from what the bits before leave of
    ``||(1/K) H Hᵀ - S||²``, where S is one for items that share a label and minus one
    elsewhere. The method is for a single view; as an extension, hash functions of
    the other views are regressed on the codes of that one.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    n_anchors : int
        Anchors of a feature map that is given by the name of an RBF variant.
    base_view : str, optional
        The view whose bits are learnt; by default the last one given.
    n_labelled : int
        Training items whose labels are used, drawn at random where there are more.
    feature_ridge : float
        Penalty of the regression from the other views.
    max_iter : int
        Quasi-Newton steps per bit.

    Attributes
    ----------
    training_codes_ : uint8 (n_train, ceil(n_bits / 8))
        Of the base view.
    base_view_ : str

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> model = acqh.methods.get("ksh")(8, base_view="text", random_state=0)
    >>> model.fit(data.views, data.labels).hash(data.views["image"], view="image").shape
    (200, 1)
    """

    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 300
    base_view: str | None = None
    n_labelled: int = 1000
    feature_ridge: float = 0.01
    max_iter: int = 500

    def _learn(self, data: Training) -> dict[str, Any]:
        base = choose_view("base_view", self.base_view, data.features, -1)
        n_labelled = min(self.n_labelled, data.n_items)
        chosen = np.sort(data.rng.choice(data.n_items, n_labelled, replace=False))
        kernel = data.features[base][chosen]
        white = whiten(Rows(kernel).gram(), _GRAM_RIDGE)
        if white.shape[1] == 0:
            raise InvalidInputError(f"all features of view {base!r} are zero or constant")
        whitened = dense(kernel @ white)
        residual = Residual.of(data.labels[chosen], self.n_bits)
        weights = []
        for _ in range(self.n_bits):
            w, signs = learn_bit(whitened, residual, self.max_iter)
            residual = residual.less(signs)
            weights.append(w)
        projection = white @ np.stack(weights, axis=1)
        B = np.where(dense(data.features[base] @ projection) >= 0, 1.0, -1.0)
        projections = {
            view: projection if view == base else Rows(features).ridge(self.feature_ridge)(B)
            for view, features in data.features.items()
        }
        return {**linear_functions(projections, codes=B), "base_view_": base}
