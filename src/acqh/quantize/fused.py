"""The fused code search for CUDA devices; only ever imported where torch brings Triton.

One program searches one item: its beams stay in registers, packed a byte per codeword into two
integers, and rows of `pairs` come out of the device's cache.
"""

import triton
import triton.language as tl

from acqh._core.device import Tensor

# A program is one warp: minima over its costs need no barrier.
_WARPS = 1


def search_block(
    linear: Tensor, pairs: Tensor, codes: Tensor, beam_width: int, max_sweeps: int
) -> None:
    """Search the codes of a block of items; see `compiled.search`.

    Parameters
    ----------
    linear : tensor float32 (n_items, n_codebooks, codebook_size)
    pairs : tensor float32 (n_codebooks, codebook_size, n_codebooks, codebook_size)
    codes : tensor uint8 (n_items, n_codebooks)
        Overwritten; the start where `beam_width` is 0.
    beam_width, max_sweeps : int
    """
    n_items, n_codebooks, n_words = linear.shape
    if n_items:
        _search[(n_items,)](
            linear,
            pairs,
            codes,
            n_codebooks,
            n_words,
            triton.next_power_of_2(n_words),
            beam_width,
            triton.next_power_of_2(max(beam_width, 1)),
            max_sweeps,
            num_warps=_WARPS,
        )


@triton.jit
def _word(low, high, codebook):
    """Return the codeword number of one codebook from packed codes."""
    packed = tl.where(codebook < 8, low, high)
    return ((packed >> (8 * (codebook % 8)).to(tl.int64)) & 255).to(tl.int32)


@triton.jit
def _packed(codeword, codebook):
    """Return a codeword at the place of its codebook, in the two integers."""
    placed = codeword.to(tl.int64) << (8 * (codebook % 8)).to(tl.int64)
    return tl.where(codebook < 8, placed, 0), tl.where(codebook < 8, 0, placed)


@triton.jit
def _search(
    linear,
    pairs,
    codes,
    m,
    n_words,
    width: tl.constexpr,
    beam: tl.constexpr,
    slots_width: tl.constexpr,
    max_sweeps,
):
    # Loops over codebooks are not unrolled: with sixteen of them that would take minutes.
    item = tl.program_id(0).to(tl.int64)
    codewords = tl.arange(0, width)
    is_valid = codewords < n_words
    slots = tl.arange(0, slots_width)
    nowhere = float("inf")
    linear += item * m * n_words
    codes += item * m
    best_low = tl.zeros([], tl.int64)
    best_high = tl.zeros([], tl.int64)
    if beam > 0:
        low = tl.zeros([slots_width], tl.int64)
        high = tl.zeros([slots_width], tl.int64)
        base = tl.where(slots == 0, 0.0, nowhere)
        flat = slots[:, None] * width + codewords[None, :]
        for s in range(m):
            row = tl.load(linear + s * n_words + codewords, mask=is_valid, other=nowhere)
            costs = row[None, :] + base[:, None]
            for t in range(s):
                places = ((t * n_words + _word(low, high, t)) * m + s) * n_words
                costs += tl.load(
                    pairs + places[:, None] + codewords[None, :], mask=is_valid[None, :], other=0.0
                )
            new_low = low
            new_high = high
            new_base = tl.full([slots_width], nowhere, tl.float32)
            # Of the last codebook only the best codeword is wanted.
            for rank in range(tl.where(s == m - 1, 1, beam)):
                best = tl.min(tl.min(costs, axis=1), axis=0)
                place = tl.min(
                    tl.min(tl.where(costs == best, flat, slots_width * width), axis=1), axis=0
                )
                parent = place // width
                add_low, add_high = _packed(place % width, s)
                low_of = tl.sum(tl.where(slots == parent, low, 0), axis=0) | add_low
                high_of = tl.sum(tl.where(slots == parent, high, 0), axis=0) | add_high
                new_low = tl.where(slots == rank, low_of, new_low)
                new_high = tl.where(slots == rank, high_of, new_high)
                new_base = tl.where(slots == rank, best, new_base)
                costs = tl.where(flat == place, nowhere, costs)
            low = new_low
            high = new_high
            base = new_base
        best_low = tl.sum(tl.where(slots == 0, low, 0), axis=0)
        best_high = tl.sum(tl.where(slots == 0, high, 0), axis=0)
    else:
        for s in range(m):
            add_low, add_high = _packed(tl.load(codes + s), s)
            best_low |= add_low
            best_high |= add_high
    unchanged = 0
    step = 0
    while (unchanged < m) & (step < max_sweeps * m):
        s = step % m
        row = tl.load(linear + s * n_words + codewords, mask=is_valid, other=nowhere)
        for t in range(m):
            place = ((t * n_words + _word(best_low, best_high, t)) * m + s) * n_words
            row += tl.load(pairs + place + codewords, mask=is_valid & (t != s), other=0.0)
        best = tl.min(row, axis=0)
        current = _word(best_low, best_high, s)
        cost = tl.min(tl.where(codewords == current, row, nowhere), axis=0)
        codeword = tl.min(tl.where(row == best, codewords, width), axis=0)
        better = best < cost
        change_low, change_high = _packed(tl.where(better, codeword ^ current, 0), s)
        best_low ^= change_low
        best_high ^= change_high
        unchanged = tl.where(better, 1, unchanged + 1)
        step += 1
    for s in range(m):
        tl.store(codes + s, _word(best_low, best_high, s).to(tl.uint8))
