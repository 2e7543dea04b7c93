"""Code search: choose one codeword per codebook for each item."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import DTypeLike

from acqh._core.arrays import Floats, Ints, is_tensor
from acqh._core.device import MAX_MEMORY
from acqh._core.imports import require
from acqh._core.runtime import loops, run_blocks
from acqh.errors import InvalidInputError
from acqh.quantize.codebooks import decode

Search: TypeAlias = Literal["greedy", "beam", "icm", "beam+icm"]
SEARCHES: tuple[str, ...] = get_args(Search)

# Maximal sweeps of iterated conditional modes; two or three are usual, ties could go on.
_MAX_SWEEPS = 10
# Items per block of a thread; the costs of their codewords stay in the cache.
_BLOCK_ROWS = 512
# Codebooks that are searched together. The products of all pairs of their codewords take 64 MB in
# single precision, and grow by the square.
GROUP_SIZE = 16


def search_codes(
    targets: Floats,
    codebooks: Floats,
    *,
    search: Search = "beam+icm",
    beam_width: int = 8,
    start: Ints | None = None,
    metric: Floats | None = None,
    dtype: type[np.floating[Any]] | None = None,
    tables: "CodeTables | None" = None,
    max_memory: int = MAX_MEMORY,
) -> Ints:
    """Return the code of each item with the smallest error that the search finds.

    Minimizes ``b^T G b - 2 b^T z`` over codes, with b the reconstruction: the squared distance
    ``||z - b||^2``, up to a constant, if G is the identity. More than 16 codebooks are searched in
    groups of 16, each for the residuals of those before.

    Parameters
    ----------
    targets : (n_items, n_components)
        z: points, or the linear term where a `metric` is given. Finite.
    codebooks : (n_codebooks, codebook_size, n_components)
        float32 or float64.
    search : {"greedy", "beam", "icm", "beam+icm"}
        ``greedy`` chooses the best codeword of one codebook after the other, as in the paper.
        ``beam`` keeps the `beam_width` best partial codes; a width of 1 is greedy. ``icm``
        (iterated conditional modes) updates one codeword at a time, the others fixed, until none
        changes. It starts from `start` or from the greedy code, ``beam+icm`` from the code of the
        beam search.
    beam_width : int, default 8
    start : (n_items, n_codebooks) uint8, optional
        Codes to improve on: an item keeps its code unless another is strictly better, judged in
        float64.
    metric : (n_components, n_components), optional
        G: symmetric, positive semi-definite; it may be singular.
    dtype : float32 or float64, optional
        Precision of the search; by default that of the codebooks.
    tables : CodeTables, optional
        What `code_tables` gives of the codebooks and the metric, where they are searched again.
    max_memory : int
        Bytes of working memory on the device, where `targets` is a tensor of torch. Then all
        arrays are tensors on its device, and so are the codes; nothing is copied to the host.

    Returns
    -------
    (n_items, n_codebooks) uint8

    Raises
    ------
    InvalidInputError
        `search` is not one of the four.

    Notes
    -----
    The metric needs neither a root nor an inverse: codewords enter the search through ``C G C^T``
    and ``C z`` only, so a singular G is nothing special.

    Examples
    --------
    >>> codebooks = np.array([[[0.0], [4.0]], [[0.0], [1.0]]])
    >>> search_codes(np.array([[5.2], [0.9]]), codebooks)
    array([[1, 1],
           [0, 1]], dtype=uint8)
    """
    if search not in SEARCHES:
        raise InvalidInputError(f"search must be one of {', '.join(SEARCHES)}, got {search!r}")
    if len(codebooks) > GROUP_SIZE:
        how: dict[str, Any] = {"search": search, "beam_width": beam_width, "dtype": dtype}
        how |= {"metric": metric, "max_memory": max_memory}
        return _search_groups(targets, codebooks, start, metric, how)
    width = beam_width if "beam" in search else 1
    if search == "icm" and start is not None:
        width = 0
    sweeps = _MAX_SWEEPS if "icm" in search else 0
    if is_tensor(targets):
        from acqh.quantize.on_device import search_tensor

        tensor_codes = search_tensor(
            targets,
            codebooks,
            beam_width=width,
            max_sweeps=sweeps,
            start=start,
            metric=metric,
            dtype=dtype or codebooks.dtype,
            max_memory=max_memory,
        )
        return cast(Ints, tensor_codes)
    codes = np.empty((len(targets), len(codebooks)), dtype=np.uint8)
    tables = tables or code_tables(codebooks, metric, dtype)
    run = tables.loops(len(targets), width)
    exact = codebooks.astype(np.float64, copy=False)

    def search_block(rows: slice) -> None:
        linear = tables.linear(targets[rows], run)
        if width == 0:
            codes[rows] = start[rows]  # type: ignore[index]
        else:
            beams = Beams.empty(len(linear), linear.dtype)
            for s in range(len(codebooks)):
                # Of the last codebook only the best codeword is wanted.
                n_best = 1 if s == len(codebooks) - 1 else width
                longer = beams.allocate_next(n_best, codebooks.shape[1])
                run.extend(linear, tables.pairs, s, beams, longer)
                beams = longer
            codes[rows] = beams.codes[:, 0]
        if sweeps:
            run.improve(linear, tables.pairs, codes[rows], sweeps)
        if start is not None:
            keep_unless_better(targets[rows], exact, metric, start[rows], codes[rows])

    run_blocks(search_block, len(targets), _BLOCK_ROWS)
    return codes


def _search_groups(
    targets: Floats, codebooks: Floats, start: Ints | None, metric: Floats | None, how: Any
) -> Ints:
    parts, rest = [], targets
    for first in range(0, len(codebooks), GROUP_SIZE):
        group = slice(first, first + GROUP_SIZE)
        start_part = None if start is None else start[:, group]
        parts.append(search_codes(rest, codebooks[group], start=start_part, **how))
        codes = parts[-1].long() if is_tensor(targets) else parts[-1]  # type: ignore[attr-defined]
        vectors = decode(codes, codebooks[group])
        rest = rest - (vectors if metric is None else vectors @ metric)
    joined = require("torch").cat if is_tensor(targets) else np.concatenate
    codes = joined(parts, 1)
    if start is not None:
        keep_unless_better(targets, codebooks, metric, start, codes)
    return cast(Ints, codes)


@dataclass(frozen=True)
class Beams:
    """The best codes of each item that a beam search has kept so far."""

    # (n_items, n_kept, n_codebooks) uint8: best first; with no codebook, one empty code of each
    # item.
    codes: Ints
    costs: Floats  # (n_items, n_kept)

    @classmethod
    def empty(cls, n_items: int, dtype: DTypeLike = np.float32) -> "Beams":
        """Return those of no codebook; `dtype` is the precision of the search."""
        return cls(np.zeros((n_items, 1, 0), dtype=np.uint8), np.zeros((n_items, 1), dtype=dtype))

    def part(self, rows: slice) -> "Beams":
        """Return those of some items."""
        return Beams(self.codes[rows], self.costs[rows])

    def allocate_next(self, n_best: int, n_words: int) -> "Beams":
        """Return empty beams for codes with one more codeword, `n_best` at most."""
        n_items, n_kept, n_before = self.codes.shape
        n_best = min(n_best, n_kept * n_words)
        codes = np.empty((n_items, n_best, n_before + 1), dtype=np.uint8)
        return Beams(codes, np.empty((n_items, n_best), dtype=self.costs.dtype))


def extend_beams(targets: Floats, codebooks: Floats, beams: Beams, n_best: int) -> Beams:
    """Return the best few codes of each item, `n_best` at most, with one codebook more.

    Codebooks are thus added one by one at the cost of a single beam search.

    `targets`, `codebooks`: as `search_codes` takes them; the last codebook is new.
    `beams`: of the codebooks before.

    Examples
    --------
    >>> codebooks = np.array([[[0.0], [4.0]], [[0.0], [1.0]]])
    >>> beams = extend_beams(np.array([[4.2]]), codebooks[:1], Beams.empty(1), 2)
    >>> extend_beams(np.array([[4.2]]), codebooks, beams, 2).codes
    array([[[1, 0],
            [1, 1]]], dtype=uint8)
    """
    n_items, n_kept, n_before = beams.codes.shape
    longer = beams.allocate_next(n_best, codebooks.shape[1])
    tables = code_tables(codebooks, None, beams.costs.dtype, first=n_before)
    run = tables.loops(n_items, n_kept)

    def extend_block(rows: slice) -> None:
        linear = tables.linear(targets[rows], run)
        run.extend(linear, tables.pairs, 0, beams.part(rows), longer.part(rows))

    run_blocks(extend_block, n_items, _BLOCK_ROWS)
    return longer


@dataclass(frozen=True)
class CodeTables:
    """Codebooks and their products for a search, in its precision: arrays or tensors."""

    offset: Floats  # (n_components,)
    scale: Any  # a power of two, by which codewords and targets are multiplied
    products: Floats  # (n_components, n_codebooks * codebook_size)
    norms: Floats  # (n_codebooks * codebook_size,)
    pairs: Floats  # (n_codebooks, codebook_size, n_codebooks, codebook_size)

    def linear(self, targets: Floats, run: Any) -> Floats:
        """Return what every codeword costs each target: (n_items, n_codebooks, codebook_size)."""
        shifted = (targets - self.offset) * self.scale
        dtype, (_, n_words, n_codebooks, _) = self.norms.dtype, self.pairs.shape
        costs = np.empty((len(targets), len(self.norms)), dtype=dtype)
        shifted = np.ascontiguousarray(shifted, dtype=dtype)
        run.fill_linear(shifted, self.products, self.norms, costs)
        return costs.reshape(-1, n_codebooks, n_words)

    def loops(self, n_items: int, n_beams: int) -> Any:
        """Return the loops to search with."""
        n_before, n_words, n_codebooks, _ = self.pairs.shape
        sums_a_word = 2 * len(self.products) + (n_beams + 4) * n_before
        return loops("acqh.quantize", n_items * n_codebooks * n_words * sums_a_word)


def code_tables(
    codebooks: Floats,
    metric: Floats | None = None,
    dtype: DTypeLike | None = None,
    *,
    first: int = 0,
) -> CodeTables:
    """Return the tables of the codebooks from the `first` on, paired with all there are."""
    dtype = codebooks.dtype if dtype is None else dtype
    n_codebooks, n_words, n_components = codebooks.shape
    codewords = codebooks.astype(np.float64)
    # Every code has one codeword of the first codebook, so its mean can move to the targets. No
    # cost changes but by a constant, and data far from the origin keep their digits in float32.
    mean = codewords[0].mean(axis=0)
    codewords[0] -= mean
    # Of size one, so that squares neither overflow nor vanish; a power of two leaves all digits.
    # Beams that grow carry costs from codebook to codebook, so theirs is the scale of the first.
    largest = np.abs(codewords[:1] if first else codewords).max()
    scale = float(np.ldexp(1.0, -int(np.frexp(largest)[1])))
    codewords *= scale
    codewords = codewords.reshape(n_codebooks * n_words, n_components)
    new = codewords[first * n_words :]
    images = new if metric is None else new @ metric
    pairs = codewords.astype(dtype) @ (2 * images.T).astype(dtype)
    return CodeTables(
        offset=mean if metric is None else metric @ mean,
        scale=scale,
        products=np.ascontiguousarray(-2 * new.T, dtype=dtype),
        norms=np.einsum("jk,jk->j", new, images).astype(dtype),
        pairs=pairs.reshape(n_codebooks, n_words, n_codebooks - first, n_words),
    )


def keep_unless_better(targets: Any, codebooks: Any, metric: Any, start: Any, codes: Any) -> None:
    """Put back the start where the code found is not strictly better; arrays or tensors.

    `codebooks`, `metric`: float64, in which costs are compared.
    """
    einsum = require("torch").einsum if is_tensor(targets) else np.einsum

    def costs(chosen: Any) -> Any:
        vectors = decode(chosen.long() if is_tensor(chosen) else chosen, codebooks)
        if metric is not None:
            return einsum("ik,ik->i", vectors, vectors @ metric - 2 * targets)
        residuals = targets - vectors
        return einsum("ik,ik->i", residuals, residuals)

    keep = ~(costs(codes) < costs(start))
    codes[keep] = start[keep]
