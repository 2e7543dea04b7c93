"""From prepared items to features and codes, and from queries to vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array, Bools, Floats, Matrix, is_sparse
from acqh._core.optional import require
from acqh.data import MultiViewData
from acqh.methods.acqh import ACQH
from acqh.quantize import search_codes

# How much of an item's vector comes from its labels, where it has labels; the rest comes from
# what it shows and says. With all of it, items of one label set could not be told apart; on 4,000
# photographs 0.7 costs 0.007 of the label similarity of the best ten, and half as many hits again
# have the very word that was searched for.
LABEL_SHARE = 0.7


@dataclass(frozen=True, eq=False)
class Features:
    """Views of some items, of which any may be absent.

    Attributes
    ----------
    views : dict of str to (n_items, n_features)
        Rows of absent views are zero.
    present : dict of str to bool (n_items,)
    """

    views: dict[str, Matrix]
    present: dict[str, Bools]

    @property
    def anywhere(self) -> Bools:
        """Which items have any view."""
        return np.asarray(np.any(list(self.present.values()), axis=0))


@dataclass(frozen=True, eq=False)
class Encoders:
    """The encoders of raw items, by view; none where features are given.

    Examples
    --------
    >>> from acqh.features import word_vectorizer
    >>> encoders = Encoders({"text": word_vectorizer().fit(["a rose", "a car"])})
    >>> encoders.describe([None, None], ["rose", "boat"]).present["text"]
    array([ True, False])
    """

    by_view: Mapping[str, Any] = field(default_factory=dict)

    def describe(self, pictures: Sequence[Any], texts: Sequence[str]) -> Features:
        """Return the features of items; what an encoder knows nothing of counts as absent."""
        raw = {"image": pictures, "text": texts}
        views: dict[str, Matrix] = {}
        present: dict[str, Bools] = {}
        for view, encoder in self.by_view.items():
            views[view], present[view] = describe(encoder, view, raw[view])
        return Features(views, present)


def describe(encoder: Any, view: str, raw: Sequence[Any]) -> tuple[Matrix, Bools]:
    """Return one row an item, zero for those without the view, and which rows are not zero.

    Parameters
    ----------
    encoder : object with ``transform``
    view : {"image", "text"}
    raw : sequence of pictures or str, (n_items,)
        None or an empty text where an item lacks the view.
    """
    rows = np.flatnonzero([bool(value) for value in raw])
    if rows.size == 0:
        # Encoders need not cope with nothing, but the width has to come from somewhere.
        found = encoder.transform([_blank(view)])[:0]
    else:
        found = encoder.transform([raw[row] for row in rows.tolist()])
    if is_sparse(found):
        ones = np.ones(len(rows), found.dtype)
        places = sp.csr_array((ones, (rows, np.arange(len(rows)))), shape=(len(raw), len(rows)))
        matrix = sp.csr_array(places @ found)
        return matrix, np.diff(matrix.indptr) > 0
    matrix = np.zeros((len(raw), found.shape[1]), dtype=found.dtype)
    matrix[rows] = found
    return matrix, np.asarray(matrix.any(axis=1))


def _blank(view: str) -> Any:
    return "a" if view == "text" else require("PIL.Image").new("RGB", (8, 8))


@dataclass(frozen=True, eq=False)
class Coder:
    """A fitted model: gives items their codes and queries their vectors."""

    model: ACQH

    @property
    def code_bytes(self) -> int:
        """Bytes of a code."""
        return self.model.bytes_per_item

    def encode(
        self, features: Features, labels: Sequence[Sequence[str]]
    ) -> tuple[Array, list[str]]:
        """Code items by their labels, where the model knows them, and by their views.

        Parameters
        ----------
        features : Features
        labels : sequence of n_items sequences of str
            Those that the model was not fitted with are passed over.

        Returns
        -------
        codes : uint8 (n_items, n_codebooks)
        coded_by : list of str
            What each was coded by; empty where it has nothing that the model knows.
        """
        known = set(self.model.label_names_)
        sets = [set(names) & known for names in labels]
        labelled = np.array([bool(names) for names in sets])
        views = [name for name in self.model.n_features_in_ if name in features.views]
        present = {name: features.present[name] for name in views}
        seen = np.any([*present.values(), np.zeros(len(sets), dtype=bool)], axis=0)
        vectors = np.zeros((len(sets), self.model.n_components), self.model.codebooks_.dtype)
        if (rows := np.flatnonzero(seen)).size:
            data = MultiViewData(
                {name: features.views[name][rows] for name in views},
                present={name: present[name][rows] for name in views},
            )
            vectors[rows] = self.model.embed(data)
        if (rows := np.flatnonzero(labelled)).size:
            by_labels = self.model.embed(labels=[sets[row] for row in rows])
            share = np.where(seen[rows], LABEL_SHARE, 1.0).astype(vectors.dtype)[:, np.newaxis]
            vectors[rows] = share * by_labels + (1 - share) * vectors[rows]
        coded_by = [
            "+".join(
                [*(["labels"] if labelled[row] else []), *(v for v in views if present[v][row])]
            )
            for row in range(len(sets))
        ]
        return self._quantize(vectors), coded_by

    def _quantize(self, vectors: Floats) -> Array:
        metric = self.model.code_metric_
        return search_codes(vectors @ metric, self.model.codebooks_, metric=metric, n_threads=None)

    def query(self, view: str, features: Matrix) -> Floats:
        """Return the query vector of one row of features; (n_components,) float32."""
        return np.asarray(self.model.project(features, view=view)[0], dtype=np.float32)

    def query_of(self, code: bytes) -> Floats:
        """Return the query vector that stands for a stored item; (n_components,) float32."""
        codes = np.frombuffer(code, dtype=np.uint8)[np.newaxis]
        return np.asarray(self.model.project_codes(codes)[0], dtype=np.float32)
