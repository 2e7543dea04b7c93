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
from acqh.collection.store.words import change_detected_words, change_words, words_of

# Numbers in a chunk: some tens of kilobytes, which hosts send compressed.
_CHUNK_NUMBERS = 16_384
# Of the two indexes: of what people wrote, and of detected metadata.
_COLUMNS = {"words": ("text", "names", "labels", "signs"), "detected_words": ("tags", "text")}


@dataclass(frozen=True, eq=False)
class WordFiles:
    """Full-text index for keyword search in the browser."""

    terms: list[str]  # in the order of JavaScript
    counts: list[int]  # of the items that have each term, also in fields that are not published
    # Per chunk: the number of its first term, and the postings of each term. A posting is the
    # distance from the previous item, the number of places, and 4 * position + column of each.
    chunks: list[tuple[int, list[list[int]]]]
    lengths: Ints  # (n_items,) uint16: words of each item, also of fields that are not published
    n_indexed: int  # items that have any


def word_files(
    published: Sequence[Item], stored: Sequence[Item], *, detected: bool = False
) -> WordFiles:
    """Return the full-text index of items, as in their collection.

    `stored`: the same items with all fields. Of words that are not published, only the counts are
    used that BM25 needs to give the scores of the collection. `detected`: index the words of
    detected metadata instead of what people wrote.
    """
    table = "detected_words" if detected else "words"
    with _indexed(stored, table) as connection:
        counts = dict(connection.execute("SELECT term, doc FROM temp.terms"))
        rows = connection.execute("SELECT doc - 1 FROM temp.places")
        items = np.fromiter((item for (item,) in rows), np.int64)
        lengths = np.bincount(items, minlength=len(stored))
        ((n_indexed,),) = connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
    postings: dict[str, list[int]] = {}
    with _indexed(published, table) as connection:
        rows = connection.execute("SELECT term, doc - 1, col, offset FROM temp.places")
        for term, places in groupby(rows, itemgetter(0)):
            flat: list[int] = []
            last = 0
            for item, group in groupby(places, itemgetter(1)):
                columns = _COLUMNS[table]
                at = sorted(4 * offset + columns.index(column) for _, _, column, offset in group)
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
    return WordFiles(terms, [counts[term] for term in terms], chunks, clipped, n_indexed)


@contextmanager
def _indexed(items: Sequence[Item], table: str) -> Iterator[sqlite3.Connection]:
    """Yield a full-text index of items, with its vocabulary and the places of words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(WORDS_SCHEMA)
        for number, item in enumerate(items, start=1):
            if table == "words":
                change_words(connection, number, *words_of(item.text, item.labels, item.fields))
            else:
                change_detected_words(connection, number, item.detected, remove=False)
        connection.execute(f"CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, {table}, row)")
        connection.execute(
            f"CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, {table}, instance)"
        )
        yield connection
