"""Training for many items: codebooks grown along beams, then swept; the best iterate is kept."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.quantize._code_search import Beams, Search, extend_beams, search_codes
from acqh.quantize._codebooks import improve_codebooks, quantization_errors
from acqh.quantize._kmeans import sampled_kmeans
from acqh.quantize._sums._kernels import leave_over
from acqh.quantize._train import QuantizerFit, refill_unused_words

# Codes of each item that a new codebook learns from. With the best alone, words fit the items
# trained on and others less; `benchmarks/quantizer.py` says by how much.
_N_BEAMS = 8
# Points for each word of a new codebook; a quarter of them leaves errors a tenth higher.
POINTS_PER_WORD = 256
_LLOYD_STEPS = 5


def grow_codebooks(
    targets: Floats,
    weights: Floats,
    n_codebooks: int,
    codebook_size: int,
    *,
    search: Search = "beam+icm",
    beam_width: int = 8,
    max_iter: int = 10,
    tol: float = 1e-3,
    points_per_word: int = POINTS_PER_WORD,
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> QuantizerFit:
    """Learn codebooks that stand well for the targets, and for others like them.

    Codebooks are added one by one. Each is k-means of what is left over not only by the best code
    of every item but by its best few, as a beam search finds them. Then all codebooks are improved
    together in sweeps: least squares for the codes, codes for the words. At first an item takes the
    code the search finds though the one before was better; when that gains no more, sweeps go on
    from the best state, and items keep their codes unless others are better.

    Parameters
    ----------
    targets : (n_items, n_components)
        Finite; many more than words of a codebook. For fewer, `fit_codebooks` is better.
    weights : (n_items,)
        Not negative, some positive.
    n_codebooks, codebook_size : int
    search, beam_width, n_threads
        How codes are searched; see `search_codes`.
    max_iter : int, default 10
        Sweeps at most.
    tol : float, default 1e-3
        Stop when sweeps lower the error by no more than this share of it.
    points_per_word : int, default 256
        What k-means of a new codebook looks at, at most; fewer are quicker and worse.
    rng : Generator
        Draws points and seeds of k-means.

    Returns
    -------
    QuantizerFit
        Its history has the error after each codebook that was added, and the lowest so far after
        each sweep.

    Examples
    --------
    >>> targets = np.random.default_rng(0).normal(size=(500, 4))
    >>> fit = grow_codebooks(targets, np.ones(500), 2, 16, rng=np.random.default_rng(0))
    >>> bool(fit.history[-1] < 0.2 * np.square(targets).sum())
    True
    """
    targets = np.ascontiguousarray(targets, dtype=np.float64)
    codebooks: Floats = np.zeros((n_codebooks, codebook_size, targets.shape[1]))
    history: list[float] = []
    beams = Beams.empty(len(targets))
    for s in range(n_codebooks):
        n_points = points_per_word * codebook_size
        kept = beams.codes[:, :_N_BEAMS]
        points, masses = _leftovers(targets, weights, kept, codebooks[:s], n_points, rng)
        codebooks[s] = sampled_kmeans(points, masses, codebook_size, rng, max_iter=_LLOYD_STEPS)
        n_best = 1 if s == n_codebooks - 1 else max(beam_width, _N_BEAMS)
        beams = extend_beams(targets, codebooks[: s + 1], beams, n_best, n_threads=n_threads)
        codes = beams.codes[:, 0]
        error = float(weights @ quantization_errors(targets, codes, codebooks[: s + 1]))
        history.append(min([*history[-1:], error]))
    best = codebooks, codes, error
    sweep = partial(
        _sweeps, targets, weights, search=search, beam_width=beam_width, n_threads=n_threads
    )
    sweeps, keep = sweep(codebooks, codes), False
    for _ in range(max_iter):
        state = next(sweeps)
        gain, enough = best[2] - state[2], tol * best[2]
        if gain > 0:
            best = state
        history.append(min(history[-1], best[2]))
        if gain > enough:
            continue
        if keep:
            break  # no sweep that follows is better
        sweeps, keep = sweep(best[0], best[1], keep=True), True
    return QuantizerFit(best[0], best[1], np.array(history))


def _leftovers(
    targets: Floats,
    weights: Floats,
    kept: Ints,
    codebooks: Floats,
    n_points: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return what codes leave over of their items, and its weights; `n_points` at most."""
    n_items, n_kept, n_codebooks = kept.shape
    chosen = np.arange(n_items * n_kept)
    if len(chosen) > n_points:
        chosen = np.sort(rng.choice(len(chosen), n_points, replace=False))
    items = chosen // n_kept
    if not n_codebooks:
        return targets[items], weights[items]
    # What is left over is small, so single precision keeps it, in half the memory.
    points = np.empty((len(chosen), targets.shape[1]), dtype=np.float32)
    leave_over(targets, items, kept.reshape(-1, n_codebooks)[chosen], codebooks, points)
    return points, weights[items]


def _sweeps(
    targets: Floats,
    weights: Floats,
    codebooks: Floats,
    codes: Ints,
    *,
    search: Search,
    beam_width: int,
    n_threads: int | None,
    keep: bool = False,
) -> Iterator[tuple[Floats, Ints, float]]:
    """Improve codebooks and codes in turn without end; yield them and their error.

    With `keep`, items keep their codes unless others are strictly better.
    """
    while True:
        codebooks, codes = refill_unused_words(targets, weights, codes, codebooks)
        codebooks = improve_codebooks(targets, weights, codes, codebooks)
        codes = search_codes(
            targets,
            codebooks,
            search=search,
            beam_width=beam_width,
            start=codes if keep else None,
            dtype=np.float32,
            n_threads=n_threads,
        )
        yield codebooks, codes, float(weights @ quantization_errors(targets, codes, codebooks))
