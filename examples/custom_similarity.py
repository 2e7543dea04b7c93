"""Search by a similarity and a feature map of your own.

Run with ``python examples/custom_similarity.py``; takes a few seconds.
"""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

import acqh
from acqh.features import TagSVD


class LogCounts(TransformerMixin, BaseEstimator):
    """A feature map is any scikit-learn transformer; this one damps counts of words."""

    def fit(self, X, y=None):  # noqa: ARG002
        """Remember the width: there is nothing to learn."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        """Return log(1 + count), as sparse as the counts."""
        return X.astype(np.float32).log1p()


def squared_cosine(a, b):
    """Return the squared cosine of label sets: partly shared labels count for less."""
    norms = np.outer(a.sum(axis=1), b.sum(axis=1))
    return (a @ b.T) ** 2 / np.maximum(norms, 1)


data = acqh.load_dataset("emoji")
train, query = data.split(test_size=0.2, groups="family", random_state=0)
groups = [train.label_names[column] for column in train.labels.argmax(axis=1)]
labels = [set(pair) for pair in zip(groups, train.items["subgroup"], strict=True)]

for similarity in ("shared", squared_cosine):
    maps = {"text": make_pipeline(LogCounts(), TagSVD(200, random_state=0))}
    model = acqh.ACQH(n_codebooks=4, similarity=similarity, feature_maps=maps, random_state=0)
    model.fit(train.views, labels)
    index = acqh.CodeIndex(model.codebooks_).add(model.encode(labels=labels))
    hits = index.search(model.project(query.views["text"], view="text"), k=10)

    subgroups = np.array(train.items["subgroup"])[hits.ids]
    same = np.mean(subgroups == np.array(query.items["subgroup"])[:, None])
    name = similarity if isinstance(similarity, str) else similarity.__name__
    print(f"fitted to {name}: {same:.0%} of the first 10 hits are in the query's subgroup")
