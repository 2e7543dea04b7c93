"""The words of published items as files: SQLite's own index, read out, cut into pieces."""

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

# Numbers of one piece: some tens of kilobytes, which hosts send compressed.
_PIECE_NUMBERS = 16_384
_COLUMNS = ("text", "names", "labels", "signs")


@dataclass(frozen=True, eq=False)
class WordFiles:
    """What the visitor's browser looks words up in."""

    terms: list[str]  # in the order of JavaScript
    counts: list[int]  # of the items that have each term, also in fields that are not published
    # Of each piece: the number of its first term, and of each of its terms the items: step from the
    # last one, how often it has the term, and where: four times the position plus the column.
    pieces: list[tuple[int, list[list[int]]]]
    lengths: Ints  # (n_items,) uint16: words of each item, also of fields that are not published


def word_files(published: Sequence[Item], stored: Sequence[Item]) -> WordFiles:
    """Index the texts, names, labels and signs of items as a collection does, and read that out.

    `stored`: the same items with all fields. Of words that are not published no more is read than
    BM25 needs of them to score the others as the collection does.
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
            for item, found in groupby(places, itemgetter(1)):
                at = sorted(4 * offset + _COLUMNS.index(column) for _, _, column, offset in found)
                flat += [item - last, len(at), *at]
                last = item
            postings[term] = flat
    terms = sorted(postings, key=lambda term: term.encode("utf-16-be"))
    pieces: list[tuple[int, list[list[int]]]] = []
    room = 0
    for number, term in enumerate(terms):
        if room <= 0:
            pieces.append((number, []))
            room = _PIECE_NUMBERS
        pieces[-1][1].append(postings[term])
        room -= len(postings[term])
    kept = np.minimum(lengths, np.iinfo(np.uint16).max).astype(np.uint16)
    return WordFiles(terms, [counts[term] for term in terms], pieces, kept)


@contextmanager
def _indexed(items: Sequence[Item]) -> Iterator[sqlite3.Connection]:
    """Give an index of the words of items, with its vocabulary and the places of words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(WORDS_SCHEMA)
        for number, item in enumerate(items, start=1):
            words = words_of(item.text, item.labels, item.fields)
            change_words(connection, number, *words)
        connection.execute(VOCABULARY)
        places = "CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, words, instance)"
        connection.execute(places)
        yield connection
