"""The words of a site as files: the full-text index of its items, and what queries are read by."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from acqh._core.arrays import Ints
from acqh.collection import Collection, Item
from acqh.collection.store.file import WORDS_SCHEMA
from acqh.collection.store.words import change_detected_words, change_words, words_of
from acqh.encoders.languages import letter_odds, word_lists
from acqh.errors import CollectionError
from acqh.export.static.folder import SiteFolder

# Numbers in a chunk: some tens of kilobytes, which hosts send compressed.
_CHUNK_NUMBERS = 16_384
# Of the two indexes: of what people wrote, and of detected metadata.
_COLUMNS = {"words": ("text", "names", "labels", "signs"), "detected_words": ("tags", "text")}
# Letters that a word may share with the one before it: one digit says how many.
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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


def write_encoder(site_folder: SiteFolder, collection: Collection) -> dict[str, Any] | None:
    """Write the fast text encoder; return None if the collection has none."""
    try:
        table = collection.opened.fast_encoder
    except CollectionError:
        return None  # keyword search still works
    return {
        "vocabulary": site_folder.put_json("queries", "vocabulary", table.words),
        "rows": site_folder.put("queries", "rows.bin", table.rows.tobytes()),
        "scales": table.scales.tolist(),
        "to_query": site_folder.put(
            "queries", "queries.bin", table.to_query.astype("<f4").tobytes()
        ),
        "offset": table.offset.tolist(),
        "query_template": collection.opened.facts.asked_as,
        "spelling": write_words(site_folder, table.words),
    }


def write_words(site_folder: SiteFolder, tokens: Sequence[str]) -> dict[str, Any]:
    """Write lists of words, which show typos and other languages.

    Words that the encoder knows are numbers of its tokens, or of `added` after them. The others are
    fetched by the first query with a word that is unknown.
    """
    common, *others = word_lists()
    numbers = {token: number for number, token in enumerate(tokens)}
    added = [word for word in common if word not in numbers]
    numbers |= {word: number for number, word in enumerate(added, start=len(tokens))}
    ranked = np.array([numbers[word] for word in common], dtype="<u2")
    packed = "\n\n".join(map(_packed, others))
    return {
        "known": site_folder.put("queries", "known.bin", ranked.tobytes()),
        "added": added,
        "lists": site_folder.put("queries", "lists.txt", packed.encode()),
        "odds": site_folder.put("queries", "odds.bin", letter_odds().tobytes()),
    }


def _packed(words: Sequence[str]) -> str:
    r"""Return a line for each of some sorted words: how it begins as the one before, and the rest.

    >>> _packed(["tree", "trees", "trip"])
    '0tree\n4s\n2ip'
    """
    lines = []
    for last, word in pairwise(["", *words]):
        n_shared = 0
        while n_shared < min(len(last), len(word), len(_DIGITS) - 1):
            if last[n_shared] != word[n_shared]:
                break
            n_shared += 1
        lines.append(_DIGITS[n_shared] + word[n_shared:])
    return "\n".join(lines)
