"""English words: whether a text is English, and which known word a typo is of.

Three lists decide: English words that MiniLM knows, other English words, and words of other
languages. A word of none of them counts as English if it is one or two typos from a known word;
otherwise its letters decide. `tools/learn_languages.py` makes the lists.
"""

import gzip
import re
import unicodedata
from bisect import bisect_left
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np

from acqh._core.arrays import Array

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
    odds = sum(int(_letter_odds()[triple]) for triple in triples)
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
def _letter_odds() -> Array:
    """Return int8 (27, 27, 27): log odds of three letters in other languages; 0 is a word's end."""
    with np.load(str(files("acqh.encoders") / "languages.npz"), allow_pickle=False) as stored:
        return np.asarray(stored["letter_odds"])


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
