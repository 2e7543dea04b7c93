"""Training for many items: codebooks grown along beams, then swept; the best iterate is kept."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from acqh._core.arrays import Floats, Ints
from acqh.quantize.code_search import Beams, Search, extend_beams, search_codes
from acqh.quantize.codebooks import improve_codebooks, quantization_errors
from acqh.quantize.compiled import leave_over
from acqh.quantize.kmeans import sampled_kmeans
from acqh.quantize.train import QuantizerFit, refill_unused_words

# Codes of each item that a new codebook learns from. With the best alone, words fit the items
# trained on and others less; `benchmarks/studies/quantizer.py` says by how much. The more codes,
# the better are others coded, and the less those trained on: the most are for others alone.
_N_BEAMS = 8
_MOST_BEAMS = 32
# Points for each word of a new codebook; a quarter of them leaves errors a tenth higher.
POINTS_PER_WORD = 256
# Ridges tried, in items, while the error of those held out, one in eight, does not rise by more
# than this: the less words are held, the better the items trained on are coded.
_RIDGES = (np.inf, 128.0, 32.0, 8.0, 0.0)
_HELD_OUT, _AS_GOOD = 8, 1.005
# Sweeps by which ridges are compared; the first gain most.
_CHOICE_SWEEPS = 3
# From this many items on for each word of all codebooks, what sweeps fit they fit of others too.
_MANY = 10


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
    ridge: float | None = 0.0,
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
    ridge : float or None, default 0
        Items by which sweeps hold every word to where k-means has put it; infinite: no sweeps.
        None chooses it by items held out, where there are few for each word, and else takes 0.
        With any but 0 codebooks learn from more codes of each item, for the sake of others.
    rng : Generator
        Draws points, seeds of k-means and items held out.

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
    if ridge is None and len(targets) >= _MANY * n_codebooks * codebook_size:
        ridge = 0.0
    n_beams = _N_BEAMS
    if ridge != 0:
        most = 2 * points_per_word * codebook_size // max(len(targets), 1)
        n_beams = min(max(most, _N_BEAMS), _MOST_BEAMS)
    how = _How(search, beam_width, max_iter, tol, points_per_word, n_beams, n_threads)
    shape = n_codebooks, codebook_size, targets.shape[1]
    if ridge is None:
        ridge = _choose_ridge(targets, weights, shape, how, rng)
    return _swept(targets, weights, _grown(targets, weights, shape, how, rng), ridge, how)


class _How(NamedTuple):
    """How codebooks are grown and codes searched; see `grow_codebooks`."""

    search: Search
    beam_width: int
    max_iter: int
    tol: float
    points_per_word: int
    n_beams: int
    n_threads: int | None

    def codes(self, targets: Floats, codebooks: Floats, start: Ints | None = None) -> Ints:
        """Search codes; where there are some to start from, these stay unless others are better."""
        return search_codes(
            targets,
            codebooks,
            search=self.search,
            beam_width=self.beam_width,
            start=start,
            dtype=np.float32,
            n_threads=self.n_threads,
        )


def _grown(
    targets: Floats,
    weights: Floats,
    shape: tuple[int, int, int],
    how: _How,
    rng: np.random.Generator,
) -> QuantizerFit:
    """Add codebooks one by one, without sweeps."""
    n_codebooks, n_words, _ = shape
    codebooks: Floats = np.zeros(shape)
    history: list[float] = []
    beams = Beams.empty(len(targets))
    for s in range(n_codebooks):
        n_points = how.points_per_word * n_words
        kept = beams.codes[:, : how.n_beams]
        points, masses = _leftovers(targets, weights, kept, codebooks[:s], n_points, rng)
        codebooks[s] = sampled_kmeans(points, masses, n_words, rng)
        n_best = 1 if s == n_codebooks - 1 else max(how.beam_width, how.n_beams)
        beams = extend_beams(targets, codebooks[: s + 1], beams, n_best, n_threads=how.n_threads)
        codes = beams.codes[:, 0]
        error = float(weights @ quantization_errors(targets, codes, codebooks[: s + 1]))
        history.append(min([*history[-1:], error]))
    return QuantizerFit(codebooks, codes, np.array(history))


def _swept(
    targets: Floats, weights: Floats, grown: QuantizerFit, ridge: float, how: _How
) -> QuantizerFit:
    """Improve all codebooks together; keep the best iterate."""
    history = grown.history.tolist()
    error = float(weights @ quantization_errors(targets, grown.codes, grown.codebooks))
    best = grown.codebooks, grown.codes, error
    sweep = partial(_sweeps, targets, weights, how=how, ridge=ridge, towards=grown.codebooks)
    sweeps, keep = sweep(grown.codebooks, grown.codes), False
    for _ in range(how.max_iter if np.isfinite(ridge) else 0):
        state = next(sweeps)
        gain, enough = best[2] - state[2], how.tol * best[2]
        if gain > 0:
            best = state
        history.append(min(history[-1], best[2]))
        if gain > enough:
            continue
        if keep:
            break  # no sweep that follows is better
        sweeps, keep = sweep(best[0], best[1], keep=True), True
    return QuantizerFit(best[0], best[1], np.array(history), ridge)


def _choose_ridge(
    targets: Floats,
    weights: Floats,
    shape: tuple[int, int, int],
    how: _How,
    rng: np.random.Generator,
) -> float:
    """Return the least ridge by which codes of items held out are about as good as can be."""
    order = rng.permutation(len(targets))
    held, rest = np.split(order, [len(order) // _HELD_OUT])
    if not len(held):
        return 0.0
    grown = _grown(targets[rest], weights[rest], shape, how, rng)
    how = how._replace(max_iter=min(how.max_iter, _CHOICE_SWEEPS))
    least, chosen = np.inf, 0.0
    for ridge in _RIDGES:
        words = _swept(targets[rest], weights[rest], grown, ridge, how).codebooks
        codes = how.codes(targets[held], words)
        error = float(weights[held] @ quantization_errors(targets[held], codes, words))
        if error > _AS_GOOD * least:
            break
        least, chosen = min(error, least), ridge
    return chosen


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
    how: _How,
    ridge: float,
    towards: Floats,
    keep: bool = False,
) -> Iterator[tuple[Floats, Ints, float]]:
    """Improve codebooks and codes in turn without end; yield them and their error.

    With `keep`, items keep their codes unless others are strictly better. With a ridge, words that
    no item uses stay, for others.
    """
    hold = ridge * float(weights.mean())
    while True:
        if not ridge:
            codebooks, codes = refill_unused_words(targets, weights, codes, codebooks)
        codebooks = improve_codebooks(
            targets, weights, codes, codebooks, ridge=hold, towards=towards
        )
        codes = how.codes(targets, codebooks, codes if keep else None)
        yield codebooks, codes, float(weights @ quantization_errors(targets, codes, codebooks))
