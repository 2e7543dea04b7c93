"""Signs: emoji and other symbols, and scripts without spaces, each character a word of the index.

SQLite's full-text index takes a line of Chinese for one word, and joins symbols to the letters
beside them. With spaces around such characters, a sign of several is a phrase.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

# Asks for the coloured form of a symbol; written or left out as programs please.
_COLOURED = "\ufe0f"
_JOINER, _KEYCAP = "\u200d", "\u20e3"
_SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
# Thai, Lao and Khmer; kana and Chinese characters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SPECIAL = re.compile(rf"{_UNSPACED.pattern}|[^\w\s\x00-\x7f]")


def is_sign(term: str) -> bool:
    """Whether a part of a query is looked for as it is.

    Examples
    --------
    >>> [is_sign(each) for each in ("🍕", "1️⃣", "東京", "C++", "dog", "!?", "+")]
    [True, True, True, False, False, False, False]
    """
    if _UNSPACED.search(term) or _KEYCAP in term:
        return True
    is_word = any(character.isalnum() for character in term)
    return not is_word and any(not each.isascii() and _stands_alone(each) for each in term)


def plain(text: str) -> str:
    """Return a text in its plainest letters: full-width ones, for example, are as others.

    Examples
    --------
    >>> plain("ｄｏｇ ❤️")
    'dog ❤'
    """
    return text if text.isascii() else unicodedata.normalize("NFKC", text.replace(_COLOURED, ""))


def spaced(text: str) -> str:
    """Return a text as it is indexed and asked for: plain, with spaces around signs.

    Examples
    --------
    >>> spaced("pizza🍕🍔 in 東京").split()
    ['pizza', '🍕', '🍔', 'in', '東', '京']
    """
    if text.isascii():
        return text
    return _SPECIAL.sub(lambda at: f" {at[0]} " if _stands_alone(at[0]) else at[0], plain(text))


def forms_of(term: str) -> list[str]:
    """Return a term, the same of any skin, and what it begins with."""
    same = _SKIN_TONES.sub("", term)
    return list(filter(None, dict.fromkeys((term, same, same.partition(_JOINER)[0]))))


def signs_in(columns: Mapping[str, Any]) -> str:
    """Return the signs in the texts of columns."""
    texts = (each for each in columns.values() if isinstance(each, str) and not each.isascii())
    return " \ue000 ".join(
        text if is_sign(text) else " ".join(each for each in spaced(text).split() if is_sign(each))
        for text in texts
    )


def _stands_alone(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("So", "Sk", "Me") or bool(_UNSPACED.match(character))
