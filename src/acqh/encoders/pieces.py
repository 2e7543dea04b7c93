"""Texts by a table: a row for each piece of a word, added up, stands in for MiniLM's vector.

The rows were learnt from captions and sentences about things, as a ridge regression from the
pieces of each to its vector, drawn towards the vector of the piece alone. `QueryTable` is what is
left of them for one collection: a query takes microseconds and no network, in Python and in a
visitor's browser alike. `tools/learn_piece_table.py` makes the table.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np

from acqh._core.arrays import Array, Floats
from acqh.encoders.general.model import general_model
from acqh.encoders.minilm import numbers_of, vocabulary
from acqh.encoders.words import fold_text

_FILE = "pieces.npz"
# As MiniLM reads them.
_LONGEST = 256
# Numbers that a row of a collection's table has: a visitor fetches a byte for each.
_RANK = 96
_LARGEST = 127
# Share of the entries that fit into a byte; the few larger ones are cut off.
_FITTING = 0.999


@dataclass(frozen=True, eq=False)
class QueryTable:
    """From texts to query vectors of one collection.

    With b the numbers of a text's pieces, scaled to length one, a query is
    ``(b rows scales) to_query + offset``.
    """

    pieces: Array  # (n_rows,): which piece of MiniLM's each row is of
    rows: Array  # int8 (n_rows, rank)
    scales: Floats  # (rank,)
    to_query: Floats  # (rank, n_components)
    offset: Floats  # (n_components,)

    @classmethod
    def of(
        cls, projection: Floats, intercept: Floats, codebooks: Floats, *, is_general: bool
    ) -> "QueryTable":
        """Return the table for a query map of MiniLM's vectors.

        `projection`: (384, n_components) or, after the general model's map of texts where
        `is_general`, (n_text, n_components). `intercept`: (n_components,). `codebooks`: of the
        items, which say in which directions queries must be right.
        """
        table = _table()
        vectors = table["basis"].T.astype(np.float64)  # (384, n_axes)
        offset = np.asarray(intercept, dtype=np.float64)
        if is_general:
            # The map takes a centre off and scales to length one: by the usual length, here.
            arrays = general_model().arrays
            mapped = arrays["text_axes"].astype(np.float64) @ projection / float(table["length"])
            offset = offset - arrays["text_mean"].astype(np.float64) @ mapped
        else:
            mapped = np.asarray(projection, dtype=np.float64)
        queries = (table["rows"] * table["scales"]) @ (vectors.T @ mapped)
        root = _root(_spread(codebooks))
        found = queries @ root
        _, axes = np.linalg.eigh(found.T @ found)
        axes = axes[:, ::-1][:, :_RANK]
        exact = found @ axes
        scales = np.quantile(np.abs(exact), _FITTING, axis=0) / _LARGEST
        scales[scales == 0] = 1.0  # along which all rows are zero
        rows = np.clip(np.rint(exact / scales), -_LARGEST, _LARGEST).astype(np.int8)
        to_query = axes.T @ np.linalg.inv(root)
        floats = (each.astype(np.float32) for each in (scales, to_query, offset))
        return cls(table["pieces"], rows, *floats)

    def vector(self, text: str) -> Floats | None:
        """Return the query vector of a text, (n_components,); None where nothing of it is known."""
        fold_text(text)
        numbers = Counter(numbers_of(text, _LONGEST)[1:-1])
        found = [(place, n) for piece, n in numbers.items() if (place := _places()[piece]) >= 0]
        if not found:
            return None
        places, counts = np.array(found).T
        weights = counts / np.linalg.norm(counts)
        rows = (weights @ self.rows[places]) * self.scales
        return np.asarray(rows @ self.to_query + self.offset, dtype=np.float32)

    @property
    def words(self) -> list[str]:
        """The piece of each row, as MiniLM writes it, and after them the pieces without a row."""
        known = list(vocabulary())
        rows = [known[piece] for piece in self.pieces.tolist()]
        return [*rows, *sorted(set(known).difference(rows))]


def _spread(codebooks: Floats) -> Floats:
    """Return second moments of code vectors whose words are independent; (n_components,) twice."""
    means = codebooks.mean(axis=1, dtype=np.float64)
    centred = codebooks - means[:, np.newaxis]
    total = means.sum(axis=0)
    within = np.einsum("mki,mkj->ij", centred, centred) / codebooks.shape[1]
    return np.asarray(within + np.outer(total, total))


def _root(moments: Floats) -> Floats:
    """Return the symmetric root of moments, with a floor under the small ones."""
    values, axes = np.linalg.eigh(moments)
    floor = max(values[-1], np.finfo(float).tiny) * 1e-6
    return np.asarray((axes * np.sqrt(np.maximum(values, floor))) @ axes.T)


@cache
def _table() -> dict[str, Any]:
    """Return the table of the package.

    ``rows``, int8 (n_rows, n_axes), times ``scales`` are coordinates along ``basis``,
    (n_axes, 384); ``pieces``, (n_rows,), of what; ``length`` of captions less their mean, usually.
    """
    packed = BytesIO((files("acqh.encoders") / _FILE).read_bytes())
    with np.load(packed, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


@cache
def _places() -> Array:
    """Return the row of each piece, (n_pieces,), or -1."""
    pieces = _table()["pieces"]
    places = np.full(len(vocabulary()), -1, dtype=np.int64)
    places[pieces] = np.arange(len(pieces))
    return places
