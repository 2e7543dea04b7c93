r"""A method and a data set of one's own, for ``acqh bench``.

Without installing anything::

    acqh bench emoji --methods acqh --method-file acqh_plugin_example.py:LabelCentroids \
        --out results

After ``pip install .`` in this folder, both have names like all others::

    acqh bench rings --methods acqh,label-centroids --out results
"""

import numpy as np

from acqh.data import MultiViewData, NamedDataset
from acqh.methods import BaseMethod, register


@register(
    name="label-centroids",
    title="Nearest mean of a label",
    reference="Yours",
    year=2026,
    supervised=True,
    code="additive",
    modes=("single",),
)
class LabelCentroids(BaseMethod):
    """Store an item as the label whose mean is nearest; one byte per item.

    Parameters
    ----------
    sharpness : float
        How fast the score of a label falls with the distance from its mean.
    """

    def __init__(self, sharpness: float = 1.0) -> None:
        self.sharpness = sharpness

    def fit(self, views, labels=None):
        """Learn the mean of the items of each label, in each view."""
        data = MultiViewData(views, labels)
        members = np.asarray(data.labels, dtype=np.float64)
        counts = np.maximum(members.sum(axis=0), 1)[:, None]
        self.means_ = {view: members.T @ rows / counts for view, rows in data.views.items()}
        self.n_features_in_ = {view: rows.shape[1] for view, rows in data.views.items()}
        self.label_names_ = data.label_names
        return self

    def project(self, X, *, view):
        """Return a score of each label."""
        rows = self._check_view(X, view)
        distances = ((rows[:, None, :] - self.means_[view]) ** 2).sum(axis=2)
        return np.exp(-self.sharpness * distances / distances.mean())

    def encode(self, views=None, *, labels=None, mode=None):
        """Return the number of the best label."""
        self._check_mode(views, labels, mode)
        ((view, rows),) = views.items()
        return self.project(rows, view=view).argmax(axis=1).astype(np.uint8)[:, None]

    def decode(self, codes):
        """Return one-hot vectors, so that an item's score is that of its label."""
        return np.eye(len(self.label_names_), dtype=np.float32)[codes[:, 0]]

    @property
    def bytes_per_item(self):
        """One."""
        return 1


def load_rings(folder, n_items: int = 600) -> MultiViewData:  # noqa: ARG001
    """Return points on three rings, seen from two sides; nothing is read from the data folder."""
    rng = np.random.default_rng(0)
    ring = np.arange(n_items) % 3
    angle = rng.uniform(0, 2 * np.pi, n_items)
    radius = 1 + ring + rng.normal(scale=0.2, size=n_items)
    image = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    text = np.stack([radius, radius**2, rng.normal(size=n_items)], axis=1)
    return MultiViewData({"image": image, "text": text}, ring, name="rings")


RINGS = NamedDataset(
    description="Points on three rings",
    load=load_rings,
    n_items=600,
    n_labels=3,
    views={"image": "2-d position", "text": "radius, its square, and noise"},
    source="made by the example",
    differences="the paper does not use it",
    # By view, what is done to the features first; fitted on training rows.
    preparation={"text": {"class": "StandardScaler", "params": {}}},
)
