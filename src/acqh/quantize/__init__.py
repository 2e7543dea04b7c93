"""Additive codebooks: train, encode, decode."""

from acqh.quantize.code_search import search_codes
from acqh.quantize.codebooks import (
    decode,
    improve_codebooks,
    least_squares_codebooks,
    quantization_errors,
)
from acqh.quantize.kmeans import weighted_kmeans
from acqh.quantize.quantizer import AdditiveQuantizer
from acqh.quantize.train import QuantizerFit, fit_codebooks, refill_unused_words

__all__ = [
    "AdditiveQuantizer",
    "QuantizerFit",
    "decode",
    "fit_codebooks",
    "improve_codebooks",
    "least_squares_codebooks",
    "quantization_errors",
    "refill_unused_words",
    "search_codes",
    "weighted_kmeans",
]
