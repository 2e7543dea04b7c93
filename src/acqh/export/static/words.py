"""The full-text index of published items as files, read from SQLite in chunks."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from acqh._core.arrays import Ints
from acqh.collection import Item
from acqh.collection.store.file import WORDS_SCHEMA
from acqh.collection.store.vocabulary import VOCABULARY
from acqh.collection.store.words import change_words, words_of

# Numbers in a chunk: some tens of kilobytes, which hosts send compressed.
_CHUNK_NUMBERS = 16_384
_COLUMNS = ("text", "names", "labels", "signs")


@dataclass(frozen=True, eq=False)
class WordFiles:
    """Full-text index for keyword search in the browser."""

    terms: list[str]  # in the order of JavaScript
    counts: list[int]  # of the items that have each term, also in fields that are not published
    # Per chunk: the number of its first term, and the postings of each term. A posting is the
    # distance from the previous item, the number of places, and 4 * position + column of each.
    chunks: list[tuple[int, list[list[int]]]]
    lengths: Ints  # (n_items,) uint16: words of each item, also of fields that are not published


def word_files(published: Sequence[Item], stored: Sequence[Item]) -> WordFiles:
    """Return the full-text index of items, as in their collection.

    `stored`: the same items with all fields. Of words that are not published, only the counts are
    used that BM25 needs to give the scores of the collection.
    """
    with _indexed(stored) as connection:
        counts = dict(connection.execute("SELECT term, doc FROM temp.vocabulary"))
        rows = connection.execute("SELECT doc - 1 FROM temp.places")
        items = np.fromiter((item for (item,) in rows), np.int64)
        lengths = np.bincount(items, minlength=len(stored))
    postings: dict[str, list[int]] = {}
    with _indexed(published) as connection:
        rows = connection.execute("SELECT term, doc - 1, col, offset FROM temp.places")
        for term, places in groupby(rows, itemgetter(0)):
            flat: list[int] = []
            last = 0
            for item, group in groupby(places, itemgetter(1)):
                at = sorted(4 * offset + _COLUMNS.index(column) for _, _, column, offset in group)
                flat += [item - last, len(at), *at]
                last = item
            postings[term] = flat
    terms = sorted(postings, key=lambda term: term.encode("utf-16-be"))
    chunks: list[tuple[int, list[list[int]]]] = []
    n_free = 0
    for number, term in enumerate(terms):
        if n_free <= 0:
            chunks.append((number, []))
            n_free = _CHUNK_NUMBERS
        chunks[-1][1].append(postings[term])
        n_free -= len(postings[term])
    clipped = np.minimum(lengths, np.iinfo(np.uint16).max).astype(np.uint16)
    return WordFiles(terms, [counts[term] for term in terms], chunks, clipped)


@contextmanager
def _indexed(items: Sequence[Item]) -> Iterator[sqlite3.Connection]:
    """Yield a full-text index of items, with its vocabulary and the places of words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(WORDS_SCHEMA)
        for number, item in enumerate(items, start=1):
            words = words_of(item.text, item.labels, item.fields)
            change_words(connection, number, *words)
        connection.execute(VOCABULARY)
        places = "CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, words, instance)"
        connection.execute(places)
        yield connection
