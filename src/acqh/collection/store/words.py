"""Words in captions, names and labels: SQLite's full-text index, asked in plain text.

Words are compared without case, diacritics and English endings, so that "horses" finds a horse. A
word that occurs nowhere is taken for the beginning of one ("flow"), and failing that for the most
similar word there is ("flwer").

SQLite takes a line of Chinese for one word, and joins symbols to the letters next to them. With
spaces around such characters, a sign of several (an emoji, a word of a script without spaces) is a
phrase.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from acqh._core.arrays import Ints
from acqh._core.fields import FILE, TITLE_FIELDS
from acqh.collection.store.file import LISTED, as_numbers, first_row, listed
from acqh.collection.store.vocabulary import VOCABULARY, Vocabulary

# A name says more of an item than a word somewhere in its caption.
_RANK = "bm25(words, 1.0, 2.0, 1.0, 1.0)"
# Only listed items. Without the plus, SQLite would search the whole index once for each of them.
_AMONG = f"+rowid IN {LISTED}"
# Two letters that changed places are looked for in words of this length.
_TRANSPOSED_LENGTHS = range(3, 33)
_MAX_TERMS = 32
# Many words begin with fewer letters; these are looked up in the vocabulary that is kept.
_MIN_PREFIX = 3
# What names of files are made of: letters with their marks, and digits.
_RUN = re.compile(r"(?:[^\W_]|[^\x00-\x7f])+")
_WORD_AND_NUMBER = re.compile(r"([A-Za-z]*)(\d*)", re.ASCII)
_NUMBER, _VOWEL = re.compile(r"[1-9]\d{0,3}|0"), re.compile("[aeiouy]", re.IGNORECASE)
_HASH = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)
# What cameras and programs begin names with.
_COUNTED = frozenset(("image", "img", "imgp", "photo", "pict", "picture", "gopr", "mvi", "vid"))
# A sign for "without", a phrase in quotes or one word.
_PART = re.compile(r'(?P<sign>-?)(?:"(?P<phrase>[^"]*)"|(?P<word>\S+))')
# Selects the coloured form of a symbol; programs write or omit it.
_COLOURED = "\ufe0f"
_JOINER, _KEYCAP = "\u200d", "\u20e3"
_SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
# Thai, Lao and Khmer; kana and Chinese characters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SPECIAL = re.compile(rf"{_UNSPACED.pattern}|[^\w\s\x00-\x7f]")
# They are in most captions; skipped unless the query has no other words.
_COMMON = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "in", "into"),
        *("is", "it", "its", "of", "on", "or", "that", "the", "their", "this", "to", "was"),
        *("were", "which", "with"),
    )
)


@dataclass(frozen=True)
class WordQuery:
    """What words a text asks for."""

    terms: tuple[str, ...] = ()  # the more of them an item has, the better
    phrases: tuple[str, ...] = ()  # each must stand in it as it is
    without: tuple[str, ...] = ()  # words and phrases that must not
    # The text without what must not be there, and without signs: to be encoded.
    to_encode: str = field(default="", repr=False)


class WordHit(NamedTuple):
    """An item that contains words of a query."""

    number: int
    rank: float  # the lower, the better; of BM25
    complete: bool  # whether it has every word that was asked for
    is_named: bool = False  # whether it is called exactly what was asked for
    is_typed: bool = False  # whether it has the words in the forms that were typed
    share: float = 1.0  # of the words, in these forms


def read_words(text: str) -> WordQuery:
    """Read a query as people type it.

    `text`: words; ``"in quotes"`` a phrase that must be there; ``-word`` or ``-"a phrase"`` what
    must not be there.

    Examples
    --------
    >>> read_words('dog "on a beach" -cat')
    WordQuery(terms=('dog',), phrases=('on a beach',), without=('cat',))
    """
    terms: list[str] = []
    phrases: list[str] = []
    without: list[str] = []
    to_encode: list[str] = []
    for part in _PART.finditer(plain(text)):
        content = part["phrase"] if part["phrase"] is not None else part["word"]
        to_encode += [content] * (not part["sign"] and not is_sign(content))
        if not is_sign(content) and not any(character.isalnum() for character in content):
            continue
        if part["sign"]:
            without.append(content)
        elif part["phrase"] is not None:
            phrases.append(content)
        else:
            terms.append(content)
    telling = [term for term in terms if term.lower() not in _COMMON]
    chosen = telling if telling or phrases else terms
    limits = slice(_MAX_TERMS)
    return WordQuery(
        tuple(dict.fromkeys(chosen))[limits],
        tuple(phrases)[limits],
        tuple(without)[limits],
        " ".join(to_encode),
    )


def change_words(
    connection: sqlite3.Connection,
    number: int,
    text: str,
    names: str,
    labels: Sequence[str],
    signs: str = "",
    *,
    remove: bool = False,
) -> None:
    """Index the words of an item, or take them out: they must be those it was added with."""
    # Without a command the row is added. Between labels there is a word that no one types, so that
    # no phrase spans two of them.
    connection.execute(
        "INSERT INTO words (words, rowid, text, names, labels, signs) VALUES (?, ?, ?, ?, ?, ?)",
        (
            "delete" if remove else None,
            number,
            *map(spaced, (text, names, " \ue000 ".join(labels), signs)),
        ),
    )


def words_of(
    text: str, labels: Sequence[str], fields: Mapping[str, Any]
) -> tuple[str, str, Sequence[str], str]:
    """Return the text, the names, the labels and other signs of an item, to be looked up."""
    others = {name: value for name, value in fields.items() if name not in TITLE_FIELDS}
    return str(text), " ".join(names_in(fields)), labels, signs_in(others)


def names_in(fields: Mapping[str, Any]) -> list[str]:
    """Return what an item is called, by its fields; of a file's name, what is words."""
    named = {key: fields[key] for key in TITLE_FIELDS if key in fields}
    named = {key: value for key, value in named.items() if isinstance(value, str)}
    if FILE in named:
        named[FILE] = words_in_path(named[FILE])
    return list(filter(None, named.values()))


@lru_cache(4_096)
def words_in_path(name: str) -> str:
    """Return the words in a file's name: what people write, not what cameras and programs count.

    Numbers of up to four digits are kept next to words and as names of folders; hashes, hexadecimal
    numbers and counters are not.

    Examples
    --------
    >>> words_in_path("2019/Lake Como/DSC_0012 sunset2.jpg")
    '2019 Lake Como sunset 2'
    >>> words_in_path("3385593926_be8621d17b.jpg"), words_in_path("IMG_20190812_0007.jpg")
    ('', '')
    """
    *folders, last = name.split("/")
    parts = [_written(folder, is_folder=True) for folder in folders]
    return " ".join(filter(None, (*parts, _written(last.rpartition(".")[0] or last))))


def _written(name: str, *, is_folder: bool = False) -> str:
    """Return the words in the name of a file or folder."""
    written = []
    has_words = is_folder
    for run in _RUN.findall(name):
        begun = _WORD_AND_NUMBER.fullmatch(run)
        if begun is None:
            written += [run] * (not run.isascii())
            continue
        word, number = begun.groups()
        is_hash = bool(word and number) and (len(word) < 3 or bool(_HASH.fullmatch(run)))
        is_word = (
            len(word) > 1
            and bool(_VOWEL.search(word))
            and word.lower() not in _COUNTED
            and not is_hash
        )
        has_words |= is_word
        is_number = bool(_NUMBER.fullmatch(number)) and has_words and (is_word or not word)
        written += [word] * is_word + [number] * is_number
    return " ".join(written) if has_words or not name.isascii() else ""


def find_words(
    connection: sqlite3.Connection,
    query: WordQuery,
    k: int,
    numbers: Ints | None = None,
    vocabulary: Callable[[sqlite3.Connection], Vocabulary] = Vocabulary,
    is_word: Callable[[str], bool] | None = None,
) -> tuple[list[WordHit], str]:
    """Return the items that contain the words, those that have all of them first.

    Best first, at most `k`. `numbers`: int64 (n_items,); only these items are searched. The text
    that comes with them asks the index for any of the words, as it knows them: the word itself,
    those that it begins, or the one that it is a typo of. `vocabulary`: reads the vocabulary.
    `is_word`: says of a term that it is no typo, whether any item has it or not.
    """
    phrases, terms = tuple(map(_quoted, query.phrases)), tuple(map(_quoted, query.terms))
    if not terms and not phrases:
        return [], ""

    excluded = f" NOT ({' OR '.join(map(_quoted, query.without))})" if query.without else ""
    among, chosen = ("", []) if numbers is None else (f"AND {_AMONG}", [listed(numbers.tolist())])
    statement = (
        f"SELECT rowid, {_RANK} AS score FROM words WHERE words MATCH ? {among} "  # noqa: S608
        "ORDER BY score, rowid LIMIT ?"
    )

    def match(expression: str, k: int, complete: bool) -> list[WordHit]:
        values = (f"({expression}){excluded}" if excluded else expression, *chosen, k)
        rows = connection.execute(statement, values)
        return [WordHit(number, rank, complete) for number, rank in rows]

    hits = match(" AND ".join((*phrases, *terms)), k, True)
    missing = False
    if not hits and terms:  # else each of them is known as it is
        resolved = (_resolved(connection, term, is_word, vocabulary) for term in query.terms)
        expressions = tuple(filter(None, resolved))
        missing = len(expressions) < len(terms)
        if not missing and expressions != terms:
            hits = match(" AND ".join((*phrases, *expressions)), k, True)
        terms = expressions
    if len(hits) < k and terms and (missing or len(terms) > 1):
        complete = {hit.number for hit in hits}
        some = " AND ".join((*phrases, f"({' OR '.join(terms)})"))
        more = match(some, k + len(complete), False)
        hits += [hit for hit in more if hit.number not in complete]
    return hits[:k], " OR ".join((*phrases, *terms))


def numbers_allowed(connection: sqlite3.Connection, query: WordQuery) -> Ints:
    """Return the items that have all phrases and nothing that must not be there, in order."""
    statement = "SELECT number FROM items"
    values: list[str] = []
    if query.phrases:
        statement += " WHERE number IN (SELECT rowid FROM words WHERE words MATCH ?)"
        values.append(" AND ".join(map(_quoted, query.phrases)))
    if query.without:
        statement += " EXCEPT SELECT rowid FROM words WHERE words MATCH ?"
        values.append(" OR ".join(map(_quoted, query.without)))
    return as_numbers(connection.execute(statement, values))


def reasons(
    connection: sqlite3.Connection, expression: str, numbers: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    """Return where words occur, by item: "keywords", "labels" or both.

    `expression`: asks for any of them, as `find_words` gives it.
    """
    stands: dict[int, tuple[str, ...]] = {}
    if not expression:
        return stands
    clause = f"FROM words WHERE words MATCH ? AND {_AMONG}"
    among = listed(numbers)
    rows = connection.execute(
        f"SELECT rowid, 'keywords' {clause} UNION ALL SELECT rowid, 'labels' {clause}",
        (f"{{text names signs}} : ({expression})", among, f"labels : ({expression})", among),
    )
    for number, reason in rows:
        stands[number] = (*stands.get(number, ()), reason)
    return stands


def _resolved(
    connection: sqlite3.Connection,
    term: str,
    is_word: Callable[[str], bool] | None,
    vocabulary: Callable[[sqlite3.Connection], Vocabulary],
) -> str | None:
    """Return how to ask for a word, or for what it begins, or for the one it is a typo of."""
    for form in map(_quoted, forms_of(term)):
        for expression in (form,) if term.isalnum() and term.isascii() else (form, f"{form} *"):
            if _stands(connection, expression):
                return expression
    if begun := _begun(connection, term, vocabulary):
        return f"({' OR '.join(map(_quoted, begun))})"
    if is_word is not None and is_word(term):
        return None
    similar_words = _transposed(connection, term) or vocabulary(connection).similar(term.lower())
    for similar in similar_words:
        if _stands(connection, _quoted(similar)):
            return _quoted(similar)
    return None


def _begun(
    connection: sqlite3.Connection,
    term: str,
    vocabulary: Callable[[sqlite3.Connection], Vocabulary],
) -> list[str]:
    """Return words that begin with a word, and not with its stem.

    The stem of "being" is "be", with which "bear" begins; that of "grey" is "grei", with which
    "grey16" does not.
    """
    start = term.lower()
    if not start.isalnum() or not start.isascii():
        return []
    if len(start) < _MIN_PREFIX:
        words = vocabulary(connection).beginning(start, _MAX_TERMS)
    else:
        connection.execute(VOCABULARY)
        rows = connection.execute(
            "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? "
            "ORDER BY doc DESC, term LIMIT ?",
            (start, f"{start}\U0010ffff", _MAX_TERMS),
        )
        words = [word for (word,) in rows]
    return [word for word in words if _stands(connection, _quoted(word))]


def _stands(connection: sqlite3.Connection, expression: str) -> bool:
    statement = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1"
    return first_row(connection, statement, expression) is not None


def _transposed(connection: sqlite3.Connection, term: str) -> list[str]:
    """Return the words that a word is with two neighbouring letters exchanged, frequent first."""
    if not term.isalpha() or len(term) not in _TRANSPOSED_LENGTHS:
        return []
    pairs = range(len(term) - 1)
    swapped = {f"{term[:i]}{term[i + 1]}{term[i]}{term[i + 2 :]}" for i in pairs} - {term}
    if not _stands(connection, " OR ".join(map(_quoted, swapped))):
        return []
    words = [word for word in sorted(swapped) if _stands(connection, _quoted(word))]
    return words if len(words) < 2 else sorted(words, key=lambda word: -_count(connection, word))


def _count(connection: sqlite3.Connection, word: str) -> int:
    counted = "SELECT count(*) FROM words WHERE words MATCH ?"
    return int(first_row(connection, counted, _quoted(word))[0])


def _quoted(text: str) -> str:
    return '"' + spaced(text).replace('"', '""').replace("\x00", " ") + '"'


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
        not character.isascii() and _stands_alone(character) for character in term
    )


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


def signs_in(fields: Mapping[str, Any]) -> str:
    """Return the signs in the texts of fields."""
    texts = (token for token in fields.values() if isinstance(token, str) and not token.isascii())
    return " \ue000 ".join(
        text
        if is_sign(text)
        else " ".join(token for token in spaced(text).split() if is_sign(token))
        for text in texts
    )


def _stands_alone(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("So", "Sk", "Me") or bool(_UNSPACED.match(character))
