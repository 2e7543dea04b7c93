"""Code search on tensors: the steps of `compiled`, for all rows of a block at once.

On a CUDA device one fused kernel searches one item per program (`fused`); elsewhere, and as the
twin that the kernel is compared with, the same search is written in whole-tensor operations.
"""

from typing import Any

from acqh._core.device import Tensor, row_blocks
from acqh._core.imports import require
from acqh.quantize.code_search import CodeTables, keep_unless_better


def search_tensor(
    targets: Tensor,
    codebooks: Tensor,
    *,
    beam_width: int,
    max_sweeps: int,
    start: Tensor | None,
    metric: Tensor | None,
    dtype: Any,
    max_memory: int,
) -> Tensor:
    """Return the codes of targets on the device they lie on; see `search_codes`.

    `beam_width`: 0 starts from `start` without a beam. `dtype`: of torch, in which to search.
    """
    torch = require("torch")
    m, n_words, _ = codebooks.shape
    exact = codebooks.to(torch.float64)
    metric = None if metric is None else metric.to(torch.float64)
    tables = _tables(exact, metric, dtype)
    codes = torch.empty((len(targets), m), dtype=torch.uint8, device=targets.device)
    fused = targets.is_cuda and dtype == torch.float32
    # The fused kernel keeps beams in registers; whole-tensor steps hold three copies of them.
    copies = m if fused else m + 3 * max(beam_width, 1)
    for rows in row_blocks(len(targets), copies * n_words * dtype.itemsize, max_memory):
        shifted = ((targets[rows] - tables.offset) * tables.scale).to(dtype)
        linear = torch.addmm(tables.norms, shifted, tables.products).reshape(-1, m, n_words)
        block = codes[rows]
        if beam_width == 0 and start is not None:
            block.copy_(start[rows])
        if fused:
            from acqh.quantize.fused import search_block

            search_block(linear, tables.pairs, block, beam_width, max_sweeps)
        else:
            if beam_width > 0:
                block.copy_(_beam(linear, tables.pairs, beam_width))
            _conditional_modes(linear, tables.pairs, block, max_sweeps)
        if start is not None:
            keep_unless_better(targets[rows], exact, metric, start[rows], block)
    return codes


def _tables(codebooks: Tensor, metric: Tensor | None, dtype: Any) -> CodeTables:
    """Prepare as `code_search._tables` does, so that the same roundings lead to the same codes."""
    torch = require("torch")
    m, n_words, n_components = codebooks.shape
    codewords = codebooks.clone()
    mean = codewords[0].mean(dim=0)
    codewords[0] -= mean
    # Found where the codewords are: nothing is waited for.
    scale = torch.ldexp(codewords.new_ones(()), -torch.frexp(codewords.abs().max()).exponent)
    codewords *= scale
    codewords = codewords.reshape(m * n_words, n_components)
    images = codewords if metric is None else codewords @ metric
    return CodeTables(
        offset=mean if metric is None else metric @ mean,
        scale=scale,
        products=(-2 * codewords.T).to(dtype).contiguous(),
        norms=(codewords * images).sum(dim=1).to(dtype),
        pairs=(codewords @ (2 * images.T)).to(dtype).reshape(m, n_words, m, n_words),
    )


def _beam(linear: Tensor, pairs: Tensor, beam_width: int) -> Tensor:
    """Return the best code of each item that a beam finds, (n_items, n_codebooks)."""
    torch = require("torch")
    n_items, m, n_words = linear.shape
    costs = linear.new_zeros((n_items, 1))
    beams = torch.empty((n_items, 1, 0), dtype=torch.long, device=linear.device)
    for s in range(m):
        grown = costs[:, :, None] + linear[:, None, s]
        for t in range(s):
            grown += pairs[t, :, s][beams[:, :, t]]
        n_best = 1 if s == m - 1 else min(beam_width, grown.shape[1] * n_words)
        costs, places = grown.flatten(1).topk(n_best, dim=1, largest=False)
        parents = places.div(n_words, rounding_mode="floor")[:, :, None].expand(-1, -1, s)
        beams = torch.cat([beams.gather(1, parents), (places % n_words)[:, :, None]], dim=2)
    return beams[:, 0]


def _conditional_modes(linear: Tensor, pairs: Tensor, codes: Tensor, max_sweeps: int) -> None:
    """Give each codebook in turn its best codeword, the others held, until no item changes."""
    m = linear.shape[1]
    unchanged = 0
    for step in range(max_sweeps * m):
        s = step % m
        costs = linear[:, s].clone()
        for t in range(m):
            if t != s:
                costs += pairs[t, :, s][codes[:, t].long()]
        low, codeword = costs.min(dim=1)
        current = codes[:, s].long()[:, None]
        better = low < costs.gather(1, current)[:, 0]
        codes[:, s] = codeword.where(better, current[:, 0]).to(codes.dtype)
        unchanged = 0 if bool(better.any()) else unchanged + 1
        if unchanged == m:
            return
