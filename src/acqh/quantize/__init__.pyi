from acqh.quantize.code_search import search_codes as search_codes
from acqh.quantize.codebooks import decode as decode
from acqh.quantize.codebooks import quantization_errors as quantization_errors
from acqh.quantize.drift import Drift as Drift
from acqh.quantize.quantizer import AdditiveQuantizer as AdditiveQuantizer
from acqh.quantize.train import QuantizerFit as QuantizerFit
from acqh.quantize.train import fit_codebooks as fit_codebooks
