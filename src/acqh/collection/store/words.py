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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from acqh._core.arrays import Bools, Ints
from acqh._core.dates import DATE_IN_NAME
from acqh._core.fields import (
    FILE,
    FILE_FIELDS,
    IMAGE_FIELDS,
    KIND,
    PHOTO,
    TAGS,
    TEXT_IN_IMAGE,
    TITLE_FIELDS,
)
from acqh.collection.store.file import as_numbers, first_row
from acqh.collection.store.vocabulary import VOCABULARY, Postings, WordIndex, distinct
from acqh.encoders.languages import is_foreign

# By the columns of `Postings`.
_REASONS = ((), ("keywords",), ("labels",), ("keywords", "labels"))
DETECTED_REASONS = ((), ("tags",), ("text in image",), ("tags", "text in image"))
# Up to this number, and this many times the length of posting lists, a table of all numbers is
# faster than sorting.
_MIN_TABLE, _MAX_SPREAD = 1_024, 32
# A word that no one types: no phrase spans two labels.
_SEPARATOR = " \ue000 "
# Two letters that changed places are looked for in words of this length.
_TRANSPOSED_LENGTHS = range(3, 33)
_MAX_TERMS = 32
# Words that the prefixes of a query are completed to, all together and one of them, and the entries
# of their posting lists: a million take a second to read.
_MAX_COMPLETED, _MAX_BEGUN, _MAX_ENTRIES = 128, 32, 1 << 20
# Many words begin with fewer letters; these are looked up in the vocabulary that is kept.
_MIN_PREFIX = 3
# What names of files are made of: letters with their marks, and digits.
_RUN = re.compile(r"(?:[^\W_]|[^\x00-\x7f])+")
_WORD_AND_NUMBER = re.compile(r"([A-Za-z]*)(\d*)", re.ASCII)
_NUMBER, _VOWEL = re.compile(r"[1-9]\d{0,3}|0"), re.compile("[aeiouy]", re.IGNORECASE)
_HASH = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)
# Fields that are titles already, or no words; two letters in a row make a word.
_NOT_WORDS = frozenset((*TITLE_FIELDS, *FILE_FIELDS, *IMAGE_FIELDS))
_LETTERS = re.compile(r"[^\W\d_]{2}")
# What cameras and programs begin names with.
_COUNTED = frozenset(("image", "img", "imgp", "photo", "pict", "picture", "gopr", "mvi", "vid"))
# An ending, three digits in a row or an underscore; shorter beginnings have too many files.
_FILE_NAME = re.compile(r"\.(?:[a-z]{3,4}|mp4)$|\d{3}|\w_\w?", re.ASCII | re.IGNORECASE)
_MIN_FILE_NAME = 5
# A sign for "without", a phrase in quotes or one word.
_PART = re.compile(r'(?P<sign>-?)(?:"(?P<phrase>[^"]*)"|(?P<word>\S+))')
_NEGATION = re.compile(r"\s+(?:but\s+|and\s+)?(?:not|without)\s+", re.IGNORECASE)
# Selects the coloured form of a symbol; programs write or omit it.
_COLOURED = "\ufe0f"
_JOINER, _KEYCAP = "\u200d", "\u20e3"
_SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
# Thai, Lao and Khmer; kana and Chinese characters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"\w+")
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
    """Words, phrases and exclusions of a query text."""

    terms: tuple[str, ...] = ()  # the more of them an item has, the better
    phrases: tuple[str, ...] = ()  # each must stand in it as it is
    without: tuple[str, ...] = ()  # words and phrases that must not
    # The text without what must not be there, and without signs: to be encoded.
    to_encode: str = field(default="", repr=False)
    negated: str = field(default="", repr=False)  # what items should not be similar to


class WordHit(NamedTuple):
    """An item that contains words of a query."""

    number: int
    rank: float  # the lower, the better; of BM25
    complete: bool  # whether it has every word that was asked for
    is_named: bool = False  # whether it is called exactly what was asked for
    is_typed: bool = False  # whether it has the words in the forms that were typed
    share: float = 1.0  # of the words, in these forms
    is_detected: bool = False  # whether some are only in suggested tags or in text in the image


def read_words(text: str) -> WordQuery:
    """Read a query as people type it.

    `text`: words; ``"in quotes"`` a phrase that must be there; ``-word`` or ``-"a phrase"`` what
    must not be there. What follows "not" or "without" is what items should not be similar to.

    Examples
    --------
    >>> read_words('dog "on a beach" -cat')
    WordQuery(terms=('dog',), phrases=('on a beach',), without=('cat',))
    >>> read_words("dog not on the beach").negated
    'on the beach'
    """
    text, negated = _split_negated(plain(text))
    terms: list[str] = []
    phrases: list[str] = []
    without: list[str] = []
    to_encode: list[str] = []
    for part in _PART.finditer(text):
        content = part["phrase"] if part["phrase"] is not None else part["word"]
        is_symbol = is_sign(content) and not any(map(str.isalpha, content))
        to_encode += [content] * (not part["sign"] and not is_symbol)
        if not is_sign(content) and not any(character.isalnum() for character in content):
            continue
        if part["sign"]:
            without.append(content)
        elif part["phrase"] is not None:
            phrases.append(content)
        else:
            terms.append(content)
    unlike = " ".join(filter(None, (*without, negated)))
    # One word must not be there; of several, an item may have some.
    unwanted = [word for word in negated.split() if word.lower() not in _COMMON]
    without += unwanted if len(unwanted) == 1 else []
    telling = [term for term in terms if term.lower() not in _COMMON]
    chosen = telling if telling or phrases else terms
    limits = slice(_MAX_TERMS)
    return WordQuery(
        tuple(dict.fromkeys(chosen))[limits],
        tuple(phrases)[limits],
        tuple(without)[limits],
        " ".join(to_encode),
        unlike,
    )


def _split_negated(text: str) -> tuple[str, str]:
    """Return a text up to "not" or "without", and what follows; all of it if nothing is before."""
    start, *rest = _NEGATION.split(text, maxsplit=1)
    return (start, rest[0]) if rest and start.strip() and '"' not in text else (text, "")


def settle_words(
    connection: sqlite3.Connection,
    query: WordQuery,
    index: WordIndex,
    correct: Callable[[str], str | None] | None,
    detected: WordIndex | None = None,
) -> tuple[WordQuery, dict[str, str], tuple[str, ...]]:
    """Return a query with typos corrected and without phrases that no item has, and both of these.

    The words of such phrases become terms. `correct`: returns the word that a term is a typo of;
    terms that an item has, or that begin a word of one, are none. `detected`: the index of detected
    words.
    """
    indexes = [index] if detected is None else [index, detected]

    def is_missing(words: str) -> bool:
        return not any(len(one.postings(connection, _quoted(words)).numbers) for one in indexes)

    unmatched = tuple(filter(is_missing, query.phrases))
    corrections = {
        term: word
        for term in (query.terms if correct is not None else ())
        if is_missing(term)
        and (word := correct(term)) is not None  # type: ignore[misc]
        and not _begun(connection, term, index, len(query.terms))
    }
    if not unmatched and not corrections:
        return query, corrections, unmatched
    words = (word for phrase in unmatched for word in phrase.split())
    telling = (word for word in words if word.lower() not in _COMMON)
    terms = (*(corrections.get(term, term) for term in query.terms), *telling)
    settled = replace(
        query,
        terms=tuple(dict.fromkeys(terms))[:_MAX_TERMS],
        phrases=tuple(phrase for phrase in query.phrases if phrase not in unmatched),
        to_encode=" ".join(corrections.get(word, word) for word in query.to_encode.split()),
    )
    return settled, corrections, unmatched


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
    # Without a command the row is added.
    connection.execute(
        "INSERT INTO words (words, rowid, text, names, labels, signs) VALUES (?, ?, ?, ?, ?, ?)",
        (
            "delete" if remove else None,
            number,
            *map(spaced, (text, names, _SEPARATOR.join(labels), signs)),
        ),
    )


def change_detected_words(
    connection: sqlite3.Connection, number: int, detected: Mapping[str, Any], *, remove: bool
) -> None:
    """Index the words of suggested tags and text in an image, or take them out.

    Kinds other than photo count as tags: people search for screenshots.
    """
    kind, text = detected.get(KIND, PHOTO), detected.get(TEXT_IN_IMAGE, "")
    tags = [*detected.get(TAGS, ()), *([kind] if kind != PHOTO else [])]
    if tags or text:
        connection.execute(
            "INSERT INTO detected_words (detected_words, rowid, tags, text) VALUES (?, ?, ?, ?)",
            (
                "delete" if remove else None,
                number,
                spaced(_SEPARATOR.join(tags)),
                spaced(text),
            ),
        )


def words_of(
    text: str, labels: Sequence[str], fields: Mapping[str, Any]
) -> tuple[str, str, Sequence[str], str]:
    """Return the text, the names, the labels and other signs of an item, to be looked up."""
    others = {name: value for name, value in fields.items() if name not in TITLE_FIELDS}
    return str(text), " ".join(names_in(fields)), labels, signs_in(others)


def names_in(fields: Mapping[str, Any]) -> list[str]:
    """Return what an item is called, by its fields; of a file's name, what is words.

    Titles and names come first, then other fields that are texts, such as the persons in a photo.
    Links, digests and properties of the file are skipped.

    Examples
    --------
    >>> names_in({"person": "Anna", "file": "2019/IMG_0012.jpg", "url": "https://a.example/1"})
    ['2019', 'Anna']
    """
    if not fields:  # captions, which searches read by the dozen
        return []
    named = {key: fields[key] for key in TITLE_FIELDS if key in fields}
    named = {key: value for key, value in named.items() if isinstance(value, str)}
    if FILE in named:
        named[FILE] = words_in_path(named[FILE])
    others = (value for key, value in fields.items() if key not in _NOT_WORDS and _is_text(value))
    return [*filter(None, named.values()), *others]


def _is_text(value: Any) -> bool:
    """Whether the value of a field is a text with words."""
    return (
        isinstance(value, str)
        and bool(_LETTERS.search(value))
        and "://" not in value
        and not _HASH.fullmatch(value)
    )


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
    >>> words_in_path("Screenshot 2023-05-14-12-30-45 bus.png"), words_in_path("Rome 2019-05 1.jpg")
    ('Screenshot bus', 'Rome 2019 1')
    """
    *folders, last = name.split("/")
    parts = [_written(folder, is_folder=True) for folder in folders]
    last = DATE_IN_NAME.sub(" ", last.rpartition(".")[0] or last)
    return " ".join(filter(None, (*parts, _written(last))))


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
    index: WordIndex | None = None,
    is_word: Callable[[str], bool] | None = None,
    n_partial: int | None = None,
    *,
    is_exact: bool = False,
) -> tuple[list[WordHit], list[Postings]]:
    """Return the items that contain the words, those that have all of them first.

    Best first, at most `k`, and at most `n_partial` with only some of the words. `numbers`: int64
    (n_items,); only these items are searched. Also returns the posting lists of the words, of
    those that they begin, or of those that they are typos of, unless `is_exact`. `is_word`: says
    of a term that it is no typo, whether any item has it or not.
    """
    index = index or WordIndex()
    read = partial(index.postings, connection)
    required = [[read(_quoted(phrase))] for phrase in query.phrases]
    terms = [[read(_quoted(term))] for term in query.terms]

    def allowed(items: Ints) -> Ints:
        items = items if numbers is None else items[_among(items, numbers)]
        for phrase in query.without:
            items = items[~_among(items, read(_quoted(phrase)).numbers)]
        return items

    complete, has_partial = allowed(_common([*required, *terms])), len(terms) > 1
    unknown = [place for place, (postings,) in enumerate(terms) if not len(postings.numbers)]
    if unknown and not is_exact:
        for place in unknown:
            term = query.terms[place]
            terms[place] = [*map(read, _resolved(connection, term, is_word, index, len(terms)))]
        if all(terms):
            complete = allowed(_common([*required, *terms]))
        else:
            terms = [group for group in terms if group]
            has_partial = bool(terms)
    lists = [postings for group in (*required, *terms) for postings in group]
    if not lists:
        return [], []
    items = np.concatenate([postings.numbers for postings in lists])
    scores = np.concatenate([postings.scores for postings in lists])
    by_row = None
    if items.max(initial=0) > _MIN_TABLE + _MAX_SPREAD * items.size:
        by_row, items = np.unique(items, return_inverse=True)
    totals = np.bincount(items, scores)  # in the order of the phrases, as FTS5 adds them up

    def best(numbers: Ints, k: int, complete: bool) -> list[WordHit]:
        rows = numbers if by_row is None else by_row.searchsorted(numbers)
        order = np.argsort(-totals[rows], kind="stable")[:k]
        pairs = zip(numbers[order].tolist(), (-totals[rows[order]]).tolist(), strict=True)
        return [WordHit(number, rank, complete) for number, rank in pairs]

    hits = best(complete, k, True)
    n_partial = min(k - len(hits), k if n_partial is None else n_partial)
    if has_partial and n_partial > 0:
        if required or query.without or numbers is not None:
            some = allowed(_union(postings for group in terms for postings in group))
            for group in required:
                some = some[_among(some, group[0].numbers)]
        else:  # an item is in each list at most once
            n_enough = len(lists) * (len(complete) + n_partial)
            reached = totals[items]
            least = np.partition(reached, -n_enough)[-n_enough] if n_enough < len(items) else 1e-300
            some = np.flatnonzero(totals >= least)
            some = some if by_row is None else by_row[some]
        hits += best(some[~_among(some, complete)], n_partial, False)
    return hits, lists


def _common(groups: Sequence[Sequence[Postings]]) -> Ints:
    """Return the items that every group has in one of its posting lists."""
    sets = [group[0].numbers if len(group) == 1 else _union(group) for group in groups]
    if not sets:
        return np.zeros(0, np.int64)
    smallest, *others = sorted(sets, key=len)
    return reduce(lambda items, numbers: items[_among(items, numbers)], others, smallest)


def _union(lists: Iterable[Postings]) -> Ints:
    """Return the items of posting lists, in rising order."""
    return distinct(np.concatenate([postings.numbers for postings in lists]))


def _among(items: Ints, numbers: Ints) -> Bools:
    """Return which items are among others; both in rising order."""
    if not len(numbers) or not len(items):
        return np.zeros(len(items), dtype=bool)
    highest = max(items[-1], numbers[-1])
    if len(items) > _MIN_TABLE and highest < _MAX_SPREAD * len(items):
        table = np.zeros(highest + 1, dtype=bool)
        table[numbers] = True
        return table[items]
    at = np.minimum(numbers.searchsorted(items), len(numbers) - 1)
    return np.asarray(numbers[at] == items)


def find_detected(
    connection: sqlite3.Connection,
    query: WordQuery,
    k: int,
    numbers: Ints | None,
    index: WordIndex,
    n_partial: int,
) -> tuple[list[WordHit], list[Postings]]:
    """Return the items whose suggested tags or texts in images contain the words as they are.

    `index`: of detected words. See `find_words`.
    """
    phrases = map(_quoted, (*query.phrases, *query.terms))
    if not any(len(index.postings(connection, phrase).numbers) for phrase in phrases):
        return [], []
    hits, lists = find_words(connection, query, k, numbers, index, None, n_partial, is_exact=True)
    return [hit._replace(is_detected=True) for hit in hits], lists


def is_file_name(text: str) -> bool:
    """Whether a query may be the name of a file or its beginning: what cameras and programs write.

    Examples
    --------
    >>> [is_file_name(text) for text in ("IMG_2021", "DSC01303", "rose.jpg", "red rose", "2021")]
    [True, True, True, False, False]
    """
    return _FILE_NAME.search(text) is not None and len(text) >= _MIN_FILE_NAME


def find_files(connection: sqlite3.Connection, text: str) -> dict[int, bool]:
    """Return the items whose file is called as a text, with or without its ending, or begins so.

    The value says whether it is the whole name.
    """
    name = text.strip().casefold()
    # SQLite ignores the case of ASCII only; of other letters it takes any, and names are compared.
    escaped = re.sub(r"[^\x00-\x7f]", "_", re.sub(r"([%_\\])", r"\\\1", name))
    rows = connection.execute(
        "SELECT number, value FROM item_values WHERE name IN (?, ?) "
        "AND typeof(value) = 'text' AND (value LIKE ? ESCAPE '\\' OR value LIKE ? ESCAPE '\\')",
        (*IMAGE_FIELDS, f"{escaped}%", f"%/{escaped}%"),
    )
    files: dict[int, bool] = {}
    for number, path in rows:
        last = path.rpartition("/")[2].casefold()
        is_whole = name in (path.casefold(), last, last.rpartition(".")[0])
        if is_whole or last.startswith(name):
            files[number] = is_whole
    return files


def numbers_allowed(connection: sqlite3.Connection, query: WordQuery) -> Ints:
    """Return the items that have all phrases and nothing that must not be there, in order."""
    statement = "SELECT number FROM items"
    values: list[str] = []
    having = "SELECT rowid FROM words WHERE words MATCH ?"
    detected = "SELECT rowid FROM detected_words WHERE detected_words MATCH ?"
    if query.phrases:
        statement += f" WHERE number IN ({having} UNION {detected})"
        values += [" AND ".join(map(_quoted, query.phrases))] * 2
    if query.without:
        statement += f" EXCEPT {having} EXCEPT {detected}"
        values += [" OR ".join(map(_quoted, query.without))] * 2
    return as_numbers(connection.execute(statement, values))


def reasons(
    lists: Sequence[Postings], numbers: Sequence[int], names: Sequence[tuple[str, ...]] = _REASONS
) -> dict[int, tuple[str, ...]]:
    """Return where words occur, by item: "keywords", "labels" or both.

    `lists`: of the words, as `find_words` returns them. `names`: of the columns of `Postings`.
    """
    items, columns = np.array(numbers, dtype=np.int64), np.zeros(len(numbers), np.uint8)
    for listed, _, columns_of in lists:
        if len(listed):
            at = np.minimum(listed.searchsorted(items), len(listed) - 1)
            columns |= columns_of[at] * (listed[at] == items)
    pairs = zip(numbers, columns.tolist(), strict=True)
    return {number: names[where] for number, where in pairs if where}


def _resolved(
    connection: sqlite3.Connection,
    term: str,
    is_word: Callable[[str], bool] | None,
    index: WordIndex,
    n_terms: int,
) -> list[str]:
    """Return phrases for a word, or for what it begins, or for the one it is a typo of.

    `n_terms`: of the query.
    """
    for form in map(_quoted, forms_of(term)):
        for phrase in (form,) if term.isalnum() and term.isascii() else (form, f"{form} *"):
            if len(index.postings(connection, phrase).numbers):
                return [phrase]
    if begun := _begun(connection, term, index, n_terms):
        return begun
    if term.isdecimal() or (is_word is not None and is_word(term)):
        return []
    words = _transposed(connection, term)
    words = words or index.vocabulary(connection).similar(term.lower())
    if is_word is not None and is_foreign(term):  # no typo, but it may be inflected
        words = [word for word in words if term.lower().startswith(word)]
    similar = (phrase for phrase in map(_quoted, words) if _stands(connection, phrase))
    return list(islice(similar, 1))


def _begun(connection: sqlite3.Connection, term: str, index: WordIndex, n_terms: int) -> list[str]:
    """Return phrases of words that begin with a word, and not with its stem.

    The stem of "being" is "be", with which "bear" begins; that of "grey" is "grei", with which
    "grey16" does not. `n_terms`: of the query, which share what is read.
    """
    start = term.lower()
    if not start.isalnum() or not start.isascii():
        return []
    most = min(_MAX_BEGUN, max(1, _MAX_COMPLETED // n_terms))
    if len(start) < _MIN_PREFIX:
        words = index.vocabulary(connection).beginning(start, most)
    else:
        connection.execute(VOCABULARY)
        words = connection.execute(
            "SELECT term, doc FROM temp.vocabulary WHERE term >= ? AND term < ? "
            "ORDER BY doc DESC, term LIMIT ?",
            (start, f"{start}\U0010ffff", most),
        ).fetchall()
    phrases, n_left = [], _MAX_ENTRIES // n_terms
    for word, n_items in words:
        phrase = _quoted(word)
        if n_items <= n_left and len(index.postings(connection, phrase).numbers):
            phrases.append(phrase)
            n_left -= n_items
    return phrases


def _stands(connection: sqlite3.Connection, expression: str) -> bool:
    statement = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1"
    return first_row(connection, statement, expression) is not None


def _transposed(connection: sqlite3.Connection, term: str) -> list[str]:
    """Return the words that a word is with two neighbouring letters exchanged, frequent first."""
    if not term.isalpha() or len(term) not in _TRANSPOSED_LENGTHS:
        return []
    pairs = range(len(term) - 1)
    swapped = {f"{term[:i]}{term[i + 1]}{term[i]}{term[i + 2 :]}" for i in pairs} - {term}
    if not swapped or not _stands(connection, " OR ".join(map(_quoted, swapped))):
        return []
    words = [word for word in sorted(swapped) if _stands(connection, _quoted(word))]
    return words if len(words) < 2 else sorted(words, key=lambda word: -_count(connection, word))


def _count(connection: sqlite3.Connection, word: str) -> int:
    counted = "SELECT count(*) FROM words WHERE words MATCH ?"
    return int(first_row(connection, counted, _quoted(word))[0])


@lru_cache(4_096)
def _quoted(text: str) -> str:
    return '"' + spaced(text).replace('"', '""').replace("\x00", " ") + '"'


def is_sign(term: str) -> bool:
    """Whether a part of a query is looked for as it is.

    Examples
    --------
    >>> [is_sign(each) for each in ("🍕", "1️⃣", "東京", "C++", "dog", "!?", "+")]
    [True, True, True, False, False, False, False]
    """
    if term.isascii():
        return False
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


def plain_words(*texts: str) -> frozenset[str]:
    """Return the words of texts, without case and diacritics but with their endings.

    Examples
    --------
    >>> sorted(plain_words("Two Cafés", "horse-riding"))
    ['cafes', 'horse', 'riding', 'two']
    """
    plain = " ".join(texts).casefold()
    if not plain.isascii():
        letters = unicodedata.normalize("NFKD", plain)
        plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return frozenset(_WORD.findall(plain))


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
    return _SEPARATOR.join(
        text
        if is_sign(text)
        else " ".join(token for token in spaced(text).split() if is_sign(token))
        for text in texts
    )


def _stands_alone(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("So", "Sk", "Me") or bool(_UNSPACED.match(character))
