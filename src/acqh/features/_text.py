"""The default encoder of texts: words, TF-IDF weights and, if wanted, a truncated SVD."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin

from acqh._core.arrays import Array, Matrix, check_positive_int
from acqh._core.random import RandomState
from acqh.errors import InvalidInputError
from acqh.features._base import UnfittedMapError
from acqh.features._counts import TagSVD, Tfidf

_WORD = re.compile(r"\w+")


class TfidfText(TransformerMixin, BaseEstimator):
    """Describe texts by the TF-IDF weights of their words.

    Words are runs of letters, digits and underscores, without regard to case. Those that were
    not seen by ``fit`` are ignored. Weights are those of `Tfidf`, components those of `TagSVD`.

    Parameters
    ----------
    min_texts : int, default 1
        Words in fewer training texts are left out.
    n_components : int, optional
        Project onto this many components; the result is then dense. Sparse weights by default.
    random_state : int, Generator or None
        For the projection.

    Attributes
    ----------
    vocabulary_ : tuple of str
        The words, in alphabetical order of their code points.
    tfidf_ : Tfidf
    svd_ : TagSVD or None

    Examples
    --------
    >>> from acqh.features import TfidfText
    >>> encoder = TfidfText().fit(["a red rose", "a red car"])
    >>> encoder.vocabulary_
    ('a', 'car', 'red', 'rose')
    >>> encoder.transform(["Red, red roses!"]).toarray()
    array([[0., 0., 1., 0.]], dtype=float32)
    """

    def __init__(
        self,
        *,
        min_texts: int = 1,
        n_components: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.min_texts = min_texts
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Collect the words and how rare they are.

        Parameters
        ----------
        texts : iterable of str, (n_items,)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A text is no string, or no word occurs in enough texts.
        """
        minimum = check_positive_int(self.min_texts, "min_texts")
        bags = _word_bags(texts)
        frequency = Counter(word for bag in bags for word in bag)
        words = tuple(sorted(word for word, count in frequency.items() if count >= minimum))
        if not words:
            raise InvalidInputError(
                f"no word occurs in {minimum} of the {len(bags)} texts; "
                "give texts with words or lower min_texts"
            )
        columns = _columns(words)
        counts = _count(bags, columns)
        tfidf = Tfidf().fit(counts)
        svd = None
        if self.n_components is not None:
            svd = TagSVD(self.n_components, random_state=self.random_state)
            svd.fit(tfidf.transform(counts))
        self.vocabulary_, self.tfidf_, self.svd_ = words, tfidf, svd
        self._columns = columns
        return self

    def transform(self, texts: Iterable[str]) -> Matrix:
        """Return the features of the texts.

        Parameters
        ----------
        texts : iterable of str, (n_items,)

        Returns
        -------
        csr_array (n_items, n_words) or ndarray (n_items, n_components), float32
        """
        counts = self.count(texts)
        weights = self.tfidf_.transform(counts)
        return weights if self.svd_ is None else self.svd_.transform(weights)

    def count(self, texts: Iterable[str]) -> Matrix:
        """Return how often each word of the vocabulary occurs in each text.

        Parameters
        ----------
        texts : iterable of str, (n_items,)

        Returns
        -------
        csr_array (n_items, n_words) float32
        """
        self._require_fitted()
        return _count(_word_bags(texts), self._columns)

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        """Return the words, or the names of the components."""
        self._require_fitted()
        if self.svd_ is not None:
            return np.asarray(self.svd_.get_feature_names_out())
        return np.array(self.vocabulary_, dtype=object)

    def get_state(self) -> dict[str, Array]:
        """Return what ``fit`` learnt as arrays; the vocabulary is the bytes of a JSON list."""
        self._require_fitted()
        written = json.dumps(self.vocabulary_, ensure_ascii=False).encode()
        state = {"vocabulary": np.frombuffer(written, dtype=np.uint8)}
        state.update({f"tfidf.{key}": value for key, value in self.tfidf_.get_state().items()})
        if self.svd_ is not None:
            state.update({f"svd.{key}": value for key, value in self.svd_.get_state().items()})
        return state

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Become fitted with what `get_state` gave.

        Parameters
        ----------
        arrays : dict of str to ndarray

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            Arrays are missing, unknown, or do not fit one another.
        """
        parts: dict[str, dict[str, Array]] = {"vocabulary": {}, "tfidf": {}, "svd": {}}
        for key, value in arrays.items():
            part, _, rest = key.partition(".")
            if part not in parts:
                raise InvalidInputError(f"state of TfidfText has an unknown array: {key!r}")
            parts[part][rest] = value
        words = _read_vocabulary(parts["vocabulary"])
        tfidf = Tfidf().set_state(parts["tfidf"])
        svd = None
        if self.n_components is not None:
            svd = TagSVD(self.n_components).set_state(parts["svd"])
        elif parts["svd"]:
            raise InvalidInputError("state of TfidfText has components, but n_components is None")
        widths = {len(words), tfidf.n_features_in_, *([svd.n_features_in_] if svd else [])}
        if len(widths) != 1:
            raise InvalidInputError(f"state of TfidfText is for {sorted(widths)} words at once")
        self.vocabulary_, self.tfidf_, self.svd_ = words, tfidf, svd
        self._columns = _columns(words)
        return self

    def _require_fitted(self) -> None:
        if not hasattr(self, "vocabulary_"):
            raise UnfittedMapError("this TfidfText is not fitted; call fit with training texts")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _word_bags(texts: Iterable[str]) -> list[Counter[str]]:
    if isinstance(texts, str):
        raise InvalidInputError("texts must be a list of strings, got one string")
    bags = []
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(
                f"text {position} is a {type(text).__name__}; give strings, empty ones for no text"
            )
        folded = unicodedata.normalize("NFKC", text).casefold()
        bags.append(Counter(_WORD.findall(folded)))
    return bags


def _columns(words: tuple[str, ...]) -> dict[str, int]:
    return {word: column for column, word in enumerate(words)}


def _count(bags: list[Counter[str]], columns: dict[str, int]) -> Matrix:
    known = [{columns[w]: n for w, n in bag.items() if w in columns} for bag in bags]
    indptr = np.cumsum([0, *(len(bag) for bag in known)])
    indices = np.array([j for bag in known for j in sorted(bag)], dtype=np.int32)
    data = np.array([bag[j] for bag in known for j in sorted(bag)], dtype=np.float32)
    return sp.csr_array((data, indices, indptr.astype(np.int32)), shape=(len(bags), len(columns)))


def _read_vocabulary(part: dict[str, Array]) -> tuple[str, ...]:
    try:
        words = json.loads(np.asarray(part[""], dtype=np.uint8).tobytes())
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"vocabulary of TfidfText is not readable: {error!r}") from error
    distinct = isinstance(words, list) and len(set(map(str, words))) == len(words)
    if not distinct or not all(isinstance(word, str) for word in words):
        raise InvalidInputError("vocabulary of TfidfText is no list of different words")
    return tuple(words)
