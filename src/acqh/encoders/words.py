"""Texts by their words: folded, counted, weighted."""

import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

from acqh._core.runtime import RandomState
from acqh.errors import InvalidInputError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


def fold_text(text: str) -> str:
    """Return a text in which case and Unicode forms make no difference; refuse what is not text.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Raises
    ------
    InvalidInputError
        It is not a string.

    Examples
    --------
    >>> from acqh.encoders.words import fold_text
    >>> fold_text("STRASSE") == fold_text("Straße")
    True
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a text is a {type(text).__name__}; give strings, empty ones for no text"
        )
    return unicodedata.normalize("NFKC", text).casefold()


def word_vectorizer(**params: Any) -> "TfidfVectorizer":
    """Return scikit-learn's ``TfidfVectorizer`` of all words, case and Unicode forms folded.

    Words are runs of letters, digits and underscores; those that ``fit`` did not see are ignored.

    Parameters
    ----------
    **params
        Of ``TfidfVectorizer``, in place of the above; ``use_idf=False, norm=None`` counts words.

    Returns
    -------
    sklearn.feature_extraction.text.TfidfVectorizer
        Gives CSR, float32.

    Examples
    --------
    >>> from acqh.encoders import word_vectorizer
    >>> encoder = word_vectorizer().fit(["a red rose", "a red car"])
    >>> encoder.transform(["Red, red roses!"]).toarray()
    array([[0., 0., 1., 0.]], dtype=float32)
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # which queries may not need

    chosen = {"preprocessor": fold_text, "token_pattern": r"\w+", "dtype": np.float32}
    return TfidfVectorizer(**{**chosen, **params})


def tfidf_encoder(n_components: int, random_state: RandomState = None) -> Any:
    """Return the words' weights, on this many components of their SVD."""
    from sklearn.pipeline import Pipeline

    from acqh.features.simple import TagSVD

    words = word_vectorizer()
    return Pipeline([("words", words), ("svd", TagSVD(n_components, random_state=random_state))])
