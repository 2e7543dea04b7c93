"""Training: codebooks are added one by one and improved together; the best state is kept."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from acqh._core.arrays import Floats, Ints, slices
from acqh._core.device import Tensor, to_tensor
from acqh._core.imports import require
from acqh._core.runtime import loops, one_blas_thread
from acqh.quantize.code_search import GROUP_SIZE, Beams, Search, extend_beams, search_codes
from acqh.quantize.codebooks import (
    decode,
    improve_codebooks,
    quantization_errors,
    sampled_kmeans,
    weighted_kmeans,
)

# Sweeps after each new codebook but the last. Without them the error of label targets in four
# codebooks ends hundreds of times higher; with one instead of two it ends twice as high.
_GROWTH_SWEEPS = 2
# Codebooks after this one find so little error left that the sweeps at the end are enough.
_GROWN = 4
# Lloyd's steps on a new codebook: sweeps soon forget what more of them gain.
_LLOYD_STEPS = 2
# Below this share of the targets' variance results do not change; further codebooks are added
# without sweeps.
_FINE = 1e-6
# Errors below these shares of the targets' spread (eight digits are right) and of their energy
# (rounding, which is all there is if the targets are equal) count as none.
_NEGLIGIBLE_SPREAD = 1e-16
_NEGLIGIBLE_ENERGY = 1e-30
# Codes per item that a new codebook is trained on, if there are many items. With the best code
# alone, codewords overfit the training items (measured by `benchmarks/studies/quantizer.py`). More
# codes lower the error of new items and raise that of training items.
_N_BEAMS = 8
_MOST_BEAMS = 32
# Points per codeword of a new codebook; with a quarter of them errors are a tenth higher.
_POINTS_PER_WORD = 256
# Rows decoded at a time.
_BLOCK_ROWS = 4096
# Candidate ridges, in items: the smallest for which the error of held-out items, one in eight, does
# not rise by more than this factor. A smaller ridge lowers the error of training items.
_RIDGES = (np.inf, 128.0, 32.0, 8.0, 0.0)
_HELD_OUT, _AS_GOOD = 8, 1.005
# Sweeps by which ridges are compared; the first gain most.
_CHOICE_SWEEPS = 3
# With this many items per codeword of all codebooks, sweeps do not overfit.
_MANY = 10


@dataclass(frozen=True)
class QuantizerFit:
    """Result of training: codebooks, codes and the error of each iteration.

    Parameters
    ----------
    codebooks : (n_codebooks, codebook_size, n_components) float64
    codes : (n_items, n_codebooks) uint8
        Of the targets trained on.
    history : (n_steps,) float64
        Weighted error after each codebook that was added and each sweep; never rises.
    ridge : float
        That sweeps held codewords by.

    Examples
    --------
    >>> import numpy as np
    >>> from acqh.quantize import fit_codebooks
    >>> targets = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> fit = fit_codebooks(targets, np.ones(4), 2, 2, rng=np.random.default_rng(0))
    >>> fit.codes.shape, fit.codebooks.shape, float(fit.history[-1]).__round__(6)
    ((4, 2), (2, 2, 1), 0.0)
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
    train_on_beams: bool = False,
    ridge: float | None = 0.0,
    rng: np.random.Generator,
    callback: Callable[[Floats, Ints], None] | None = None,
    device: Any = None,
    is_quick: bool = False,
) -> QuantizerFit:
    """Learn codebooks and codes that make the weighted error of the targets small.

    Codebooks are added one by one, each by weighted k-means of the residuals; after each,
    all codebooks so far are improved together in sweeps. A sweep refills codewords that no item
    uses, moves the codebooks towards least squares, and searches the codes. More than 16 codebooks
    are trained in groups of 16, each on the residuals of those before.

    On beams, for many targets, a codebook is k-means of the residuals of the best few codes of
    every item, and sweeps come at the end. At first an item takes the code that the search finds,
    even if its previous code was better. When that gains no more, sweeps go on from the best state,
    and items keep their codes unless others are better.

    Parameters
    ----------
    targets : (n_items, n_components)
        Finite.
    weights : (n_items,)
        Not negative, some positive. A target of weight w counts as w copies of it.
    n_codebooks : int
    codebook_size : int
        At most 256.
    search, beam_width
        How codes are searched; see `search_codes`.
    max_iter : int, default 10
        Sweeps over all codebooks at most; a budget, so running out of it is not a failure.
    tol : float, default 1e-3
        Stop when a sweep lowers the error by no more than this share of it.
    train_on_beams : bool, default False
        For many more targets than codewords; lowers the error of new items.
    ridge : float or None, default 0
        On beams: weight, in items, that pulls every codeword towards its k-means value during
        sweeps; infinite: no sweeps. None chooses it on held-out items if there are few per
        codeword, else 0. If not 0, codebooks are trained on more codes of each item.
    rng : Generator
        Draws points, seeds of k-means and items held out.
    callback : callable, optional
        Called with codebooks and codes after each step of the history, and of the choice of a
        ridge; those of codebooks not yet added are zero or missing. Both arrays may change with the
        next step.
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
    callback = callback or (lambda *_: None)
    settings = search, beam_width, max_iter, tol, rng, callback, device, is_quick
    fits: list[QuantizerFit] = []
    for group in slices(n_codebooks, GROUP_SIZE):
        if fits:
            targets = targets - decode(fits[-1].codes, fits[-1].codebooks)
        shape = group.stop - group.start, codebook_size, targets.shape[1]
        trainer = _Trainer(targets, weights, shape, *settings)
        trainer.load_loops()
        with one_blas_thread():  # once for all blocks
            fits.append(trainer.fit_on_beams(ridge) if train_on_beams else trainer.fit())
    return QuantizerFit(
        np.concatenate([fit.codebooks for fit in fits]),
        np.concatenate([fit.codes for fit in fits], axis=1),
        np.concatenate([fit.history for fit in fits]),
        fits[0].ridge,
    )


# Steps of all fits of this process. One small fit must not wait for the compiler; of many, each
# takes three times as long without it (0.24 s against 0.07, 20,000 labelled items in 4 bytes).
_n_steps = 0


@dataclass(frozen=True)
class _Trainer:
    """Targets, and how codebooks are trained on them; see `fit_codebooks`."""

    targets: Floats
    weights: Floats
    shape: tuple[int, int, int]  # of the codebooks
    search: Search
    beam_width: int
    max_iter: int
    tol: float
    rng: np.random.Generator
    callback: Callable[[Floats, Ints], None]
    device: Any
    is_quick: bool

    def load_loops(self) -> None:
        """Load compiled loops if this fit, or the fits of this process together, are much work."""
        global _n_steps
        n_codebooks, n_words, n_components = self.shape
        # A fit searches codes about a dozen times.
        steps_per_codeword = 2 * n_components + (self.beam_width + 4) * n_codebooks
        _n_steps += 12 * len(self.targets) * n_codebooks * n_words * steps_per_codeword
        loops("acqh.quantize", _n_steps)

    def take(self, rows: Ints) -> "_Trainer":
        return replace(self, targets=self.targets[rows], weights=self.weights[rows])

    def error(self, codebooks: Floats, codes: Ints) -> float:
        return float(self.weights @ quantization_errors(self.targets, codes, codebooks))

    @cached_property
    def _on_device(self) -> Tensor | None:
        is_cuda = getattr(self.device, "type", "") == "cuda"
        return to_tensor(self.targets, self.device) if is_cuda else None

    def codes(self, codebooks: Floats, start: Ints | None = None) -> Ints:
        """Search codes in single precision; those to start from stay unless others are better."""
        how: dict[str, Any] = {"search": self.search, "beam_width": self.beam_width}
        if self._on_device is None:
            return search_codes(self.targets, codebooks, start=start, dtype=np.float32, **how)
        codewords = to_tensor(codebooks, self.device)
        how["start"] = None if start is None else to_tensor(start, self.device)
        codes: Any = search_codes(self._on_device, codewords, dtype=require("torch").float32, **how)
        return np.asarray(codes.cpu().numpy())

    def sweep(
        self,
        codebooks: Floats,
        codes: Ints,
        *,
        keep: bool = True,
        ridge: float = 0.0,
        towards: Floats | None = None,
    ) -> tuple[Floats, Ints, float]:
        """Improve codebooks, then codes; return them and their error.

        With `keep`, items keep their codes unless others are strictly better. With a ridge,
        codewords that no item uses stay, for others.
        """
        if not ridge:
            codebooks, codes = refill_unused_words(self.targets, self.weights, codes, codebooks)
        hold = ridge * float(self.weights.mean())
        codebooks = improve_codebooks(
            self.targets, self.weights, codes, codebooks, ridge=hold, towards=towards
        )
        codes = self.codes(codebooks, codes if keep else None)
        return codebooks, codes, self.error(codebooks, codes)

    def fit(self) -> QuantizerFit:
        """Add codebooks one by one, and improve all so far in sweeps after each."""
        targets, weights = self.targets, self.weights
        codebooks: Floats = np.zeros(self.shape)
        codes = np.zeros((len(targets), len(codebooks)), dtype=np.uint8)
        history: list[float] = []
        error = self.error(codebooks, codes)
        centred = targets - np.average(targets, axis=0, weights=weights)
        spread = weights @ np.square(centred).sum(axis=1)
        fine = _FINE * spread
        negligible = _NEGLIGIBLE_SPREAD * spread + _NEGLIGIBLE_ENERGY * error
        for s, n_words in enumerate(map(len, codebooks)):
            left = targets - decode(codes, codebooks)
            how: dict[str, Any] = {"max_iter": _LLOYD_STEPS, "is_quick": self.is_quick}
            codebooks[s], codes[:, s] = weighted_kmeans(left, weights, n_words, self.rng, **how)
            new_error = self.error(codebooks, codes)
            if new_error < error:
                error = new_error
            else:  # nothing left to add but rounding
                codebooks[s], codes[:, s] = 0, 0
            history.append(error)
            self.callback(codebooks, codes)
            last = s == len(codebooks) - 1
            for _ in range(self.max_iter if last else _GROWTH_SWEEPS if s < _GROWN else 0):
                if error <= fine:
                    break
                *updated, new_error = self.sweep(codebooks[: s + 1], codes[:, : s + 1])
                gain = error - new_error
                if gain <= 0:
                    break
                codebooks[: s + 1], codes[:, : s + 1] = updated
                share, error = gain / error, new_error
                history.append(error)
                self.callback(codebooks, codes)
                if share <= self.tol or error <= negligible:
                    break
            if error <= negligible:
                break
        return QuantizerFit(codebooks, codes, np.array(history))

    def fit_on_beams(self, ridge: float | None) -> QuantizerFit:
        """Add codebooks one by one on beams, then improve all in sweeps."""
        n_items, (n_codebooks, n_words, _) = len(self.targets), self.shape
        if ridge is None and n_items >= _MANY * n_codebooks * n_words:
            ridge = 0.0
        n_beams = _N_BEAMS
        if ridge != 0:
            most = 2 * _POINTS_PER_WORD * n_words // max(n_items, 1)
            n_beams = min(max(most, _N_BEAMS), _MOST_BEAMS)
        if ridge is None:
            ridge = self._choose_ridge(n_beams)
        return self._swept(self._grown(n_beams), ridge)

    def _grown(self, n_beams: int) -> QuantizerFit:
        """Add codebooks one by one on beams, without sweeps."""
        n_codebooks, n_words, _ = self.shape
        codebooks: Floats = np.zeros(self.shape)
        history: list[float] = []
        beams = Beams.empty(len(self.targets))
        for s in range(n_codebooks):
            points, masses = self._residuals(beams.codes[:, :n_beams], codebooks[:s])
            codebooks[s] = sampled_kmeans(points, masses, n_words, self.rng)
            n_best = 1 if s == n_codebooks - 1 else max(self.beam_width, n_beams)
            beams = extend_beams(self.targets, codebooks[: s + 1], beams, n_best)
            codes = beams.codes[:, 0]
            history.append(min([*history[-1:], self.error(codebooks[: s + 1], codes)]))
            self.callback(codebooks, codes)
        return QuantizerFit(codebooks, codes, np.array(history))

    def _residuals(self, beam_codes: Ints, codebooks: Floats) -> tuple[Floats, Floats]:
        """Return a sample of the residuals of the items' codes, and their weights."""
        n_items, n_kept, n_codebooks = beam_codes.shape
        chosen, n_points = np.arange(n_items * n_kept), _POINTS_PER_WORD * self.shape[1]
        if len(chosen) > n_points:
            chosen = np.sort(self.rng.choice(len(chosen), n_points, replace=False))
        rows = chosen // n_kept
        if not n_codebooks:
            return self.targets[rows], self.weights[rows]
        # Residuals are small, so single precision suffices, in half the memory.
        points = np.empty((len(chosen), self.targets.shape[1]), dtype=np.float32)
        codes = beam_codes.reshape(-1, n_codebooks)[chosen]
        for part in slices(len(chosen), _BLOCK_ROWS):
            points[part] = self.targets[rows[part]] - decode(codes[part], codebooks)
        return points, self.weights[rows]

    def _swept(self, grown: QuantizerFit, ridge: float) -> QuantizerFit:
        """Improve all codebooks together; keep the best iterate."""
        history = grown.history.tolist()
        state = best = grown.codebooks, grown.codes, self.error(grown.codebooks, grown.codes)
        keep = False
        for _ in range(self.max_iter if np.isfinite(ridge) else 0):
            state = self.sweep(*state[:2], keep=keep, ridge=ridge, towards=grown.codebooks)
            gain, enough = best[2] - state[2], self.tol * best[2]
            if gain > 0:
                best = state
            history.append(min(history[-1], best[2]))
            self.callback(*state[:2])
            if gain > enough:
                continue
            if keep:
                break  # no sweep that follows is better
            state, keep = best, True
        return QuantizerFit(best[0], best[1], np.array(history), ridge)

    def _choose_ridge(self, n_beams: int) -> float:
        """Return the least ridge by which codes of items held out are about as good as can be."""
        order = self.rng.permutation(len(self.targets))
        held, rest = map(self.take, np.split(order, [len(order) // _HELD_OUT]))
        if not len(held.targets):
            return 0.0
        grown = rest._grown(n_beams)
        trial = replace(rest, max_iter=min(self.max_iter, _CHOICE_SWEEPS))
        least, chosen = np.inf, 0.0
        for ridge in _RIDGES:
            codewords = trial._swept(grown, ridge).codebooks
            error = held.error(codewords, held.codes(codewords))
            if error > _AS_GOOD * least:
                break
            least, chosen = min(error, least), ridge
        return chosen


def count_steps(
    n_items: int, n_codebooks: int, n_words: int, ridge: float | None, max_iter: int
) -> int:
    """Return how many steps `fit_codebooks` takes on beams, at most."""
    n_groups, n_steps = -(-n_codebooks // GROUP_SIZE), n_codebooks
    if ridge is None and n_items < _MANY * min(n_codebooks, GROUP_SIZE) * n_words:
        n_choices = (len(_RIDGES) - 1) * min(max_iter, _CHOICE_SWEEPS)
        n_steps += n_codebooks + n_groups * n_choices
    return n_steps + n_groups * max_iter


def refill_unused_words(
    targets: Floats, weights: Floats, codes: Ints, codebooks: Floats
) -> tuple[Floats, Ints]:
    """Give codewords that no weight uses to the targets with the largest weighted errors.

    Each such target, another for each codeword, gets the codeword that makes its error zero.

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
        Codewords that are still unused once every error is zero keep their value.
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
