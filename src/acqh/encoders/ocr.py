"""Text in images, read by RapidOCR on this machine: its networks come with the package."""

import math
import os
import re
import threading
from functools import cache
from typing import Any

import numpy as np

from acqh._core.imports import require
from acqh.encoders.images import ImageLike, read_image
from acqh.encoders.minilm import vocabulary

# Longest side in pixels. On drawn pages of 1,000, 1,500 and 2,000 pixels, 20, 67 and 93 % of the
# words are read as separate words; with `_separate`, 96, 97 and 99.7 %.
_SIDE = 2_000
# Smaller images have no legible text.
_MIN_SIDE = 32
_MAX_CHARACTERS = 20_000
# Words of so many letters may be several; those of fewer, such as "screenshots", mostly are not.
_LONG_WORD = 13
# Words of documents and screens that the vocabulary lacks.
_MORE_WORDS = (
    *("checkout", "inbox", "invoice", "itinerary", "login", "overdue", "refund"),
    *("screenshot", "subtotal", "upload", "username", "voucher", "warranty"),
)
_LETTERS = re.compile(r"[^\W\d_]+")
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[a-z]{4})(?=\d)")
# The vocabulary is sorted by frequency. Rare ones of two letters are abbreviations.
_N_FREQUENT, _LETTER_WORDS = 2_700, ("a", "i")
# Fewer letters per word are the tokens of one unknown word.
_MIN_MEAN_LETTERS = 3.5
# Least shares of two neighbouring ones of 16 greys, of smooth pixels and of sharp edges.
_MIN_COMMON, _MIN_SMOOTH, _MIN_SHARP = 0.45, 0.6, 0.001
_one_at_a_time = threading.Lock()


def read_text(image: ImageLike) -> str:
    """Return the text in an image, line by line; empty if there is none.

    Raises ImageError: the image cannot be read. Raises MissingExtraError: the extra ``ocr`` is not
    installed.
    """
    engine = _engine()
    picture = read_image(image, name="the image", side=_SIDE // 2)
    picture.thumbnail((_SIDE, _SIDE))
    if min(picture.size) < _MIN_SIDE:
        return ""
    pixels = np.ascontiguousarray(np.asarray(picture)[:, :, ::-1])  # blue first
    with _one_at_a_time:
        lines, _ = engine(pixels, use_cls=False)
    texts = (" ".join(map(_separate, line.split())) for _, line, _ in lines or ())
    text = "\n".join(texts)[:_MAX_CHARACTERS]
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def may_have_text(image: Any) -> bool:
    """Whether an image looks like a document or a screenshot: smooth, few greys, sharp edges.

    True of all of 80 drawn pages and screens, and of 15 % of 800 photos of COCO and Flickr.
    """
    grey = np.asarray(image.convert("L"), dtype=np.int16)
    shares = np.bincount(grey.ravel() // 16, minlength=16) / grey.size
    steps = np.abs(np.diff(grey, axis=1))
    if not steps.size or (shares[1:] + shares[:-1]).max() < _MIN_COMMON:
        return False
    return bool(np.mean(steps <= 6) >= _MIN_SMOOTH and np.mean(steps > 60) >= _MIN_SHARP)


def check_ocr() -> None:
    """Raise MissingExtraError if the extra ``ocr`` is not installed."""
    _engine()


@cache
def _engine() -> Any:
    before = dict(os.environ)
    try:
        return require("rapidocr_onnxruntime").RapidOCR()
    finally:  # OpenCV sets variables that other programs would inherit
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _separate(word: str) -> str:
    """Return a long word as several words if spaces between them were not recognized.

    Examples
    --------
    >>> _separate("MeetingatLakeGarda"), _separate("Rechnungsnummer")
    ('Meeting at Lake Garda', 'Rechnungsnummer')
    """
    if len(word) < _LONG_WORD:
        return word
    parts = _BOUNDARY.sub(" ", word)
    return _LETTERS.sub(lambda letters: _most_likely(letters[0]), parts)


def _most_likely(letters: str) -> str:
    """Return letters as the known words that are most frequent together, or as they are."""
    costs = _costs()
    folded, n_letters = letters.lower(), len(letters)
    if folded in costs or len(folded) != n_letters:
        return letters
    best, starts = [0.0] + [math.inf] * n_letters, [0] * (n_letters + 1)
    for end in range(1, n_letters + 1):
        for start in range(max(0, end - 20), end):
            cost = best[start] + costs.get(folded[start:end], math.inf)
            if cost < best[end]:
                best[end], starts[end] = cost, start
    if math.isinf(best[-1]):
        return letters
    words, end = [], n_letters
    while end:
        words.append(letters[starts[end] : end])
        end = starts[end]
    is_likely = len(words) * _MIN_MEAN_LETTERS <= n_letters
    return " ".join(reversed(words)) if is_likely else letters


@cache
def _costs() -> dict[str, float]:
    """Return the logarithms of the ranks of known words."""
    words = [word for word in vocabulary() if word.isalpha()]
    costs = {
        word: math.log(1 + rank)
        for rank, word in enumerate(words)
        if len(word) > 2 or word in _LETTER_WORDS or (len(word) == 2 and rank < _N_FREQUENT)
    }
    return costs | dict.fromkeys(_MORE_WORDS, math.log(len(words) // 2))
