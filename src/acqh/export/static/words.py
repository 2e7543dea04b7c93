"""The words of published items as files: SQLite's own index, read out, cut into pieces."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from acqh._core.arrays import Ints
from acqh.collection import Item
from acqh.collection.store.file import WORDS_SCHEMA
from acqh.collection.store.words import change_words, words_of

# Numbers of one piece: some tens of kilobytes, which hosts send compressed.
_PIECE_NUMBERS = 16_384
_COLUMNS = ("text", "names", "labels", "signs")


@dataclass(frozen=True, eq=False)
class WordFiles:
    """What the visitor's browser looks words up in."""

    terms: list[str]  # in the order of JavaScript
    counts: list[int]  # of the items that have each term
    # Of each piece: the number of its first term, and of each of its terms the items: step from the
    # last one, how often it has the term, and where: four times the position plus the column.
    pieces: list[tuple[int, list[list[int]]]]
    lengths: Ints  # (n_items,) uint16: words of each item


def word_files(items: Iterable[Item]) -> WordFiles:
    """Index the texts, names, labels and signs of items as a collection does, and read that out."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(WORDS_SCHEMA)
        n_items = 0
        for item in items:
            words = words_of(item.text, item.labels, item.columns)
            change_words(connection, n_items + 1, *words)  # rows count from one
            n_items += 1
        connection.execute(
            "CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, words, instance)"
        )
        rows = connection.execute("SELECT term, doc - 1, col, offset FROM temp.places")
        postings: dict[str, list[int]] = {}
        counts: dict[str, int] = {}
        lengths = np.zeros(n_items, dtype=np.int64)
        for term, places in groupby(rows, itemgetter(0)):
            flat: list[int] = []
            last = 0
            for item, found in groupby(places, itemgetter(1)):
                at = sorted(4 * offset + _COLUMNS.index(column) for _, _, column, offset in found)
                lengths[item] += len(at)
                counts[term] = counts.get(term, 0) + 1
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
