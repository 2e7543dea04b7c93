"""Targets, compared with a slow transcription row by row without statistics."""

import numpy as np
import pytest

import acqh

WEIGHTS = {"labels": 0.5, "image": 0.3, "text": 0.2}
TRUST = {"labels": 1.0, "image": 1.0, "text": 0.3}
RIDGE = 1e-2


def blocks_of(X, L, has):
    """Return the block of every target for every row that has it; NaN elsewhere."""
    n = len(L)
    result = {}
    label_rows = L[has["labels"]].astype(float)
    result["labels"] = np.full((n, L.shape[1]), np.nan)
    result["labels"][has["labels"]] = label_rows / np.sqrt(np.mean(np.sum(label_rows**2, axis=1)))
    for name, x in X.items():
        rows = x[has[name]]
        centred = rows - rows.mean(axis=0)
        result[name] = np.full(x.shape, np.nan)
        result[name][has[name]] = centred / np.sqrt(np.mean(np.sum(centred**2, axis=1)))
    return result


def ridge_fit(x, y):
    """Return what predicts y, and the covariance of its error on other rows."""
    n = len(x)
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    gram = (x - mean_x).T @ (x - mean_x)
    inverse = np.linalg.inv(gram + RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram)))
    P = inverse @ (x - mean_x).T @ (y - mean_y)
    error = y - mean_y - (x - mean_x) @ P
    freedom = np.trace(inverse @ gram) + 1
    return (
        lambda new: mean_y + (new - mean_x) @ P,
        error.T @ error / n / (1 - freedom / n) ** 2,
    )


def root(C):
    values, vectors = np.linalg.eigh(C)
    values = np.maximum(values, 1e-10 * values[-1])
    return (vectors * np.sqrt(values)) @ vectors.T


class Oracle:
    def __init__(self, X, L, has):
        self.X, self.blocks, self.has = X, blocks_of(X, L, has), has
        # Labels are a source like any view.
        self.sources = {**X, "labels": np.nan_to_num(self.blocks["labels"])}
        self.mean = np.concatenate(
            [
                np.sqrt(WEIGHTS[name]) * np.nanmean(block, axis=0)
                for name, block in self.blocks.items()
            ]
        )
        self.models = {}
        for source, x in self.sources.items():
            for target, block in self.blocks.items():
                both = has[source] & has[target]
                if source != target:
                    self.models[source, target] = ridge_fit(x[both], block[both])

    def stretch(self, point):
        """Return where the ray from the mean through a point has the usual length."""
        away = point - self.mean
        quadratic = [away @ away, 2 * away @ self.mean, self.mean @ self.mean - 1]
        return self.mean + max(np.roots(quadratic)) * away

    def embed(self, row, inputs):
        """Return all blocks of one row, some of whose sources are available."""
        parts = []
        for target, block in self.blocks.items():
            others = [source for source in inputs if source != target]
            trust = 0.0
            if target in inputs:
                trust = TRUST[target] if others else 1.0
            if trust == 1:
                parts.append(np.sqrt(WEIGHTS[target]) * block[row])
                continue
            present = block[self.has[target]]
            mean, spread = present.mean(axis=0), root(np.cov(present.T, bias=True))
            white = np.linalg.inv(spread)
            total, pulled = np.eye(len(mean)), np.zeros(len(mean))
            for source in others:
                predict, error = self.models[source, target]
                values, vectors = np.linalg.eigh(white @ error @ white)
                precision = (vectors / np.clip(values, 1e-6, 1.0)) @ vectors.T
                total = total + precision - np.eye(len(mean))
                pulled = pulled + precision @ white @ (predict(self.sources[source][row]) - mean)
            predicted = (1 - trust) * (mean + spread @ np.linalg.solve(total, pulled))
            exact = trust * block[row] if trust else 0.0
            parts.append(np.sqrt(WEIGHTS[target]) * (predicted + exact))
        return np.concatenate(parts)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    L = (rng.random((60, 3)) < 0.4).astype(np.uint8)
    L[~L.any(axis=1), 0] = 1
    X = {
        name: L @ rng.normal(size=(3, width)) + rng.normal(size=(60, width))
        for name, width in (("image", 5), ("text", 4))
    }
    rows = np.arange(60)
    has = {"image": rows % 6 != 1, "text": rows % 5 != 2, "labels": rows % 3 != 0}
    has["text"] |= ~has["image"]
    labels = L * has["labels"][:, None]
    data = acqh.MultiViewData(X, labels, present={n: has[n] for n in X})
    model = acqh.ACQH(
        64,
        n_codebooks=2,
        codebook_size=8,
        similarity="dot",
        targets={name: acqh.Target(w, caption_weight=TRUST[name]) for name, w in WEIGHTS.items()},
        ridge=RIDGE,
        random_state=0,
    ).fit(data)
    return model, Oracle(X, L, has), X, L, data


WAYS = [
    ("image",),
    ("text",),
    ("labels",),
    ("image", "text"),
    ("image", "labels"),
    ("image", "text", "labels"),
]


@pytest.mark.parametrize("inputs", WAYS)
def test_unquantized_scores_are_those_of_the_transcription(case, inputs):
    model, oracle, X, L, _ = case
    full = oracle.has["labels"] & oracle.has["image"] & oracle.has["text"]
    rows = np.flatnonzero(full)[:12]
    items = np.array([oracle.stretch(oracle.embed(row, inputs)) for row in rows])
    views = {name: X[name][rows] for name in inputs if name != "labels"}
    labels = L[rows] if "labels" in inputs else None
    vectors = model.embed(views or None, labels=labels)
    for view in X:
        queries = np.array([oracle.embed(row, (view,)) for row in rows])
        scores = model.project(X[view][rows], view=view) @ vectors.T
        np.testing.assert_allclose(scores, queries @ items.T, atol=1e-8)


def test_maps_are_the_principal_components_in_the_metric_of_queries(case):
    model, oracle, X, _, data = case
    points = []
    n = len(oracle.has["image"])
    inputs = [tuple(name for name in oracle.has if oracle.has[name][row]) for row in range(n)]
    points += [(oracle.embed(row, inputs[row]), 1 / n) for row in range(n)]
    alone = [(row, view) for view in X for row in np.flatnonzero(oracle.has[view])]
    metric = 0.0
    for view in X:
        queries = np.array(
            [oracle.embed(row, (view,)) for row, own_view in alone if own_view == view]
        )
        moment = queries.T @ queries
        metric = metric + moment / np.trace(moment) / len(X)
    points += [(oracle.embed(row, (view,)), 1 / len(alone)) for row, view in alone]
    vectors = np.array([oracle.stretch(point) for point, _ in points])
    weights = np.array([weight for _, weight in points])
    half = root(metric)
    energies = np.linalg.eigvalsh(half @ (vectors.T * weights) @ vectors @ half)[::-1]
    placed = [model.embed(data, labels=data.labels)]
    placed += [model.embed({view: X[view][oracle.has[view]]}) for view in X]
    result = np.concatenate(placed)
    spread = (result.T * weights) @ result
    np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=1e-8)
    # Code vectors are the components, scaled to a mean squared length of one.
    rank = np.count_nonzero(np.diag(spread) > 1e-9)
    shares = np.diag(spread)[:rank] / np.trace(spread)
    np.testing.assert_allclose(shares, energies[:rank] / energies.sum(), atol=1e-8)
