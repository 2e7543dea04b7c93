"""Additive codebooks: train, encode, decode, lookup tables."""

from acqh.quantize.code_search import search_codes
from acqh.quantize.codebooks import (
    decode,
    improve_codebooks,
    least_squares_codebooks,
    lookup_tables,
    quantization_errors,
    table_scores,
)
from acqh.quantize.grow import grow_codebooks
from acqh.quantize.kmeans import residual_kmeans, weighted_kmeans
from acqh.quantize.quantizer import AdditiveQuantizer
from acqh.quantize.train import QuantizerFit, fit_codebooks, refill_unused_words

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
