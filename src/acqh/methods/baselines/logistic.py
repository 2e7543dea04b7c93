"""Logistic regression of bits: with the kernel of anchors, or linear."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.optimize

from acqh._core.arrays import Floats, Matrix
from acqh._core.linalg import whiten
from acqh.features import RBFAnchors
from acqh.methods.baselines.rows import Rows, dense
from acqh.methods.baselines.training import Training

# Largest entry of the gradient, in the scale where the Hessian is at most one, that is left.
_GRADIENT_TOLERANCE = 1e-3
_MAX_ITER = 500


def fit_logistic(features: Matrix, signs: Floats, penalty: Floats) -> Floats:
    """Fit one logistic regression per bit, all of them to their joint minimum.

    Minimises ``Σ_i log(1 + exp(-y_i f_iᵀw)) + wᵀ penalty w`` for every column y of `signs`.

    Parameters
    ----------
    features : (n_items, n_features), dense or CSR
        Without intercept; append a column of ones to have one.
    signs : (n_items, n_bits)
        Of -1 and 1.
    penalty : (n_features, n_features)
        Symmetric and positive semi-definite: a multiple of the kernel of the anchors for kernel
        logistic regression, of the identity for the linear one.

    Returns
    -------
    (n_features, n_bits) float64

    Notes
    -----
    The sum over bits is minimised at once by L-BFGS, from zero, so that every evaluation is a
    matrix product. Its variables are scaled by the bound ``¼ FᵀF + 2 penalty`` of the Hessian,
    which kernels need: their Gram matrices are close to singular.
    """
    scaling = whiten(0.25 * Rows(features).gram() + 2.0 * penalty)
    shape = (scaling.shape[1], signs.shape[1])
    scaled_penalty = scaling.T @ penalty @ scaling

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        margins = signs * dense(features @ (scaling @ weights))
        shrunk = scaled_penalty @ weights
        losses, slopes = log_loss(margins)
        slopes *= signs
        gradient = scaling.T @ dense(features.T @ slopes) + 2.0 * shrunk
        return float(losses.sum() + np.vdot(weights, shrunk)), gradient.ravel()

    options: dict[str, Any] = {"maxiter": _MAX_ITER, "gtol": _GRADIENT_TOLERANCE, "ftol": 0.0}
    solution = scipy.optimize.minimize(
        loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(scaling @ solution.x.reshape(shape))


def log_loss(margins: Floats) -> tuple[Floats, Floats]:
    """Return ``log(1 + exp(-margin))`` and its derivative, both from one exponential.

    Examples
    --------
    >>> losses, slopes = log_loss(np.array([0.0, -1000.0]))
    >>> losses.round(3), slopes
    (array([6.93e-01, 1.00e+03]), array([-0.5, -1. ]))
    """
    small = np.exp(-np.abs(margins))
    losses = np.log1p(small)
    losses -= np.minimum(margins, 0.0)
    slopes = np.where(margins >= 0.0, -small, -1.0)
    slopes /= 1.0 + small
    return losses, slopes


def fit_logistic_views(
    training: Training, codes: Mapping[str, Floats], strength: float
) -> dict[str, Floats]:
    """Fit the hash functions of all views to their codes, (n_mapped_features, n_bits) each.

    `codes`: each (n_items, n_bits); of -1 and 1, for each view. `strength`: of the
    penalty; see `logistic_penalty`.
    """
    return {
        view: fit_logistic(
            F, codes[view], logistic_penalty(training.feature_maps.get(view), F.shape[1], strength)
        )
        for view, F in training.features.items()
    }


def logistic_penalty(feature_map: Any, n_features: int, strength: float) -> Floats:
    """Return the penalty matrix that belongs to a feature map.

    `n_features`: columns that the map gives. Gives (n_features, n_features); `strength` times the
    kernel of the anchors where the map is the plain kernel ``"rbf_mean"``, times the identity for
    every other map.
    """
    if isinstance(feature_map, RBFAnchors) and feature_map.variant == "rbf_mean":
        return strength * np.asarray(feature_map.transform(feature_map.anchors_), np.float64)
    return strength * np.eye(n_features)
