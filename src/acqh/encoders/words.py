"""Texts in which case and Unicode forms make no difference."""

import unicodedata

from acqh.errors import InvalidInputError


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
    >>> from acqh.encoders import fold_text
    >>> fold_text("STRASSE") == fold_text("Straße")
    True
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a text is a {type(text).__name__}; give strings, empty ones for no text"
        )
    return unicodedata.normalize("NFKC", text).casefold()
