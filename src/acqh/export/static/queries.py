"""The fast text encoder of a site, and lists of words, by which it reads queries."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from acqh.collection import Collection
from acqh.encoders.languages import letter_odds, word_lists
from acqh.errors import CollectionError
from acqh.export.static.folder import SiteFolder

# Letters that a word may share with the one before it: one digit says how many.
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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
