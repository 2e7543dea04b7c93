r"""Template of a method: copy it, change it, and run it next to the others.

acqh bench emoji --methods acqh,label-ridge --method-file examples/method_template.py:Mine \
    --bytes 4 --out results
acqh report results
"""

import numpy as np

from acqh.data import MultiViewData
from acqh.methods import BaseMethod, register


@register(
    name="mine",
    title="Signs of random label projections",
    reference="Yours, 2026",
    supervised=True,  # `fit` needs labels
    code="binary",  # or "additive" or "real"
    modes=("single", "fused"),  # an item is encoded from one view, or from all
)
class Mine(BaseMethod):
    """The bench sets `n_bits` to the requested size and `random_state` to the seed."""

    def __init__(self, n_bits=32, random_state=0):
        self.n_bits, self.random_state = n_bits, random_state

    def fit(self, views, labels=None):
        """Learn from paired rows of all views, and their labels."""
        data = MultiViewData(views, labels)
        self.n_features_in_ = {view: rows.shape[1] for view, rows in data.views.items()}
        self.label_names_ = data.label_names
        rng = np.random.default_rng(self.random_state)
        bits = np.asarray(data.labels, float) @ rng.normal(size=(data.labels.shape[1], self.n_bits))
        self.maps_ = {
            view: np.linalg.lstsq(_with_one(rows), bits - bits.mean(axis=0), rcond=1e-3)[0]
            for view, rows in data.views.items()
        }
        return self

    def project(self, X, *, view):
        """Turn queries into vectors; their inner products with decoded items are the scores."""
        return _with_one(self._check_view(X, view)) @ self.maps_[view]

    def encode(self, views=None, *, labels=None, mode=None):
        """Turn items into codes: rows of uint8."""
        self._check_mode(views, labels, mode)
        vectors = [self.project(rows, view=view) for view, rows in views.items()]
        return np.packbits(np.mean(vectors, axis=0) > 0, axis=1)

    def decode(self, codes):
        """Return the reconstructions of codes."""
        return 2.0 * np.unpackbits(codes, axis=1, count=self.n_bits) - 1.0

    @property
    def bytes_per_item(self):
        """Eight bits each."""
        return -(-self.n_bits // 8)


def _with_one(rows):
    dense = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, float)
    return np.concatenate([dense, np.ones((len(dense), 1))], axis=1)
