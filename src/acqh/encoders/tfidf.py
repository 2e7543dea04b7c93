"""The TF-IDF encoder of texts, of scikit-learn's parts."""

from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline

from acqh._core.runtime import RandomState
from acqh.encoders.words import fold_text
from acqh.features.svd import TagSVD


def word_vectorizer(**params: Any) -> TfidfVectorizer:
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
    chosen = {"preprocessor": fold_text, "token_pattern": r"\w+", "dtype": np.float32}
    return TfidfVectorizer(**{**chosen, **params})


def tfidf_encoder(
    n_components: int | None, *, min_texts: int = 1, random_state: RandomState = None
) -> Any:
    """Return the words' weights, on this many components of their SVD where a number is given."""
    words = word_vectorizer(min_df=min_texts)
    if n_components is None:
        return words
    return Pipeline([("words", words), ("svd", TagSVD(n_components, random_state=random_state))])
