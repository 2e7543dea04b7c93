"""Encoders of raw items: what they must do, the named ones, and texts by their words."""

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh._core.runtime import RandomState
from acqh._core.store import resolve
from acqh.errors import EncoderFallbackWarning, InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

# Classes that stored state can name, and their modules; `register_encoder` adds to it.
STORED: dict[str, Any] = {
    "ClipImages": "acqh.encoders.clip",
    "ClipTexts": "acqh.encoders.clip",
    "EfficientNetLite0": "acqh.encoders.efficientnet",
    "BuiltinMap": "acqh.encoders.builtin",
    "HogColor": "acqh.encoders.hog",
    "MiniLM": "acqh.encoders.minilm",
    "fold_text": "acqh.encoders.named",
}
_CLASSES = {
    ("image", "efficientnet"): "EfficientNetLite0",
    ("image", "hog"): "HogColor",
    ("text", "minilm"): "MiniLM",
}
_METHODS = ("fit", "transform", "get_params", "get_state", "set_state")
# Components of TF-IDF weights; as many are in the texts of the data sets of the literature.
_TEXT_COMPONENTS = 500
_NAMES = {
    "image": "auto, efficientnet, hog",
    "text": "auto, minilm, tfidf",
}


T = TypeVar("T")


class Encoder(Protocol):
    """Encoder of raw images or texts.

    A class of one's own needs these methods and `acqh.encoders.register_encoder`, which lets it
    be stored: by its name, its parameters (JSON values) and its state (named arrays). Deriving
    from scikit-learn's ``BaseEstimator`` brings ``get_params``.

    Examples
    --------
    >>> encoder: Encoder = make_encoder("tfidf", view="text")
    >>> encoder.fit(["a red rose", "a fast car"]).transform(["rose", "xyz"]).shape[0]
    2
    """

    def fit(self, raw: Iterable[Any], y: Any = None) -> Self:
        """Learn from images (paths, bytes or Pillow images) or from texts."""

    def transform(self, raw: Iterable[Any]) -> Matrix:
        """Return one row per image or text; a row of zeros means that nothing in it is known."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments."""

    def get_state(self) -> dict[str, Array]:
        """Return what `fit` learnt."""

    def set_state(self, arrays: dict[str, Array]) -> Self:
        """Become fitted with what `get_state` gave; raise InvalidInputError if it cannot be."""


def make_encoder(
    kind: Any, *, view: Literal["image", "text"], random_state: RandomState = None
) -> Any:
    """Make an encoder of images or texts.

    Parameters
    ----------
    kind : str or Encoder
        For images ``"efficientnet"`` or ``"hog"``, for texts ``"minilm"`` or ``"tfidf"``; for
        both, in one space, a CLIP model: see `ClipImages`. ``"auto"`` is the first of each; if its
        packages are not installed, it is the second, with a warning. An encoder is returned as it
        is.
    view : {"image", "text"}
    random_state : int, Generator or None
        For encoders that draw at random.

    Returns
    -------
    Encoder
        Not fitted, unless it was given so.

    Raises
    ------
    InvalidInputError
        The name is unknown.

    Warns
    -----
    EncoderFallbackWarning
        ``"auto"`` without the packages that it needs.

    Examples
    --------
    >>> from acqh.encoders import make_encoder
    >>> make_encoder("hog", view="image")
    HogColor()
    """
    if not isinstance(kind, str):
        return kind
    if kind == "auto":
        kind = _best_installed(view)
    if (view, kind) in _CLASSES:
        return resolve(_CLASSES[view, kind], STORED)()
    if (view, kind) == ("text", "tfidf"):
        return tfidf_encoder(_TEXT_COMPONENTS, random_state)
    from acqh.encoders.models import REPOSITORIES, is_model_name  # for CLIP alone

    if is_model_name(kind):
        return resolve("ClipImages" if view == "image" else "ClipTexts", STORED)(kind)
    raise InvalidInputError(
        f"no {view} encoder is called {kind!r}; use {_NAMES[view]}, the folder or OWNER/NAME of a "
        f"CLIP model, or one of {', '.join(REPOSITORIES)}"
    )


def _best_installed(view: str) -> str:
    """Return the name that ``"auto"`` stands for here."""
    best, second = ("efficientnet", "hog") if view == "image" else ("minilm", "tfidf")
    try:
        resolve(_CLASSES[view, best], STORED)().check_installed()
    except MissingExtraError as error:
        warnings.warn(
            f"the {view} encoder is {second!r} rather than {best!r}: {error}",
            EncoderFallbackWarning,
            stacklevel=3,
        )
        return second
    return best


def register_encoder(kind: type[T]) -> type[T]:
    """Let an encoder, or feature map, of one's own be stored; to be used as a decorator.

    What is stored names the class, not where it is defined: those who open it register the class
    first. See `acqh.encoders.Encoder` for what the class needs.

    Parameters
    ----------
    kind : type
        With ``fit``, ``transform``, ``get_params``, ``get_state`` and ``set_state``.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    InvalidInputError
        A method is missing, or another class has the name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from acqh.encoders import register_encoder
    >>> @register_encoder
    ... class TextLength(BaseEstimator):
    ...     def fit(self, texts, y=None):
    ...         return self
    ...
    ...     def transform(self, texts):
    ...         return np.array([[len(text), 1.0] for text in texts])
    ...
    ...     def get_state(self):
    ...         return {}
    ...
    ...     def set_state(self, arrays):
    ...         return self
    """
    needed = _METHODS[:3] if hasattr(kind, "_state_axes") else _METHODS
    missing = [name for name in needed if not callable(getattr(kind, name, None))]
    if missing:
        raise InvalidInputError(f"{kind.__name__} has no {', '.join(missing)}; encoders need it")
    other = STORED.get(kind.__name__, kind)
    if isinstance(other, str) or other.__module__ != kind.__module__:
        raise InvalidInputError(f"there is another class {kind.__name__}; choose another name")
    STORED[kind.__name__] = kind
    return kind


def fold_text(text: str) -> str:
    """Return a text in which case and Unicode forms make no difference.

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
    >>> from acqh.encoders.named import fold_text
    >>> fold_text("STRASSE") == fold_text("Straße")
    True
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a text is a {type(text).__name__}; give strings, empty ones for no text"
        )
    return unicodedata.normalize("NFKC", text).casefold()


def tfidf_vectorizer(**params: Any) -> "TfidfVectorizer":
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
    >>> from acqh.encoders import tfidf_vectorizer
    >>> encoder = tfidf_vectorizer().fit(["a red rose", "a red car"])
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

    words = tfidf_vectorizer()
    return Pipeline([("words", words), ("svd", TagSVD(n_components, random_state=random_state))])


def encode_one(encoder: Any) -> Callable[[str], Floats] | None:
    """Return what encodes one text like a `tfidf_encoder`, to the bit; None of another encoder.

    scikit-learn checks its rows at each of six steps: 1 ms for a query, without them 0.05 ms.

    Examples
    --------
    >>> encoder = tfidf_encoder(2, random_state=0).fit(["a red rose", "a red car"])
    >>> encode = encode_one(encoder)
    >>> bool((encode("Red, red roses!") == encoder.transform(["Red, red roses!"])).all())
    True
    """
    steps = dict(getattr(encoder, "steps", ()))
    if steps.keys() != {"words", "svd"}:
        return None
    if encoder not in _ENCODE_ONE:
        _ENCODE_ONE[encoder] = _encode_one(**steps)
    return _ENCODE_ONE[encoder]


# By encoder, as long as there is this.
_ENCODE_ONE: WeakKeyDictionary[Any, Callable[[str], Floats] | None] = WeakKeyDictionary()


def _encode_one(words: Any, svd: Any) -> Callable[[str], Floats] | None:
    if words.get_params() != tfidf_vectorizer().get_params():
        return None
    split, columns_of = re.compile(words.token_pattern).findall, words.vocabulary_
    idf, components = words.idf_, svd.components_

    def encode(text: str) -> Floats:
        present = (columns_of.get(word) for word in split(fold_text(text)))
        counts = Counter(column for column in present if column is not None)
        columns = np.array(sorted(counts), dtype=np.intp)
        weights = np.array([counts[column] for column in columns.tolist()], dtype=np.float32)
        weights *= idf[columns]
        squares = np.add.accumulate(weights * weights, dtype=np.float64)
        if squares.any():
            weights = (weights / np.sqrt(squares[-1])).astype(np.float32)
        products = components[:, columns].T.astype(np.float32, order="C") * weights[:, np.newaxis]
        # From the first word to the last, as SciPy adds the rows of a sparse product.
        return np.asarray(np.add.reduce(products, axis=0, initial=np.float32(0)))

    return encode
