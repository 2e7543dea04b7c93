"""Words and pieces of words, as BERT's uncased models number them."""

import gzip
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
_LONGEST_WORD = 100
# What Unicode does not call punctuation, but BERT does.
_ASCII_MARKS = frozenset("$+<=>^`|~")
_IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2FA1F), (0xF900, 0xFAFF))


@cache
def vocabulary() -> dict[str, int]:
    """Return the 30,522 pieces and their numbers."""
    packed = (files("acqh.encoders") / "wordpiece.txt.gz").read_bytes()
    return {piece: number for number, piece in enumerate(gzip.decompress(packed).decode().split())}


def numbers_of(text: str, longest: int) -> list[int]:
    """Return the numbers of a text's pieces between a start and an end mark, `longest` at most.

    Examples
    --------
    >>> numbers_of("Unaffable!", 9)
    [101, 14477, 20961, 3468, 999, 102]
    """
    known = vocabulary()
    pieces = [number for word in _words(text) for number in _pieces(word)]
    return [known[_START], *pieces[: longest - 2], known[_END]]


def is_word(text: str) -> bool:
    """Whether a text is one word that needs no pieces.

    Examples
    --------
    >>> is_word("Automobile"), is_word("flwer"), is_word("a rose")
    (True, False, False)
    """
    words = _words(text)
    return len(words) == 1 and words[0] in vocabulary()


def _words(text: str) -> list[str]:
    """Lower case without accents; marks and ideographs are words of their own."""
    spaced = []
    for letter in unicodedata.normalize("NFD", _clean(text).lower()):
        kind = unicodedata.category(letter)
        if kind == "Mn":
            continue
        alone = kind[0] == "P" or letter in _ASCII_MARKS or _is_ideograph(letter)
        spaced.append(f" {letter} " if alone else letter)
    return "".join(spaced).split()


def _clean(text: str) -> str:
    return "".join(
        " " if letter.isspace() else letter
        for letter in text
        if letter in "\t\n\r" or (letter != "\ufffd" and unicodedata.category(letter)[0] != "C")
    )


def _is_ideograph(letter: str) -> bool:
    return letter > "\u33ff" and any(low <= ord(letter) <= high for low, high in _IDEOGRAPHS)


@lru_cache(maxsize=1 << 16)
def _pieces(word: str) -> tuple[int, ...]:
    """Return the longest pieces from the left that make up a word."""
    known = vocabulary()
    if len(word) > _LONGEST_WORD:
        return (known[_UNKNOWN],)
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else f"##{word[start:end]}"
            if piece in known:
                found.append(known[piece])
                start = end
                break
        else:
            return (known[_UNKNOWN],)
    return tuple(found)
