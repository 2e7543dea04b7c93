"""How near items come to queries that have nothing to do with them, and what stands out of that."""

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from acqh._core.arrays import Array, Bools, Floats, Matrix, unit_rows
from acqh.collection.disk.model import Coder, Encoders, describe

if TYPE_CHECKING:
    from acqh.index import CodeIndex

# One query in twenty about something that no item has anything to do with shows a hit above it.
_CHANCE = 0.05
# Fewer words that an encoder knows do not say what the twentieth part of them gets.
_MIN_WORDS = 40
# Items that are asked for as queries, and those among which they are.
_MAX_QUERIES, _MAX_ITEMS = 256, 2_048
# How a few words are asked for: as they are, or as a caption.
BARE, CAPTION = "{}", "a photo of a {}"
# More than these are a caption by themselves.
_FEW_WORDS = 3


class Levels(NamedTuple):
    """Above which share of a query's length the scores of hits stand out."""

    text: float
    item: float  # for images, items and all else
    squares: Floats  # (n_components,): of the items' vectors, on average
    change: int  # of the collection, up to which this was measured

    @classmethod
    def read(cls, stored: str, n_components: int) -> "Levels | None":
        """Return what `stored` gave, or None where it is nothing of the kind."""
        try:
            text, item, squares, change = json.loads(stored)
            found = np.array([text, item, *squares], dtype=np.float32)
            levels = cls(float(text), float(item), found[2:], int(change))
        except (ValueError, TypeError, OverflowError):
            return None
        is_whole = len(squares) == n_components and np.isfinite(found).all() and found.min() >= 0
        return levels if is_whole else None

    def stored(self) -> str:
        """Return them as JSON."""
        return json.dumps([self.text, self.item, self.squares.tolist(), self.change])

    def limits(self, queries: Floats, *, is_text: bool) -> Floats:
        """Return the scores above which hits stand out, of one query or several."""
        return (self.text if is_text else self.item) * lengths(queries, self.squares)


def lengths(queries: Floats, squares: Floats) -> Floats:
    """Return the lengths of queries, (n_queries,), half way to how far items spread along them.

    `queries`: (n_queries, n_components). `squares`: see `Levels`. Items spread far along what many
    of them have, such as people; there a score must be higher to stand out.
    """
    own = queries * queries
    return np.asarray((own.sum(axis=-1) * (own @ squares)) ** 0.25)


def unrelated_queries(
    encoders: Encoders, coder: Coder, codes: Array, asked_as: str
) -> dict[str, Floats]:
    """Return queries of unit length by which levels are measured.

    `codes`: uint8 (n_items, n_codebooks). `asked_as`: see `phrase`. Gives "words",
    (n_words, n_components): names of things most of which no collection has; none where no text is
    understood. And "items", (n_queries, n_components): items, to most of which any other is nothing
    like.
    """
    chosen = codes[:: math.ceil(len(codes) / _MAX_QUERIES) or 1]
    queries = {"items": coder.model.project_codes(chosen), "words": coder.maps.codebooks[0, :0]}
    if "text" in encoders and "text" in coder.maps.widths:
        features, is_known = _things(encoders["text"], asked_as)
        if is_known.sum() >= _MIN_WORDS:
            queries["words"] = coder.maps.project(features[is_known], view="text")
    return {name: unit_rows(rows).astype(np.float16) for name, rows in queries.items()}


def phrase(text: str, asked_as: str) -> str:
    """Return what is asked for by meaning: a few words as part of a caption.

    `asked_as`: `BARE` or `CAPTION`.

    Examples
    --------
    >>> phrase("red car", CAPTION), phrase("a red car by a lake", CAPTION)
    ('a photo of a red car', 'a red car by a lake')
    """
    return asked_as.replace("{}", text) if len(text.split()) <= _FEW_WORDS else text


def measure_levels(index: "CodeIndex", queries: Mapping[str, Floats], change: int) -> Levels:
    """Return the levels of items as they are now."""
    from statistics import NormalDist

    if not len(index):
        return Levels(0.0, 0.0, index.codebooks[0, 0] * 0, change)
    codes = index.codes[:: math.ceil(len(index) / _MAX_ITEMS)]
    vectors = index.codebooks[np.arange(codes.shape[1]), codes].sum(axis=1)
    squares = np.square(vectors).mean(axis=0)
    items, words = (
        rows / np.maximum(lengths(rows, squares), 1e-9)[:, np.newaxis]
        for rows in (queries[name].astype(np.float32) for name in ("items", "words"))
    )
    # Most items have nothing to do with each other, and the lower half of the scores is theirs
    # alone; the best of that many would be below the level in 19 of 20 cases.
    low, middle = np.quantile(items @ vectors.T, [0.16, 0.5])
    item = float(middle + (middle - low) * NormalDist().inv_cdf((1 - _CHANCE) ** (1 / len(index))))
    text = item
    if len(words):
        text = float(np.quantile(index.search(words, 1).scores[:, 0], 1 - _CHANCE))
    return Levels(max(text, 0.0), max(item, 0.0), squares, change)


def _things(encoder: Any, asked_as: str) -> tuple[Matrix, Bools]:
    """Return the features of things, and which of them the encoder knows."""
    weights = getattr(encoder, "fingerprint_", None)
    key = weights, asked_as
    if weights is None or key not in _described:
        words = (files("acqh.collection.disk") / "things.txt").read_text(encoding="utf-8").split()
        things = describe(encoder, "text", [phrase(word, asked_as) for word in words])
        if weights is None:
            return things
        _described[key] = things
    return _described[key]


# By the weights of a network, which takes a second for them.
_described: dict[tuple[str | None, str], tuple[Matrix, Bools]] = {}
