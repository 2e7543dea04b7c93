"""Targets as vectors: one block of numbers for every target, and where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from acqh._core.arrays import Floats, Matrix
from acqh._core.device import EigenForm
from acqh._core.linalg import RANK_TOLERANCE, Tridiagonal, fix_signs
from acqh.methods.acqh.predictions import Predictor, Vote
from acqh.methods.target import Target
from acqh.stats import Regression

# More principal directions than this have never changed a figure.
MAX_RANK = 256
# No direction of a prediction is trusted more than this much over knowing nothing.
_LEAST_ERROR = 1e-6


@dataclass(frozen=True)
class Block:
    """The vectors of one target; the inner products of two of them are their similarity."""

    target: Target  # with the rank that was used
    # The view that gives the vectors exactly, or ``"labels"``; empty where nothing does.
    source: str
    # (n_features, rank): from the features of the source, of unit length for a cosine, to vectors.
    map: Floats
    offset: Floats  # (rank,): added
    mean: Floats  # (rank,): over all items that have the target
    spread: Floats  # (rank, rank): symmetric root of their covariance

    @property
    def rank(self) -> int:
        """Length of the vectors."""
        return int(self.map.shape[1])

    @property
    def is_unit(self) -> bool:
        """Whether the features are scaled to unit length first."""
        return self.target.similarity == "cosine"

    def transform(self, features: Matrix) -> Floats:
        """Return the vectors of rows of the source's features."""
        return np.asarray(features @ self.map + self.offset)


def make_block(
    source: str,
    target: Target,
    gram: Floats,
    sums: Floats,
    n_items: float,
    *,
    form: Tridiagonal | EigenForm | None = None,
) -> Block:
    """Return the vectors of a target: features on their leading principal directions.

    `gram`: (n_features, n_features); ``X^T X`` over all items that have it. `sums`: (n_features,);
    sum of the rows. `form`: of the Gram matrix of centred features, where it is known already.

    Notes
    -----
    Scaled to a mean squared length of one, so that weights of targets can be compared. Features
    that are all the same have nothing to tell: one direction, of zeros, is kept.
    """
    mean = sums / n_items
    is_centred = source != "labels" and target.similarity == "content"
    centre = mean if is_centred else np.zeros_like(mean)
    if form is None or not is_centred:
        form = Tridiagonal.of(gram - n_items * np.outer(centre, centre))
    values, directions = form.leading(target.rank or MAX_RANK)
    keep = values > RANK_TOLERANCE * max(values[0], np.finfo(float).tiny)
    keep[0] = True
    values, directions = values[keep], fix_signs(directions[:, keep])
    energy = float(np.sum(values)) / n_items
    scale = 1.0 / np.sqrt(energy) if energy > 0 else 0.0
    mapped = directions * scale
    offset = -centre @ mapped
    middle = mean @ mapped + offset
    if is_centred:
        # In principal directions the covariance is diagonal.
        spread = np.diag(_roots(values * scale**2 / n_items))
    else:
        covariance = mapped.T @ gram @ mapped / n_items - np.outer(mean @ mapped, mean @ mapped)
        powers, vectors = scipy.linalg.eigh((covariance + covariance.T) / 2.0, check_finite=False)
        spread = np.asarray((vectors * _roots(powers)) @ vectors.T)
    return Block(replace(target, rank=mapped.shape[1]), source, mapped, offset, middle, spread)


def _roots(values: Floats) -> Floats:
    """Return the roots of variances; directions without spread get a little."""
    return np.sqrt(np.maximum(values, RANK_TOLERANCE * max(values.max(), 0.0) or 1.0))


def block_predictor(block: Block, learnt: Regression) -> Predictor:
    """Return the prediction of a block, with its precision in units of the block's own spread.

    There, knowing nothing is the identity; no prediction has less precision than that.
    """
    white = np.linalg.solve(block.spread, np.linalg.solve(block.spread, learnt.residual).T)
    values, vectors = scipy.linalg.eigh((white + white.T) / 2.0, check_finite=False)
    values = np.clip(values, _LEAST_ERROR, 1.0)
    precision = np.asarray((vectors / values) @ vectors.T)
    return Predictor(learnt.coefficients, learnt.intercept, precision, learnt.ridge)


def fuse_predictions(block: Block, votes: Sequence[Vote]) -> Floats:
    """Combine what several sources predict of one block.

    Sources are taken to be independent but for the block itself, so their precisions add up,
    and what is known without any, the mean and covariance of the block, must count once:

        mean + (C^-1 + sum_s (R_s^-1 - C^-1))^-1 sum_s R_s^-1 (y_s - mean)

    A source that cannot predict has R = C and says y = mean: it changes nothing.
    """
    if len(votes) == 1:
        return votes[0][1]
    identity = np.eye(block.rank)
    total = identity + np.sum([found.precision - identity for found, _ in votes], axis=0)
    pulled = np.zeros_like(votes[0][1], dtype=np.float64)
    for found, points in votes:
        pulled += np.linalg.solve(block.spread, (points - block.mean).T).T @ found.precision
    return np.asarray(block.mean + np.linalg.solve(total, pulled.T).T @ block.spread)
