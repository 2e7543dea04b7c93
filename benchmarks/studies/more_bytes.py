"""Does an item of more bytes rank better? Codes of 1 to 8 bytes against vectors without codes.

``python -m benchmarks.studies.more_bytes`` prints one JSON line a data set, seed and direction;
needs the data files (set ACQH_DATA). Database items are not trained on, have no labels and are
encoded from the searched view. ``exact``: vectors before quantization.
``posterior_mean``: the mean of the label vectors, each weighted by how probable it is given the
predicted vector (normal around the mean prediction of each label set). ``nearest``: the most
probable label vector alone.
"""

import argparse
from typing import Any

import numpy as np

import acqh
from acqh.bench import make_split
from acqh.metrics import mean_average_precision, relevance
from benchmarks._measure import emit

BYTES = (1, 2, 4, 8)


def posterior(model: acqh.ACQH, train: Any, view: str, items: Any) -> tuple[Any, Any]:
    """Return the vectors of label sets, and how probable each is for every item."""
    sets, numbers, counts = np.unique(train.labels, axis=0, return_inverse=True, return_counts=True)
    embedded = model.embed({view: train.views[view]}).astype(np.float64)
    means = np.stack(
        [embedded[numbers.ravel() == number].mean(axis=0) for number in range(len(sets))]
    )
    left = embedded - means[numbers.ravel()]
    values, vectors = np.linalg.eigh(left.T @ left / len(left))
    keep = values > 1e-6 * values[-1]
    white = vectors[:, keep] / np.sqrt(values[keep])
    points, centres = items @ white, means @ white
    log = points @ centres.T - np.square(centres).sum(axis=1) / 2 + np.log(counts)
    shares = np.exp(log - log.max(axis=1, keepdims=True))
    return model.embed(labels=sets), shares / shares.sum(axis=1, keepdims=True)


def measure(data: Any, seed: int, maps: str | None) -> list[dict[str, Any]]:
    parts = make_split(data, "unlabelled", seed=seed).parts(data)
    relevant = relevance(parts.query.labels, parts.database_labels)
    models = {
        m: acqh.ACQH(32, n_codebooks=m, feature_maps=maps, random_state=seed).fit(parts.train)
        for m in BYTES
    }
    lines = []
    for view, other in (("image", "text"), ("text", "image")):
        query_views = {other: parts.database.views[other]}

        def score(model: acqh.ACQH, items: Any, view: str = view) -> float:
            ranked = model.project(parts.query.views[view], view=view) @ items.T
            return round(mean_average_precision(ranked.astype(np.float32), relevant), 4)

        coded = {
            m: score(fitted, fitted.decode(fitted.encode(query_views)))
            for m, fitted in models.items()
        }
        model = models[BYTES[-1]]
        exact = model.embed(query_views)
        labels, shares = posterior(model, parts.train, other, exact)
        lines.append(
            {
                "direction": f"{view}->{other}",
                "map_by_bytes": coded,
                "exact": score(model, exact),
                "nearest": score(model, labels[shares.argmax(axis=1)]),
                "posterior_mean": score(model, shares @ labels),
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=None, help="folder with the data; default $ACQH_DATA")
    parser.add_argument("--maps", help="feature maps, such as kernel; default none")
    arguments = parser.parse_args()
    for name in ("uci_mfeat", "wiki", "emoji"):
        data = acqh.load_dataset(name, arguments.data_dir)
        for seed in (0, 1):
            for record in measure(data, seed, arguments.maps):
                line = {"benchmark": "more_bytes", "data": name, "maps": arguments.maps}
                emit({**line, "seed": seed, **record})


if __name__ == "__main__":
    main()
