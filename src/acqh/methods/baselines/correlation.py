"""Methods that hash by directions in which the views agree: CVH, SCM and QCH."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Matrix, unit_rows
from acqh._core.linalg import mean_diagonal, whiten
from acqh.errors import FewerBitsWarning, InvalidInputError
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.rows import Rows, squared_norm
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register

# Covariances below this share of the largest that could be are rounding noise.
ZERO_SHARE = 1e-6


def semantic_cross(left: Rows, right: Rows, labels: Matrix) -> Floats:
    """Return the cross product of two views weighted by label similarity, ``Xᵀ S Y``.

    ``S = 2 L̂ L̂ᵀ - 1 1ᵀ`` with the rows of the labels scaled to norm one. S is never formed:
    both views are centred, so the second term is zero, and the first is a product of totals by
    label.

    `labels`: 0/1 (n_items, n_labels), dense or CSR. Gives (n_left, n_right) float64.
    """
    unit = unit_rows(labels.astype(np.float64))
    return 2.0 * left.transpose_times(unit) @ right.transpose_times(unit).T


def paired_directions(
    whiten_left: Floats, whiten_right: Floats, cross: Floats, *, scale: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Return the pairs of directions that covary, each uncorrelated with the others.

    Maximises ``aᵀ C b`` subject to ``aᵀ G_left a = bᵀ G_right b = 1`` by the singular value
    decomposition of the whitened cross product, which solves
    ``C G_right⁻¹ Cᵀ a = r² G_left a`` together with ``b = G_right⁻¹ Cᵀ a / r``.

    Parameters
    ----------
    whiten_left : (n_left, rank_left)
        From `acqh._core.linalg.whiten`.
    whiten_right : (n_right, rank_right)
    cross : (n_left, n_right)
    scale : float
        The largest covariance that could be: one for pairs, the number of items where each
        meets every other.

    Returns
    -------
    left : (n_left, n_pairs)
    right : (n_right, n_pairs)
    covariances : (n_pairs,)
        Falling; those that are not zero, at most as many as the smaller rank.
    """
    u, covariances, vt = scipy.linalg.svd(
        whiten_left.T @ cross @ whiten_right, full_matrices=False, check_finite=False
    )
    keep = covariances > ZERO_SHARE * scale
    return whiten_left @ u[:, keep], whiten_right @ vt[keep].T, covariances[keep]


def joint_directions(
    grams: Sequence[Floats], coupling: Sequence[Sequence[Floats]], ridge: float, n_directions: int
) -> tuple[list[Floats], Floats]:
    """Return the directions of largest coupling over any number of views.

    Maximises ``sum_uv a_uᵀ M_uv a_v`` subject to ``sum_v a_vᵀ (G_v + ridge I) a_v = 1`` and to
    being uncorrelated with the directions before: the generalised symmetric eigenproblem of the
    block matrix M and the block diagonal G, within what each G_v spans.

    Parameters
    ----------
    grams : sequence of (n_v, n_v)
    coupling : sequence of sequences of (n_u, n_v)
        Symmetric as one block matrix.
    ridge : float
    n_directions : int

    Returns
    -------
    directions : list of (n_v, n_found)
        Of each view; no more than the smallest rank of a view.
    couplings : (n_found,)
        Falling.
    """
    whiteners = [whiten(gram, ridge) for gram in grams]
    ranks = [white.shape[1] for white in whiteners]
    whitened = np.block(
        [
            [left.T @ block @ right for right, block in zip(whiteners, row, strict=True)]
            for left, row in zip(whiteners, coupling, strict=True)
        ]
    )
    n_found = min(n_directions, *ranks)
    if n_found == 0:
        return [white[:, :0] for white in whiteners], np.zeros(0)
    last = len(whitened) - 1
    values, vectors = scipy.linalg.eigh(
        whitened, subset_by_index=(last - n_found + 1, last), check_finite=False
    )
    values, vectors = values[::-1], vectors[:, ::-1]
    parts = np.split(vectors, np.cumsum(ranks)[:-1])
    return [white @ part for white, part in zip(whiteners, parts, strict=True)], values


def limit_bits(n_bits: int, n_directions: int, method: str) -> int:
    """Return how many bits the data carry; warn where that is fewer than were asked for.

    Raises InvalidInputError: they carry none.
    """
    if n_directions == 0:
        raise InvalidInputError(
            f"{method} finds no direction in which the views agree; are they paired by row?"
        )
    if n_directions < n_bits:
        warnings.warn(
            f"{method} finds {n_directions} directions in which the views agree, so codes have "
            f"{n_directions} bits, not {n_bits}; kernel features (feature_maps='rbf_mean2') give "
            "more",
            FewerBitsWarning,
            stacklevel=3,
        )
    return min(n_bits, n_directions)


def couple_pairs(views: Sequence[Rows]) -> list[list[Floats]]:
    """Return the coupling of the identity graph: every item is like its own other views only.

    The off-diagonal blocks are the cross products of the views; the diagonal is zero, so that
    for two views the directions are those of canonical correlation analysis.
    """
    blocks: list[list[Floats]] = [[left.cross(right) for right in views] for left in views]
    for v in range(len(views)):
        blocks[v][v] = np.zeros_like(blocks[v][v])
    return blocks


@register(name="cvh")
@dataclass(eq=False, repr=False, kw_only=True)
class CVH(LinearBinaryMethod):
    """Cross-view hashing: the directions in which the views agree best.

    Minimises the distance between the projections of an item's views, which is one generalised
    eigenproblem; for two views it is canonical correlation analysis. There are no more bits than
    directions that all views span: a warning says so where more are asked for.

    Directions that the training features do not span are dropped; the paper does not mention
    them.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    ridge : float
        Added to the diagonal of each view's Gram matrix.

    Attributes
    ----------
    couplings_ : (n_bits,)
        The eigenvalues; of two views, the canonical correlations.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("cvh")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, None)
    ridge: float = 1e-4

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.rows(centre=True)
        view_rows = list(rows.values())
        directions, couplings = joint_directions(
            [view.gram() for view in view_rows], couple_pairs(view_rows), self.ridge, self.n_bits
        )
        couplings = couplings[couplings > ZERO_SHARE]
        n_bits = limit_bits(self.n_bits, len(couplings), self.info.name)
        projections = {
            view: matrix[:, :n_bits] for view, matrix in zip(rows, directions, strict=True)
        }
        return {**linear_functions(projections, rows=rows), "couplings_": couplings[:n_bits]}


@register(name="scm-orth")
@dataclass(eq=False, repr=False, kw_only=True)
class SCMOrth(LinearBinaryMethod):
    """Semantic correlation maximisation with all bits at once.

    Canonical correlation analysis in which every image meets every text, weighted by the
    cosine of their labels: ``Xᵀ S Y`` in place of ``Xᵀ Y``, with ``S = 2 L Lᵀ - 1 1^T`` and
    unit rows of L. There are no more bits than directions that covary: a warning says so where
    more are asked for, and later bits carry less information than earlier ones.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    ridge : float
        Added to the diagonal of each view's Gram matrix.

    Attributes
    ----------
    covariances_ : (n_bits,)
        Of the two views' projections, weighted by label similarity.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("scm-orth")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, 2)
    ridge: float = 1e-6

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.rows(centre=True)
        x, y = rows.values()
        *directions, covariances = paired_directions(
            whiten(x.gram(), self.ridge),
            whiten(y.gram(), self.ridge),
            semantic_cross(x, y, data.labels),
            scale=data.n_items,
        )
        n_bits = limit_bits(self.n_bits, len(covariances), self.info.name)
        projections = {
            view: matrix[:, :n_bits] for view, matrix in zip(rows, directions, strict=True)
        }
        return {**linear_functions(projections, rows=rows), "covariances_": covariances[:n_bits]}


def leading_pair(matrix: Floats) -> tuple[Floats, Floats, float]:
    """Return the first left and right singular vectors and the first singular value.

    Computes only the last eigenvector of the smaller Gram matrix.
    """
    if matrix.shape[0] > matrix.shape[1]:
        right, left, value = leading_pair(matrix.T)
        return left, right, value
    last = len(matrix) - 1
    _, vectors = scipy.linalg.eigh(
        matrix @ matrix.T, subset_by_index=(last, last), check_finite=False
    )
    left = vectors[:, 0]
    image = left @ matrix
    value = float(np.linalg.norm(image))
    return left, image / max(value, np.finfo(float).tiny), value


def learn_bits(
    white: tuple[Floats, Floats],
    rows: tuple[Rows, Rows],
    cross: Floats,
    n_bits: int,
    *,
    until_rise: bool,
) -> tuple[list[Floats], list[Floats]]:
    """Return projections of two views, each bit fitted to what the bits before it left.

    Approximates ``n_bits S`` by ``sgn(X A) sgn(Y B)ᵀ`` as far as the views see it: bit k takes
    the pair of directions of largest covariance under the residual
    ``n_bits Xᵀ S Y - Σ_{j<k} (Xᵀ u_j) (Yᵀ v_j)ᵀ``, and its signs u and v are subtracted next.

    Parameters
    ----------
    white : two of (n_features, rank)
        What whitens the views.
    rows : two of Rows
    cross : (n_x, n_y)
        ``Xᵀ S Y``.
    n_bits : int
    until_rise : bool
        Stop before the first bit whose covariance is above that of the bit before.

    Returns
    -------
    two of list of (n_features,)
        One entry per bit.
    """
    residual = n_bits * (white[0].T @ cross @ white[1])
    directions: tuple[list[Floats], list[Floats]] = ([], [])
    last = np.inf
    for _ in range(n_bits):
        *pair, covariance = leading_pair(residual)
        if until_rise and covariance > last:
            break
        last = covariance
        agreed = []
        for view in (0, 1):
            direction = white[view] @ pair[view]
            signs = np.where(rows[view].times(direction) >= 0, 1.0, -1.0)
            agreed.append(white[view].T @ rows[view].transpose_times(signs))
            directions[view].append(direction)
        residual = residual - np.outer(*agreed)
    return directions


@register(name="scm-seq")
@dataclass(eq=False, repr=False, kw_only=True)
class SCMSeq(LinearBinaryMethod):
    """Semantic correlation maximisation bit by bit.

    Makes the agreement of an image's and a text's bits follow the cosine of their labels,
    ``S = 2 L̂ L̂ᵀ - 1 1ᵀ``: each bit is the pair of directions that fits best what the signs of
    the bits before it left of S. There is nothing to tune, and more bits than features are
    possible.

    Parameters
    ----------
    n_bits : int
        K in formulas.
    feature_maps : mapping of str to feature map, feature map, or None
        For some views or, not as a mapping, for all of them.
    random_state : int, Generator, SeedSequence or None
        Draws all that is random: where learning starts, anchors, and the seeds of feature maps
        that have none of their own.
    ridge : float
        Added to the diagonal of each view's Gram matrix.
    stop_at_rise : bool
        Stop before the first bit that covaries more than the bit before it, and fill up with
        the canonical directions of the pairs, without labels, as the public code does. There may
        be fewer of those than bits left to fill: a warning says so. False: no end before the
        last bit, which gives the results published elsewhere.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("scm-seq")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, 2)
    ridge: float = 1e-6
    stop_at_rise: bool = True

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.rows(centre=True)
        x, y = rows.values()
        white = whiten(x.gram(), self.ridge), whiten(y.gram(), self.ridge)
        cross = semantic_cross(x, y, data.labels)
        # Nothing can be fitted where no direction of one view covaries with one of the other.
        *_, covariances = paired_directions(*white, cross, scale=data.n_items)
        limit_bits(1, len(covariances), self.info.name)
        columns = learn_bits(white, (x, y), cross, self.n_bits, until_rise=self.stop_at_rise)
        if len(columns[0]) < self.n_bits:
            *canonical, correlations = paired_directions(*white, x.cross(y))
            limit_bits(self.n_bits, len(columns[0]) + len(correlations), self.info.name)
            for bits, directions in zip(columns, canonical, strict=True):
                bits.extend(directions.T[: self.n_bits - len(bits)])
        functions = {view: np.stack(bits, axis=1) for view, bits in zip(rows, columns, strict=True)}
        return linear_functions(functions, rows=rows)


# Directions with less than this share of the mean variance are dropped, not whitened.
_VARIANCE_FLOOR = 1e-6


def update_rotation(Z: Floats, B: Floats, pull: Floats, correlation_weight: float) -> Floats:
    """Minimise ``||B - Z W||² - 2 λ tr(Wᵀ pull)`` over W with orthonormal columns.

    Exact, because ``||Z W||²`` does not depend on W where ``Zᵀ Z`` is a multiple of the
    identity: what is left is ``tr(Wᵀ (Zᵀ B + λ pull))``, largest at the polar factor.

    Parameters
    ----------
    Z : (n_items, n_features)
        Whitened.
    B : (n_items, n_bits)
    pull : (n_features, n_bits)
        The correlation's share: ``G W`` of the other view.
    correlation_weight : float
        λ.
    """
    u, _, vt = scipy.linalg.svd(
        Z.T @ B + correlation_weight * pull, full_matrices=False, check_finite=False
    )
    return np.asarray(u @ vt)


def qch_objective(
    Z: Sequence[Floats],
    W: Sequence[Floats],
    B: Sequence[Floats],
    G: Floats,
    correlation_weight: float,
) -> float:
    """Return ``Σ_v ||B_v - Z_v W_v||² - 2 λ tr(W_xᵀ G W_y)``."""
    loss = sum(squared_norm(b - z @ w) for z, w, b in zip(Z, W, B, strict=True))
    return loss - 2.0 * correlation_weight * float(np.sum(W[0] * (G @ W[1])))


@register(name="qch")
@dataclass(eq=False, repr=False, kw_only=True)
class QCH(LinearBinaryMethod):
    """Projections that correlate across views and lie close to their signs within each.

    Minimises ``Σ_v ||B_v - Z_v W_v||² - 2 λ tr(W_xᵀ G W_y)`` over signs B_v and orthonormal
    W_v, where Z_v is a view centred and whitened, ``G = Z_xᵀ S Z_y / N`` and
    ``S = 2 L̂ L̂ᵀ - 1 1ᵀ`` is the cosine of labels. There are no more bits than directions that
    G connects, at most one per label: a warning says so where more are asked for.

    The qch_objective is our reconstruction from the paper's description: it jointly minimises the
    quantisation loss of each view and maximises the correlation of the codes across views.

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
    correlation_weight : float
        λ.
    max_iter : int
        Sweeps over B and W.

    Examples
    --------
    >>> import acqh
    >>> data = acqh.make_multiview(200, n_labels=4, random_state=0)
    >>> method = acqh.methods.get("qch")(3, random_state=0).fit(data.views, data.labels)
    >>> method.hash(data.views["image"], view="image").shape
    (200, 1)
    """

    view_range: ClassVar = (2, 2)
    feature_maps: Any = "rbf_mean2"
    n_anchors: int = 300
    correlation_weight: float = 10.0
    max_iter: int = 30

    def _learn(self, data: Training) -> dict[str, Any]:
        rows = data.rows(centre=True)
        x, y = rows.values()
        white_x, white_y = _whiten_to_unit_variance(x), _whiten_to_unit_variance(y)
        Z = [x.times(white_x), y.times(white_y)]
        # Every Z has N times the identity as Gram matrix, so G is at most N.
        G = white_x.T @ semantic_cross(x, y, data.labels) @ white_y / data.n_items
        *W, covariances = paired_directions(np.eye(len(G)), np.eye(len(G.T)), G, scale=data.n_items)
        n_bits = limit_bits(self.n_bits, len(covariances), self.info.name)
        W = [matrix[:, :n_bits] for matrix in W]
        history = []
        for _ in range(self.max_iter):
            B = [np.where(z @ w >= 0, 1.0, -1.0) for z, w in zip(Z, W, strict=True)]
            W[0] = update_rotation(Z[0], B[0], G @ W[1], self.correlation_weight)
            W[1] = update_rotation(Z[1], B[1], G.T @ W[0], self.correlation_weight)
            history.append(qch_objective(Z, W, B, G, self.correlation_weight))
        functions = dict(zip(rows, (white_x @ W[0], white_y @ W[1]), strict=True))
        return linear_functions(functions, rows=rows, history=history)


def _whiten_to_unit_variance(rows: Rows) -> Floats:
    gram = rows.gram()
    white = whiten(gram, floor=_VARIANCE_FLOOR * mean_diagonal(gram))
    return np.asarray(np.sqrt(rows.n_items) * white)
