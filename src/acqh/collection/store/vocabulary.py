"""The full-text index in memory: posting lists, and a vocabulary to complete and correct words."""

import sqlite3
from typing import NamedTuple

import numpy as np

from acqh._core.arrays import Array, Floats, Ints

VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)"
# The most frequent words, about 60 bytes row: 30 MB at most.
_MAX_WORDS = 500_000
# Shorter words have too few trigrams to be distinguished.
_MIN_LENGTH, _MAX_DIFFERENCE = 4, 2
_MIN_SIMILARITY, _MAX_CORRECTIONS = 0.4, 3
# Entries of all posting lists that are kept, 17 bytes each: 36 MB. A list counts 64 or more. Large
# collections keep this many per item, about as many as captions have words: 136 MB per million.
_MAX_POSTINGS, _MIN_POSTINGS, _ENTRIES_PER_ITEM = 1 << 21, 64, 8
# Of text, names, labels and signs. A name says more of an item than a word in its caption. BM25 is
# zero for a phrase that occurs only in columns of weight zero.
_POSTINGS = (
    "SELECT rowid, -bm25(words, 1.0, 2.0, 1.0, 1.0), "
    "(bm25(words, 1.0, 1.0, 0.0, 1.0) < 0) + 2 * (bm25(words, 0.0, 0.0, 1.0, 0.0) < 0) "
    "FROM words WHERE words MATCH ? ORDER BY rowid"
)
# Of suggested tags and of text in images.
_DETECTED_POSTINGS = (
    "SELECT rowid, -bm25(detected_words, 1.0, 0.5), "
    "(bm25(detected_words, 1.0, 0.0) < 0) + 2 * (bm25(detected_words, 0.0, 1.0) < 0) "
    "FROM detected_words WHERE detected_words MATCH ? ORDER BY rowid"
)
_POSTING = [("number", np.int64), ("score", np.float64), ("columns", np.uint8)]


class Postings(NamedTuple):
    """The items that contain a phrase."""

    numbers: Ints  # in rising order
    scores: Floats  # BM25; higher is better
    # uint8: 1 for text, names and signs, 2 for labels, 3 both; or 1 tags, 2 text in images
    columns: Array


class WordIndex:
    """Posting lists and vocabulary of one state of the full-text index, read when first needed.

    FTS5 adds up the scores of phrases, so their posting lists answer any query to the bit.
    `is_detected`: of the index of detected words; the vocabulary is always of the other.
    `n_items`: about how many there are.
    """

    def __init__(self, *, is_detected: bool = False, n_items: int = 0) -> None:
        self._n_extra = _ENTRIES_PER_ITEM * n_items
        self._statement = _DETECTED_POSTINGS if is_detected else _POSTINGS
        self._lists: dict[str, Postings] = {}
        self._n_postings = 0
        self._vocabulary: Vocabulary | None = None

    def postings(self, connection: sqlite3.Connection, phrase: str) -> Postings:
        """Return the items that contain a phrase in the syntax of FTS5."""
        postings = self._lists.get(phrase)
        if postings is None:
            table = connection.execute(self._statement, (phrase,)).fetchall()
            rows = np.array(table, dtype=_POSTING)
            postings = Postings(*(np.ascontiguousarray(rows[name]) for name, _ in _POSTING))
            self._n_postings += max(len(rows), _MIN_POSTINGS)
            if self._n_postings > max(_MAX_POSTINGS, self._n_extra):
                self._lists, self._n_postings = {}, max(len(rows), _MIN_POSTINGS)
            self._lists[phrase] = postings
        return postings

    def vocabulary(self, connection: sqlite3.Connection) -> "Vocabulary":
        """Return the vocabulary."""
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(connection)
        return self._vocabulary


class Vocabulary:
    """Words by frequency, with an inverted index of their trigrams.

    A word costs what its trigrams have in common with others, not the size of the vocabulary: 32
    unknown words take 10 ms among 200,000, where comparing row with all took 14 s.

    Examples
    --------
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    >>> _ = connection.execute("INSERT INTO words VALUES ('flower flood dog')")
    >>> vocabulary = Vocabulary(connection)
    >>> vocabulary.similar("flwer"), vocabulary.beginning("d", 10)
    (['flower'], [('dog', 1)])
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.execute(VOCABULARY)
        rows = connection.execute(
            "SELECT term, doc FROM temp.vocabulary ORDER BY doc DESC, term LIMIT ?", (_MAX_WORDS,)
        ).fetchall()
        words = [word for word, _ in rows]
        self._n_items = np.array([n_items for _, n_items in rows], np.int64)
        self._lengths = np.fromiter(map(len, words), np.int32, len(words))
        self._text = "".join(map(_padded, words))
        self._starts = np.concatenate([[0], np.cumsum(self._lengths + 3)])
        grams, points = _trigrams(self._text)
        # A window that begins in the last two places of a word reaches into the next one.
        inside = np.ones(len(grams), dtype=bool)
        for place in (2, 1):
            last = self._starts[1:] - place
            inside[last[last < len(grams)]] = False
        word = np.repeat(np.arange(len(words)), self._lengths + 3)[: len(grams)]
        self._grams, gram = np.unique(grams[inside], return_inverse=True)
        pairs = distinct(gram.reshape(-1) * max(1, len(words)) + word[inside])
        gram, word = np.divmod(pairs, max(1, len(words)))
        self._lists = np.searchsorted(gram, np.arange(len(self._grams) + 1))
        self._postings = word.astype(np.int32)
        self._n_grams = np.bincount(word, minlength=len(words)).astype(np.int32)
        initials = points[self._starts[:-1] + 2] << 21 | points[self._starts[:-1] + 3]
        self._by_initials = np.argsort(initials, kind="stable")
        self._initials = initials[self._by_initials]

    def _word(self, at: int) -> str:
        return self._text[self._starts[at] + 2 : self._starts[at + 1] - 1]

    def beginning(self, prefix: str, most: int) -> list[tuple[str, int]]:
        """Return the most frequent words that begin with one or two letters, and their items."""
        low, width = ord(prefix[0]) << 21, 1 << 21
        if len(prefix) > 1:
            low, width = low | ord(prefix[1]), 1
        start, end = np.searchsorted(self._initials, [low, low + width]).tolist()
        rows = np.sort(self._by_initials[start:end])  # words are numbered by frequency
        return [(self._word(at), int(self._n_items[at])) for at in rows[:most].tolist()]

    def similar(self, word: str) -> list[str]:
        """Return the words that share most trigrams with a word, best first."""
        length = len(word)
        shortest, longest = max(length - _MAX_DIFFERENCE, _MIN_LENGTH), length + _MAX_DIFFERENCE
        if length < _MIN_LENGTH or shortest > self._lengths.max(initial=0):
            return []
        trigrams = np.unique(_trigrams(_padded(word))[0])
        at = np.searchsorted(self._grams[:-1], trigrams)
        at = at[self._grams[at] == trigrams].tolist()
        lists = [self._postings[self._lists[trigram] : self._lists[trigram + 1]] for trigram in at]
        if not lists:
            return []
        n_shared = np.bincount(np.concatenate(lists), minlength=len(self._lengths))
        # A word has as many trigrams as it shares, or more.
        least = int(len(trigrams) * _MIN_SIMILARITY / (2 - _MIN_SIMILARITY))
        rows = np.flatnonzero(n_shared >= least)
        lengths = self._lengths[rows]
        rows = rows[(lengths >= shortest) & (lengths <= longest)]
        similarity = 2 * n_shared[rows] / (len(trigrams) + self._n_grams[rows])
        is_near = similarity >= _MIN_SIMILARITY
        rows, similarity = rows[is_near], similarity[is_near]
        # Stable: of equal ones, the most frequent first.
        best = np.argsort(-similarity, kind="stable")[:_MAX_CORRECTIONS]
        return [self._word(trigram) for trigram in rows[best].tolist()]


def distinct(numbers: Ints) -> Ints:
    """Return whole numbers from 0 on, each once, in rising order; faster than `np.unique`."""
    ordered = np.sort(numbers, kind="stable")
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _padded(word: str) -> str:
    return f"  {word} "


def _trigrams(text: str) -> tuple[Array, Array]:
    """Return every three neighbouring characters as one int64, and the characters."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
    return points[:-2] << 42 | points[1:-1] << 21 | points[2:], points
