"""Bulk scoring on tensors: every query against every code, for many queries at once."""

from acqh._core.device import MAX_MEMORY, Tensor, row_blocks
from acqh._core.imports import require
from acqh.errors import InvalidInputError


def score_all(
    queries: Tensor, codes: Tensor, codebooks: Tensor, k: int, *, max_memory: int = MAX_MEMORY
) -> tuple[Tensor, Tensor]:
    """Return the best items of each query, all scores computed, on the device of the tensors.

    For many queries at once on a GPU, where one product of matrices beats any pruning. For
    single queries, filters or a CPU take `CodeIndex`.

    Parameters
    ----------
    queries : tensor (n_queries, n_components)
    codes : tensor uint8 (n_items, n_codebooks)
    codebooks : tensor (n_codebooks, codebook_size, n_components)
    k : int
        At most the number of items.
    max_memory : int
        Bytes of working memory on the device.

    Returns
    -------
    rows : tensor int64 (n_queries, k)
        Positions in `codes`, best first.
    scores : tensor (n_queries, k)
        Of the dtype of `codebooks`. Which of two equal scores comes first is left open.

    Raises
    ------
    InvalidInputError
        Tensors of other shapes or devices, `k` out of range, or too little memory for one item.

    Examples
    --------
    >>> import torch
    >>> from acqh.index import score_all
    >>> codebooks = torch.tensor([[[0.0], [2.0]], [[0.0], [1.0]]])
    >>> codes = torch.tensor([[0, 1], [1, 1], [1, 0]], dtype=torch.uint8)
    >>> score_all(torch.tensor([[1.0]]), codes, codebooks, k=2)
    (tensor([[1, 2]]), tensor([[3., 2.]]))
    """
    torch = require("torch")
    _check(queries, codes, codebooks, k)
    dtype = codebooks.dtype
    n_queries = len(queries)
    rows = torch.empty((n_queries, 0), dtype=torch.int64, device=codes.device)
    scores = torch.empty((n_queries, 0), dtype=dtype, device=codes.device)
    queries = queries.to(dtype)
    # A block holds its decoded vectors and, for each query, a score and what topk makes of it.
    per_item = dtype.itemsize * (codebooks.shape[2] + 3 * n_queries)
    for block in row_blocks(len(codes), per_item, max_memory):
        words = codes[block].long()
        vectors = codebooks[0][words[:, 0]]
        for s in range(1, len(codebooks)):
            vectors += codebooks[s][words[:, s]]
        best, places = (queries @ vectors.T).topk(min(k, len(vectors)), dim=1)
        scores = torch.cat([scores, best], dim=1)
        rows = torch.cat([rows, places + block.start], dim=1)
        scores, places = scores.topk(min(k, scores.shape[1]), dim=1)
        rows = rows.gather(1, places)
    return rows, scores


def _check(queries: Tensor, codes: Tensor, codebooks: Tensor, k: int) -> None:
    if queries.ndim != 2 or codes.ndim != 2 or codebooks.ndim != 3:
        raise InvalidInputError(
            "queries must be (n_queries, n_components), codes (n_items, n_codebooks) and codebooks "
            f"(n_codebooks, codebook_size, n_components), got {tuple(queries.shape)}, "
            f"{tuple(codes.shape)} and {tuple(codebooks.shape)}"
        )
    if codes.shape[1] != len(codebooks) or queries.shape[1] != codebooks.shape[2]:
        raise InvalidInputError(
            f"codes of {codes.shape[1]} words and queries of {queries.shape[1]} components do not "
            f"fit codebooks of shape {tuple(codebooks.shape)}"
        )
    if not queries.device == codes.device == codebooks.device:
        raise InvalidInputError(
            f"queries are on {queries.device}, codes on {codes.device}, codebooks on "
            f"{codebooks.device}; move them to one device"
        )
    if not 1 <= k <= len(codes):
        raise InvalidInputError(f"k must be 1 to {len(codes)}, the number of items, got {k}")
