"""Train the built-in image-text model (encoders/builtin/builtin.npz) from what a training left.

    python tools/learn_image_network.py pack ...   # photographs and captions, on any machine
    python tools/learn_image_network.py train ...  # the image network, on a GPU
    python tools/train_builtin_model.py FOLDER     # this
    python tools/train_class_evidence.py ...       # what the network knows of classes
    python tools/train_codebooks.py ...            # codebooks for the queries, on a GPU

FOLDER has ``network.npz`` (weights, the head, and the space of captions it was trained towards)
and ``features.npz`` (features of the training photographs, on the axes that matter). The map from
images to captions is the head: a ridge regression on features of a network trained on the captions
overfits. R@10 of 1,000 held-out photographs is 0.716 with a ridge of 0.1, 0.729 with 1, 0.737 by
the head, and 0.743 without its bias. It is kept as the sums of a regression that
gives it back, so that pairs of one's own can be added. Codebooks take some minutes on one core.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from acqh.quantize import AdditiveQuantizer

N_AXES, N_COMPONENTS = 512, 384
# Codes are of the leading components.
N_CODED = 256
RIDGE = 0.01
SIZES = (8, 16)
N_SWEEPS, RIDGE_OF_WORDS = 2, 20.0
# Without class evidence; tools/train_class_evidence.py adds it, and writes the version shipped.
VERSION = 3
Floats = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("src/acqh/encoders"))
    arguments = parser.parse_args()
    network = dict(np.load(arguments.folder / "network.npz"))
    features = np.load(arguments.folder / "features.npz")
    head = network.pop("head").astype(np.float64)
    del network["bias"]  # the mean of captions does better on held-out photographs
    text_mean, text_axes = network.pop("text_mean"), network.pop("text_axes")
    np.savez_compressed(arguments.out / "efficientnet.npz", **network)

    rows = features["rows"].astype(np.float32) * features["step"]
    texts = unit(features["texts"].astype(np.float32) - text_mean) @ text_axes
    basis, mean = features["basis"].astype(np.float64), features["mean"]
    axes, variance = chosen_axes(rows, basis.T @ head)
    mapped = rows @ axes
    weights = axes.T @ basis.T @ head * (np.abs(text_axes).sum(axis=0) > 0)
    # Contrast leaves the length of predictions open; here it is that of what captions show of it.
    average = texts.mean(axis=0)
    predicted = mapped @ weights
    weights *= np.sum(predicted * (texts - average)) / np.sum(predicted**2)
    predicted = mapped @ weights + average
    level = RIDGE * variance.mean()
    arrays = {
        "image_mean": mean,
        "image_axes": basis @ axes,
        "text_mean": text_mean,
        "text_axes": text_axes,
        "image_variance": variance,
        "cross": (variance + level)[:, np.newaxis] * weights,
        "text_average": average,
        "text_variance": np.mean(np.square(texts), axis=0),
    }
    items = unit(predicted)
    arrays |= components(items, unit(texts))
    for size in SIZES:
        arrays[f"codebooks_{size}"] = codebooks(items @ arrays["to_item"], size)
    packed = {name: array.astype(np.float16) for name, array in arrays.items()}
    for name in ("image_mean", "image_variance", "text_mean", "text_average", "text_variance"):
        packed[name] = arrays[name].astype(np.float32)
    packed["version"] = np.array(VERSION)
    packed["facts"] = np.array([RIDGE, len(rows)])
    path = arguments.out / "builtin" / "builtin.npz"
    np.savez_compressed(path, **packed)
    print(json.dumps({"pairs": len(rows), "bytes": path.stat().st_size}))


def chosen_axes(rows: Floats, head: Floats) -> tuple[Floats, Floats]:
    """Return principal axes of a part of the space that has all of the head, and the variances."""
    needed = np.linalg.qr(head)[0]
    moments = (rows.T @ rows / len(rows)).astype(np.float64)
    rest = np.eye(len(moments)) - needed @ needed.T
    more = leading(rest @ moments @ rest, N_AXES - needed.shape[1])[1]
    part = np.linalg.qr(np.hstack([needed, more]))[0]
    variance, rotation = leading(part.T @ moments @ part, N_AXES)
    return part @ rotation, variance


def components(items: Floats, queries: Floats) -> dict[str, Floats]:
    """Return the rotations of items and queries onto the components that scores need.

    Items are weighed by the fourth root of the second moment of queries: half way between the plain
    metric and that of the queries.
    """
    moments, axes = leading(queries.T @ queries / len(queries), queries.shape[1])
    root = np.maximum(moments, 1e-9) ** 0.25
    weigh, undo = (axes * root) @ axes.T, (axes / root) @ axes.T
    _, rotation = leading(weigh @ (items.T @ items / len(items)) @ weigh, N_COMPONENTS)
    return {"to_item": weigh @ rotation, "to_query": undo @ rotation}


def leading(moments: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the n largest eigenvalues, descending, and their vectors in columns."""
    values, vectors = np.linalg.eigh(moments.astype(np.float64))
    return values[::-1][:n], vectors[:, ::-1][:, :n]


def unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def codebooks(vectors: Floats, size: int, weights: Floats | None = None) -> Floats:
    """Return codebooks of that many bytes, zero in the components that they skip."""
    quantizer = AdditiveQuantizer(size, ridge=RIDGE_OF_WORDS, max_iter=N_SWEEPS, random_state=0)
    quantizer.fit(vectors[:, :N_CODED].astype(np.float32), sample_weight=weights)
    return np.pad(quantizer.codebooks_, ((0, 0), (0, 0), (0, vectors.shape[1] - N_CODED)))


if __name__ == "__main__":
    main()
