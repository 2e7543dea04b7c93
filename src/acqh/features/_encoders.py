"""Encoders of raw items, by name."""

from typing import Any, Literal

from acqh._core.errors import InvalidInputError
from acqh._core.random import RandomState
from acqh.features._hog import HogColour
from acqh.features._text import TfidfText

_TEXT_COMPONENTS = 500


def make_encoder(
    kind: Any, *, view: Literal["image", "text"], random_state: RandomState = None
) -> Any:
    """Make an unfitted encoder of pictures or texts.

    Parameters
    ----------
    kind : str or encoder
        For pictures ``"hog"``; for texts ``"tfidf"``. Or any object with the methods of
        `Encoder`, which is used as it is.
    view : {"image", "text"}
    random_state : int, Generator or None
        For encoders that draw at random.

    Returns
    -------
    Encoder

    Raises
    ------
    InvalidInputError
        The name is unknown.

    Examples
    --------
    >>> make_encoder("hog", view="image")
    HogColour()
    """
    if not isinstance(kind, str):
        return kind
    if view == "image" and kind == "hog":
        return HogColour()
    if view == "text" and kind == "tfidf":
        return TfidfText(n_components=_TEXT_COMPONENTS, random_state=random_state)
    raise InvalidInputError(f"no encoder of view {view!r} is called {kind!r}")
