"""Exchange with other libraries: Faiss indexes in both directions, scores on torch devices."""

from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.device import MAX_MEMORY, Tensor, row_blocks
from acqh._core.imports import require
from acqh.errors import InvalidInputError


def to_faiss(codebooks: Floats, codes: Array) -> Any:
    """Return a ``faiss.IndexResidualQuantizer`` with the same codebooks and codes.

    `codebooks`: (n_codebooks, codebook_size, n_components) float32. `codes`: (n_items, n_codebooks)
    uint8.
    """
    faiss = require("faiss")
    n_codebooks, codebook_size, n_components = codebooks.shape
    n_bits = _codeword_bits(codebook_size)
    index = faiss.IndexResidualQuantizer(
        n_components,
        n_codebooks,
        n_bits,
        faiss.METRIC_INNER_PRODUCT,
        faiss.AdditiveQuantizer.ST_LUT_nonorm,
    )
    # Faiss has codebooks of a power of two; no code uses the padding codewords.
    codewords = np.zeros((n_codebooks, 1 << n_bits, n_components), dtype=np.float32)
    codewords[:, :codebook_size] = codebooks
    faiss.copy_array_to_vector(codewords.ravel(), index.rq.codebooks)
    faiss.copy_array_to_vector(faiss_codes(codes, codebook_size).ravel(), index.codes)
    index.ntotal = len(codes)
    index.rq.is_trained = index.is_trained = True
    return index


def faiss_codes(codes: Array, codebook_size: int) -> Array:
    """Return codes in the packed layout of Faiss: each codeword in as few bits as it needs.

    Parameters
    ----------
    codes : (n_items, n_codebooks) uint8
    codebook_size : int

    Returns
    -------
    (n_items, n_bytes) uint8

    Examples
    --------
    >>> faiss_codes(np.array([[1, 2]], dtype=np.uint8), codebook_size=16)
    array([[33]], dtype=uint8)
    """
    n_bits = _codeword_bits(codebook_size)
    if n_bits == 8:
        return codes
    bits = np.unpackbits(codes[:, :, np.newaxis], axis=2, count=n_bits, bitorder="little")
    rows = bits.reshape(len(codes), codes.shape[1] * n_bits)
    return np.packbits(rows, axis=1, bitorder="little")


def from_faiss(index: Any) -> tuple[Floats, Array]:
    """Return the codebooks and codes of a Faiss index of additive codes.

    Parameters
    ----------
    index : faiss.IndexAdditiveQuantizer
        Trained, with inner product as its metric, such as ``IndexResidualQuantizer`` or
        ``IndexLocalSearchQuantizer``.

    Returns
    -------
    codebooks : (n_codebooks, codebook_size, n_components) float32
        Padded with zeros to the size of the largest codebook.
    codes : (n_items, n_codebooks) uint8

    Raises
    ------
    InvalidInputError
        Another kind of index, metric or code.
    """
    faiss = require("faiss")
    index = faiss.downcast_index(index)
    if not isinstance(index, faiss.IndexAdditiveQuantizer) or not index.is_trained:
        raise InvalidInputError(
            f"index must be a trained faiss.IndexResidualQuantizer, got {type(index).__name__}"
        )
    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise InvalidInputError(
            f"the Faiss index has metric {index.metric_type}; use METRIC_INNER_PRODUCT"
        )
    quantizer = index.aq
    n_bits = [quantizer.nbits.at(s) for s in range(quantizer.M)]
    if max(n_bits) > 8:
        raise InvalidInputError(
            f"the Faiss index has codebooks of {2 ** max(n_bits)} codewords; use at most 256"
        )
    codewords = faiss.vector_to_array(quantizer.codebooks).reshape(-1, index.d)
    codebooks = np.zeros((len(n_bits), 1 << max(n_bits), index.d), dtype=np.float32)
    first = 0
    for codebook, bits in zip(codebooks, n_bits, strict=True):
        codebook[: 1 << bits] = codewords[first : first + (1 << bits)]
        first += 1 << bits
    packed = faiss.vector_to_array(index.codes).reshape(index.ntotal, -1)
    return codebooks, _unpack(packed, n_bits)


def _codeword_bits(codebook_size: int) -> int:
    return max(1, int(codebook_size - 1).bit_length())


def _unpack(packed: Array, n_bits: list[int]) -> Array:
    """Return the codes of packed codewords of these numbers of bits; ignore the padding bits."""
    bits = np.unpackbits(packed, axis=1, count=sum(n_bits), bitorder="little")
    ends = np.cumsum(n_bits)
    codewords = [
        np.packbits(bits[:, end - width : end], axis=1, bitorder="little")
        for end, width in zip(ends, n_bits, strict=True)
    ]
    return np.concatenate(codewords, axis=1)


def exhaustive_search(
    queries: Tensor, codes: Tensor, codebooks: Tensor, k: int, *, max_memory: int = MAX_MEMORY
) -> tuple[Tensor, Tensor]:
    """Return the best items of each query by exhaustive search on the device of the tensors.

    For many queries at once on a GPU, where one matrix product is faster than pruning. For single
    queries, filters or a CPU use `CodeIndex`.

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
        Of the dtype of `codebooks`. The order of equal scores is undefined.

    Raises
    ------
    InvalidInputError
        Tensors of other shapes or devices, `k` out of range, or too little memory for one item.

    Examples
    --------
    >>> import torch
    >>> from acqh.index import exhaustive_search
    >>> codebooks = torch.tensor([[[0.0], [2.0]], [[0.0], [1.0]]])
    >>> codes = torch.tensor([[0, 1], [1, 1], [1, 0]], dtype=torch.uint8)
    >>> exhaustive_search(torch.tensor([[1.0]]), codes, codebooks, k=2)
    (tensor([[1, 2]]), tensor([[3., 2.]]))
    """
    torch = require("torch")
    _check(queries, codes, codebooks, k)
    dtype = codebooks.dtype
    n_queries = len(queries)
    rows = torch.empty((n_queries, 0), dtype=torch.int64, device=codes.device)
    scores = torch.empty((n_queries, 0), dtype=dtype, device=codes.device)
    queries = queries.to(dtype)
    # A block holds its decoded vectors and, per query, a score and the output of topk.
    per_item = dtype.itemsize * (codebooks.shape[2] + 3 * n_queries)
    for block in row_blocks(len(codes), per_item, max_memory):
        codewords = codes[block].long()
        vectors = codebooks[0][codewords[:, 0]]
        for s in range(1, len(codebooks)):
            vectors += codebooks[s][codewords[:, s]]
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
            f"codes of {codes.shape[1]} bytes and queries of {queries.shape[1]} dimensions do not "
            f"fit codebooks of shape {tuple(codebooks.shape)}"
        )
    if not queries.device == codes.device == codebooks.device:
        raise InvalidInputError(
            f"queries are on {queries.device}, codes on {codes.device}, codebooks on "
            f"{codebooks.device}; move them to one device"
        )
    if not 1 <= k <= len(codes):
        raise InvalidInputError(f"k must be 1 to {len(codes)}, the number of items, got {k}")
