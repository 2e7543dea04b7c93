"""Training: codebooks and codes in turn, no step worse than the one before."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh._core.device import to_tensor
from acqh._core.imports import require
from acqh.quantize.code_search import Search, search_codes
from acqh.quantize.codebooks import decode, improve_codebooks, quantization_errors
from acqh.quantize.kmeans import weighted_kmeans

# Sweeps after each new codebook but the last. Without them the error of label targets in four
# codebooks ends hundreds of times higher; with one instead of two it ends twice as high.
_GROWTH_SWEEPS = 2
# Codebooks after this one find so little error left that the sweeps at the end are enough.
_GROWN = 4
# Lloyd's steps on a new codebook: sweeps soon forget what more of them gain.
_LLOYD_STEPS = 2
# Below this share of the targets' spread no answer changes any more, and codebooks that are still
# to come are added without sweeps.
_FINE = 1e-6
# Errors below these shares of the targets' spread (eight digits are right) and of their energy
# (rounding, which is all there is if the targets are equal) count as none.
_NEGLIGIBLE_SPREAD = 1e-16
_NEGLIGIBLE_ENERGY = 1e-30


@dataclass(frozen=True)
class QuantizerFit:
    """What training gives.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) float64
    codes : (n_items, n_codebooks) uint8
        Of the targets trained on.
    history : (n_steps,) float64
        Weighted error after each codebook that was added and each sweep; never rises.
    ridge : float
        That sweeps held words by.
    """

    codebooks: Floats
    codes: Ints
    history: Floats
    ridge: float = 0.0


def fit_codebooks(
    targets: Floats,
    weights: Floats,
    n_codebooks: int,
    codebook_size: int,
    *,
    search: Search = "beam+icm",
    beam_width: int = 4,
    max_iter: int = 10,
    tol: float = 1e-3,
    rng: np.random.Generator,
    n_threads: int | None = None,
    callback: Callable[[Floats, Ints], None] | None = None,
    device: Any = None,
    is_quick: bool = False,
) -> QuantizerFit:
    """Learn codebooks and codes that make the weighted error of the targets small.

    Codebooks are added one by one, each by weighted k-means of what is left over; after each,
    all codebooks so far are improved together in sweeps. A sweep refills words that no item uses,
    moves the codebooks towards least squares, and searches the codes.

    Parameters
    ----------
    targets : (n_items, n_components)
        Finite.
    weights : (n_items,)
        Not negative, some positive. A target of weight w counts as w copies of it.
    n_codebooks : int
    codebook_size : int
        At most 256.
    search, beam_width, n_threads
        How codes are searched; see `search_codes`.
    max_iter : int, default 10
        Sweeps over all codebooks at most; a budget, so running out of it is not a failure.
    tol : float, default 1e-3
        Stop when a sweep lowers the error by no more than this share of it.
    rng : Generator
        Draws the seeds of k-means.
    callback : callable, optional
        Called with codebooks and codes after each step of the history; those of codebooks not
        yet added are zero. Both arrays change with the next step.
    device : torch device, optional
        Where codes are searched, if it is a CUDA device; the rest is quickest on the host.
    is_quick : bool
        Of `weighted_kmeans`.

    Returns
    -------
    QuantizerFit

    Notes
    -----
    Codebooks that are not needed, since no error is left without them, are zero.

    Examples
    --------
    >>> targets = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> fit = fit_codebooks(targets, np.ones(4), 2, 2, rng=np.random.default_rng(0))
    >>> decode(fit.codes, fit.codebooks).round(6)
    array([[0.],
           [1.],
           [8.],
           [9.]])
    """
    targets = np.ascontiguousarray(targets, dtype=np.float64)
    codebooks = np.zeros((n_codebooks, codebook_size, targets.shape[1]))
    codes = np.zeros((len(targets), n_codebooks), dtype=np.uint8)

    is_cuda = getattr(device, "type", "") == "cuda"
    on_device = to_tensor(targets, device) if is_cuda else None

    def sweep(codebooks: Floats, codes: Ints) -> tuple[Floats, Ints]:
        codebooks, codes = refill_unused_words(targets, weights, codes, codebooks)
        codebooks = improve_codebooks(targets, weights, codes, codebooks)
        # Single precision is quicker; which code is better is judged in float64.
        how: dict[str, Any] = {"search": search, "beam_width": beam_width}
        if on_device is not None:
            words, start = (to_tensor(it, device) for it in (codebooks, codes))
            single = require("torch").float32
            found: Any = search_codes(on_device, words, start=start, dtype=single, **how)
            return codebooks, found.cpu().numpy()
        codes = search_codes(
            targets, codebooks, start=codes, dtype=np.float32, n_threads=n_threads, **how
        )
        return codebooks, codes

    history = []
    cluster = partial(weighted_kmeans, max_iter=_LLOYD_STEPS, is_quick=is_quick)
    for error in _steps(targets, weights, codebooks, codes, cluster, sweep, max_iter, tol, rng):
        history.append(error)
        if callback is not None:
            callback(codebooks, codes)
    return QuantizerFit(codebooks, codes, np.array(history))


def _steps(
    targets: Floats,
    weights: Floats,
    codebooks: Floats,
    codes: Ints,
    cluster: Callable[[Floats, Floats, int, np.random.Generator], tuple[Floats, Ints]],
    sweep: Callable[[Floats, Ints], tuple[Floats, Ints]],
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
) -> Iterator[float]:
    """Fill codebooks and codes, all zero at first, step by step; yield the error after each."""
    n_codebooks, n_words, _ = codebooks.shape
    error = float(weights @ quantization_errors(targets, codes, codebooks))
    spread = weights @ np.square(targets - np.average(targets, axis=0, weights=weights)).sum(axis=1)
    fine = _FINE * spread
    negligible = _NEGLIGIBLE_SPREAD * spread + _NEGLIGIBLE_ENERGY * error
    for s in range(n_codebooks):
        residuals = targets - decode(codes, codebooks)
        codebooks[s], codes[:, s] = cluster(residuals, weights, n_words, rng)
        new_error = float(weights @ quantization_errors(targets, codes, codebooks))
        if new_error < error:
            error = new_error
        else:  # nothing left to add but rounding
            codebooks[s], codes[:, s] = 0, 0
        yield error
        last = s == n_codebooks - 1
        for _ in range(max_iter if last else _GROWTH_SWEEPS if s < _GROWN else 0):
            if error <= fine:
                break
            new_codebooks, new_codes = sweep(codebooks[: s + 1], codes[:, : s + 1])
            new_error = float(weights @ quantization_errors(targets, new_codes, new_codebooks))
            gain = error - new_error
            if gain <= 0:
                break
            codebooks[: s + 1], codes[:, : s + 1] = new_codebooks, new_codes
            share, error = gain / error, new_error
            yield error
            if share <= tol or error <= negligible:
                break
        if error <= negligible:
            return


def refill_unused_words(
    targets: Floats, weights: Floats, codes: Ints, codebooks: Floats
) -> tuple[Floats, Ints]:
    """Give words that no weight uses to the targets with the largest weighted errors.

    Each such target, another for each word, gets the word that makes its error zero.

    Parameters
    ----------
    targets : (n_items, n_components)
    weights : (n_items,)
    codes : (n_items, n_codebooks) uint8
    codebooks : (n_codebooks, codebook_size, n_components)

    Returns
    -------
    codebooks : (n_codebooks, codebook_size, n_components)
    codes : (n_items, n_codebooks) uint8
        Words that are still unused once every error is zero keep their value.
    """
    codebooks, codes = codebooks.copy(), codes.copy()
    for s in range(len(codebooks)):
        mass = np.bincount(codes[:, s], weights, codebooks.shape[1])
        unused = np.flatnonzero(mass == 0)
        if unused.size:
            residuals = targets - decode(codes, codebooks)
            errors = weights * np.einsum("ik,ik->i", residuals, residuals)
            worst = np.argsort(-errors, kind="stable")[: unused.size]
            worst = worst[errors[worst] > 0]
            unused = unused[: worst.size]
            codebooks[s, unused] = codebooks[s, codes[worst, s]] + residuals[worst]
            codes[worst, s] = unused
    return codebooks, codes
