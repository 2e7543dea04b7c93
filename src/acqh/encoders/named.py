"""Encoders of raw items: what they must do, and the named ones."""

import warnings
from collections.abc import Iterable
from typing import Any, Literal, Protocol, Self

from acqh._core.arrays import Array, Matrix
from acqh._core.runtime import RandomState
from acqh.encoders.clip import ClipImages, ClipTexts, EfficientNetLite0, MiniLM
from acqh.encoders.hog import HogColour
from acqh.encoders.tfidf import tfidf_encoder
from acqh.errors import EncoderFallbackWarning, InvalidInputError, MissingExtraError

# Components of TF-IDF weights; as many are in the texts of the data sets of the literature.
_TEXT_COMPONENTS = 500
_NAMES = {
    "image": "auto, efficientnet, hog, clip, siglip, clip:PATH",
    "text": "auto, minilm, tfidf, clip, siglip, clip:PATH",
}
# Names by which the usual models are fetched where there is a network.
_MODELS = {"clip": "openai/clip-vit-base-patch32", "siglip": "google/siglip-base-patch16-224"}


class Encoder(Protocol):
    """What describes raw images or texts by numbers.

    A class of one's own needs these methods and `acqh.encoders.register_encoder`, which lets it
    be stored: by its name, its parameters (JSON values) and its state (named arrays). Deriving
    from scikit-learn's ``BaseEstimator`` brings ``get_params``.
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
        both, in one space, ``"clip"`` or ``"siglip"``, or ``"clip:PATH"`` with a folder or a
        model's name. ``"auto"`` is the first of each; where its packages are not installed it is
        the second, with a warning that says so. An encoder is returned as it is.
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
    HogColour()
    """
    if not isinstance(kind, str):
        return kind
    family, _, model = kind.partition(":")
    if family in _MODELS and (model or ":" not in kind):
        model = model or _MODELS[family]
        return ClipImages(model) if view == "image" else ClipTexts(model)
    if kind == "auto":
        kind = _best_installed(view)
    match view, kind:
        case "image", "hog":
            return HogColour()
        case "image", "efficientnet":
            return EfficientNetLite0()
        case "text", "minilm":
            return MiniLM()
        case "text", "tfidf":
            return tfidf_encoder(_TEXT_COMPONENTS, random_state=random_state)
    raise InvalidInputError(f"no encoder for {view} is called {kind!r}; there are: {_NAMES[view]}")


def _best_installed(view: str) -> str:
    """Return the name that ``"auto"`` stands for here."""
    best, second = ("efficientnet", "hog") if view == "image" else ("minilm", "tfidf")
    try:
        (EfficientNetLite0() if view == "image" else MiniLM()).check_installed()
    except MissingExtraError as error:
        warnings.warn(
            f"the {view} encoder is {second!r} rather than {best!r}: {error}",
            EncoderFallbackWarning,
            stacklevel=3,
        )
        return second
    return best
