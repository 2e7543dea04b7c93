"""Semantic correlation maximisation with all bits at once, and bit by bit."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats
from acqh._core.linalg import whiten
from acqh.methods.baselines.binary import LinearBinaryMethod, linear_functions
from acqh.methods.baselines.directions import (
    limit_bits,
    paired_directions,
    semantic_cross,
)
from acqh.methods.baselines.rows import Rows
from acqh.methods.baselines.training import Training
from acqh.methods.registry import register


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
        rows = data.centred()
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
        rows = data.centred()
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
