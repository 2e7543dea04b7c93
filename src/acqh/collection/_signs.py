"""Signs: emoji and other symbols, and words of scripts without spaces, looked for as they are.

SQLite's full-text index drops symbols and takes a line of Chinese for one word, so items are read
through for them: once to see which stand anywhere, and once to find those items.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator

from acqh._core.arrays import Ints
from acqh.collection._connections import LISTED, listed

# Asks for the coloured form of a symbol; written or left out as programs please.
_COLOURED = "\ufe0f"
_JOINER, _KEYCAP = "\u200d", "\u20e3"
_SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
# Thai, Lao and Khmer; kana and Chinese characters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SAID = f"lower(replace(text || ' ' || labels || ' ' || columns, '{_COLOURED}', ''))"


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
    return not is_word and any(
        not character.isascii() and unicodedata.category(character) in ("So", "Sk")
        for character in term
    )


def plain_sign(text: str) -> str:
    """Return a text without case, and without what only says how symbols are drawn."""
    return text.replace(_COLOURED, "").casefold()


def know_signs(connection: sqlite3.Connection, signs: Iterable[str]) -> tuple[str, ...]:
    """Return each sign in the form in which it stands somewhere; without those that do not.

    Failing the sign itself, the same of any skin, and failing that what the sign begins with.
    """
    forms = [list(_forms(sign)) for sign in signs]
    every = list(dict.fromkeys(form for each in forms for form in each))
    if not every:
        return ()
    # One reading of the items says it of all forms.
    stands = ", ".join(f"max(instr({_SAID}, ?) > 0)" for _ in every)
    row = connection.execute(f"SELECT {stands} FROM items", every).fetchone()  # noqa: S608
    known = {form for form, stood in zip(every, row, strict=True) if stood}
    best = (next(filter(known.__contains__, each), None) for each in forms)
    return tuple(filter(None, best))


def _forms(sign: str) -> Iterator[str]:
    """Yield a sign, the same of any skin, and what it begins with."""
    plain = plain_sign(sign)
    same = _SKIN_TONES.sub("", plain)
    return filter(None, (plain, same, same.partition(_JOINER)[0]))


def find_signs(
    connection: sqlite3.Connection, signs: Iterable[str], k: int = -1, numbers: Ints | None = None
) -> list[int]:
    """Return the items in whose texts, labels or columns all signs stand.

    At most `k`, or all: those of which a sign is the whole text or column first, then short ones.
    `numbers`: int64 (n_items,); only these items are looked at.
    """
    signs = list(signs)
    wanted = " AND ".join(f"instr({_SAID}, ?)" for _ in signs)
    whole = " OR ".join(f"instr({_SAID}, ?) OR text = ?" for _ in signs)
    only = "" if numbers is None else f"AND number IN {LISTED}"
    rows = connection.execute(
        f"SELECT number FROM items WHERE {wanted} {only} "  # noqa: S608
        f"ORDER BY ({whole}) DESC, length(text), number LIMIT ?",
        (
            *signs,
            *([] if numbers is None else [listed(numbers.tolist())]),
            *(value for sign in signs for value in (f'"{sign}"', sign)),
            k,
        ),
    )
    return [number for (number,) in rows]
