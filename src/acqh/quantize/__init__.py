"""Additive codebooks: train, encode, decode, lookup tables."""

from acqh.quantize._code_search import search_codes
from acqh.quantize._codebooks import (
    decode,
    improve_codebooks,
    least_squares_codebooks,
    lookup_tables,
    quantization_errors,
    table_scores,
)
from acqh.quantize._grow import grow_codebooks
from acqh.quantize._kmeans import residual_kmeans, weighted_kmeans
from acqh.quantize._quantizer import AdditiveQuantizer
from acqh.quantize._train import QuantizerFit, fit_codebooks, refill_unused_words

__all__ = [
    "AdditiveQuantizer",
    "QuantizerFit",
    "decode",
    "fit_codebooks",
    "grow_codebooks",
    "improve_codebooks",
    "least_squares_codebooks",
    "lookup_tables",
    "quantization_errors",
    "refill_unused_words",
    "residual_kmeans",
    "search_codes",
    "table_scores",
    "weighted_kmeans",
]
